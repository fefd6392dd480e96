"""`blklab import`, from the command line."""

import io
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from blklab.campaigns.runs import when
from blklab.cli.import_ import FORMATS
from blklab.importers import collect
from blklab.store import query
from blklab.store.campaigns import Store
from tests.conftest import Run

DATA = Path(__file__).parents[1] / "data" / "imports"
ROOT = Path(__file__).parents[2]


def test_the_formats_of_the_option_are_those_of_the_registry() -> None:
    assert tuple(collect.FORMATS) == FORMATS


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


def test_nothing_is_kept_of_a_dry_run(run: Run) -> None:
    dry = run("import", DATA / "fio-3.25.txt", "--dry-run", "--label", "stack=far")
    assert "Not kept." in dry.out
    (batch,) = json.loads(run("import", DATA / "fio-3.25.txt", "--dry-run", "--json").out)
    assert (batch["experiment"], batch["runner"]) == ("fio-3.25", "fio")
    assert len(batch["runs"]) == 3
    assert not Path(os.environ["BLKLAB_STORE"]).exists()


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


DEVICES = ("array1", "array2", "disk1", "disk2")


def test_campaigns_of_devices_compare_and_report_like_a_labelled_campaign(run: Run, tmp_path: Path) -> None:
    for device in DEVICES:
        assert run("import", *sorted((DATA / "devices").glob(f"{device}-*"))).status == 0
        labelled = ("--name", "labelled", "--label", f"stack={device}")
        assert run("import", *sorted((DATA / "devices").glob(f"{device}-*")), *labelled).status == 0
    compared = json.loads(run("compare", "1", "3", "5", "7", "--metric", "iops", "--json").out)
    assert compared["sides"] == list(DEVICES)
    assert [row["labels"] for row in compared["rows"]] == [{"workload": "randread"}, {"workload": "randwrite"}]
    # From fio's own output: total_ios / runtime of each file.
    for row in compared["rows"]:
        for device, value in zip(DEVICES, row["values"], strict=True):
            name = f"{device}-{row['labels']['workload']}.json"
            (job,) = json.loads((DATA / "devices" / name).read_text())["jobs"]
            figures = job["read" if "read" in name else "write"]
            assert value["mean"] == pytest.approx(figures["total_ios"] * 1000 / figures["runtime"])
    by_label = json.loads(run("compare", "2", "4", "6", "8", "--metric", "iops", "--json").out)
    assert by_label["sides"] == list(DEVICES)  # the names are equal, the stacks differ
    assert by_label["rows"] == compared["rows"]
    page = tmp_path / "report.html"
    for numbers in (("1", "3", "5", "7"), ("2", "4", "6", "8")):
        assert run("report", *numbers, "-o", page).status == 0
        html = page.read_text()
        assert all(f"{device} randread" in html for device in DEVICES)


def test_files_of_devices_in_one_campaign_are_kept_apart(run: Run) -> None:
    done = run("import", *sorted((DATA / "devices").iterdir()))
    assert done.status == 0
    assert "Campaign 1: devices, on fio" in done.out
    shown = json.loads(run("runs", "show", "1", "--json").out)
    assert [(item["labels"]["device"], item["labels"]["workload"]) for item in shown] == [
        (device, workload) for device in ("loop0", "loop1", "loop2", "loop3") for workload in ("randread", "randwrite")
    ]
    assert {item["labels"]["repeat"] for item in shown} == {"1"}
    assert shown[0]["source"].endswith("devices/array1-randread.json")
    assert shown[0]["measured"].startswith("2026-11-22T18:45")
    between = run("compare", "1", "--between", "device", "--metric", "iops")
    assert between.status == 0
    split = run("import", *sorted((DATA / "devices").iterdir()), "--pattern", "{stack}-{workload}")
    assert split.status == 0
    labels = json.loads(run("runs", "show", "2", "--json").out)[-1]["labels"]
    assert (labels["stack"], labels["workload"]) == ("disk2", "randwrite")


def test_a_bad_file_is_named_and_the_others_are_imported(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"jobs": [')
    done = run("import", DATA / "fio-3.33.json", bad)
    assert done.status == 1
    assert "Campaign 1:" in done.out
    assert f"blklab: warning: {bad}: fio's JSON is invalid: it ends in line 1: not imported" in done.err
    assert "error: 1 of the inputs could not be imported (see above); 4 runs were" in done.err


def test_the_list_says_when_data_were_measured(run: Run) -> None:
    assert run("import", DATA / "devices" / "array1-randread.json").status == 0
    (campaign,) = json.loads(run("runs", "list", "--json").out)
    assert campaign["begun"] == datetime.fromtimestamp(1795373111, UTC).isoformat() != campaign["created"]
    assert when(campaign["begun"]) in run("runs", "list").out


def test_an_import_with_more_repeats_is_a_later_look(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "tests/data/imports/devices/disk1-randread.json").read_text()
    for count in (2, 3):
        directory = tmp_path / str(count)
        directory.mkdir()
        for number in range(1, count + 1):
            (directory / f"disk-{number}.json").write_text(text)
        assert run("import", directory, "--name", "disk", "--pattern", "disk-{repeat}.json").status == 0
    store = Store(reading=True)
    assert query.earlier_looks(store, [query.select_runs(store, "disk")]) == 1
    assert query.earlier_looks(store, [query.select_runs(store, "1")]) == 0


def write_nights(directory: Path, shift: int, repeats: int) -> None:
    """Writes results of one job, `shift` seconds later than the sample, with other names of files and logs."""
    document = json.loads((ROOT / "tests/data/imports/devices/disk1-randread.json").read_text())
    directory.mkdir()
    for number in range(1, repeats + 1):
        document["timestamp_ms"] += 1000 * (shift + number)
        for job in document["jobs"]:
            job["job options"]["write_bw_log"] = f"{directory.name}-{number}"
        (directory / f"night-{number}.json").write_text(json.dumps(document))


def test_the_same_cells_are_found_whatever_the_name_the_time_and_the_file(run: Run, tmp_path: Path) -> None:
    for night in range(5):
        directory = tmp_path / f"2026-11-0{night}"
        write_nights(directory, 86400 * night, 3)
        assert run("import", directory, "--name", f"n{night}", "--pattern", "night-{repeat}").status == 0
    write_nights(tmp_path / "more", 0, 5)
    assert run("import", tmp_path / "more", "--name", "again", "--pattern", "night-{repeat}").status == 0
    store = Store(reading=True)
    assert len({row.compared_cells for row in query.all_campaigns(store)}) == 1
    assert len({row.digest for row in query.all_campaigns(store)}) == 2
    assert query.earlier_looks(store, [query.select_runs(store, "again")]) == 1
    selections = [query.select_runs(store, name) for name in ("n3", "n4")]
    assert len(query.earlier_campaigns(store, selections)) == 4
    assert all("compared_cells" not in row.experiment for row in query.all_campaigns(store))


def test_columns_of_any_table(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "sweep.csv"
    table.write_text("threads,riops,lat_us\n1,100,9.5\n8,700,11\n")
    result = run("import", table, "--columns", "label.threads=threads,read.iops=riops,read.mean=lat_us", "--json")
    runs = json.loads(result.out)
    assert [each["labels"]["threads"] for each in runs] == ["1", "8"]
    for arguments, message in {
        ("--columns", "read.iops=2", "--format", "fio"): "--format and --columns exclude each other",
        ("--separator", "tab"): "--separator needs --columns",
        ("--columns", "read.iops=2:x"): f"{table}:1: no line has the columns 2:x; this one has threads, riops, lat_us",
    }.items():
        result = run("import", table, *arguments)
        assert result.err.strip() == f"blklab: error: {message}"


def test_results_without_a_common_figure_are_stored_without_a_verdict(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p95.csv"
    path.write_text("kernel,lat\n6.1,100\n6.8,120\n")
    columns = "label.kernel=kernel,read.p95=lat:us"
    outcome = run("import", path, "--columns", columns, "--store", tmp_path / "store.db")
    assert outcome.status == 0, outcome.err
    assert "worse" not in outcome.out
