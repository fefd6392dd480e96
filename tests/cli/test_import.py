"""`blklab import`, from the command line."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from blklab.cli.import_ import FORMATS
from blklab.imports import registry
from tests.conftest import Run

DATA = Path(__file__).parents[1] / "data" / "imports"
ROOT = Path(__file__).parents[2]


def test_the_formats_of_the_option_are_those_of_the_registry() -> None:
    assert tuple(registry.FORMATS) == FORMATS


def test_imported_runs_are_like_any_others(run: Run) -> None:
    done = run("import", DATA / "fio-3.33.json", "--name", "loop", "--title", "A loop device")
    assert done.status == 0
    assert "Campaign 1: A loop device, on fio" in done.out
    (campaign,) = json.loads(run("runs", "list", "--json").out)
    assert (campaign["name"], campaign["runner"]) == ("loop", "fio")
    assert campaign["states"]["done"] == 4
    (mixed,) = json.loads(run("runs", "show", "loop@fio:workload=mixed", "--json").out)
    assert mixed["read"]["total_ios"] > 0
    assert mixed["environment"]["imported"] is True
    assert run("import", DATA / "fio-3.33.txt", "--name", "text").status == 0
    compared = json.loads(run("compare", "loop", "text", "--metric", "iops", "--json").out)
    assert len(compared["rows"]) == 4
    for row in compared["rows"]:
        assert row["values"][0]["mean"] == pytest.approx(row["values"][1]["mean"])
    assert "randread" in run("runs", "show", "text:workload=clones", "--raw").out


def test_predictions_are_compared_with_publications(run: Run) -> None:
    experiment = ROOT / "examples" / "unbalanced.toml"
    assert run("run", experiment, "--only", "stack=near,workload=randread,kernel=4.19").status == 0
    renames = ["--rename", "stack:fast-raid10=near", "--rename", "device:sdc=ssd"]
    assert run("import", ROOT / "reference", *renames).status == 0
    result = json.loads(
        run("compare", "unbalanced@sim", "published:stack=near", "--metric", "iops", "--json").out
    )
    (row,) = [item for item in result["rows"] if None not in item["values"]]
    assert row["labels"]["workload"] == "randread"
    assert row["values"][1]["mean"] == 207520.7


def test_nothing_is_kept_of_a_dry_run(run: Run) -> None:
    dry = run("import", DATA / "form-randomio.txt", "--dry-run", "--label", "stack=far")
    assert "Not kept." in dry.out
    (batch,) = json.loads(run("import", DATA / "form-randomio.txt", "--dry-run", "--json").out)
    assert (batch["experiment"], batch["runner"]) == ("form-randomio", "randomio")
    assert batch["runs"][2]["labels"]["numjobs"] == "64"
    assert not Path(os.environ["BLKLAB_STORE"]).exists()


def test_randomio_goes_round(run: Run, tmp_path: Path) -> None:
    assert run("import", DATA / "form-randomio.txt").status == 0
    table = run("runs", "show", "form-randomio", "--randomio").out
    (tmp_path / "again.txt").write_text(table)
    assert run("import", tmp_path / "again.txt").status == 0
    assert run("runs", "show", "again", "--randomio").out == table


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (DATA / "form-iostat-12.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    done = run("import", "-", "--device", "sda", "--json")
    (result,) = json.loads(done.out)
    assert (result["experiment"], result["runner"]) == ("stdin", "iostat")
    assert result["read"]["total_ios"] == 3200


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["nowhere"], 2, "nowhere: cannot be read: No such file or directory"),
        ([DATA / "README.md"], 2, "README.md: unknown format"),
        ([DATA / "iostat-3.10.txt"], 1, "only one report, which covers the time since boot"),
        ([DATA / "fio-3.25.txt", "--format", "iostat"], 1, "no table of iostat -x"),
        ([DATA / "fio-3.25.txt", "--label", "stack"], 2, "'stack': expected KEY=VALUE"),
        ([DATA / "fio-3.25.txt", "--label", "a:b=c"], 2, "'a:b=c': expected KEY=VALUE"),
        ([DATA / "fio-3.25.txt", "--rename", "a=b"], 2, "'a=b': expected LABEL:OLD=NEW"),
        ([DATA / "fio-3.25.txt", "--interval", "0s"], 2, "expected more than 0"),
        ([DATA / "fio-3.25.txt", "--name", "a@b"], 2, "'a@b': expected a name without @ : ~ /"),
    ],
)
def test_mistakes_are_one_line(run: Run, arguments: list[object], status: int, output: str) -> None:
    done = run("import", *arguments)
    assert done.status == status
    assert output in done.err
    assert "Traceback" not in done.err
