"""`blklab run`, from the command line to what is printed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
UNBALANCED = EXAMPLES / "unbalanced.toml"


def test_a_dry_run_shows_the_cells(run: Run) -> None:
    outcome = run("run", UNBALANCED, "--dry-run", "--only", "stack=near,workload=rand4*")
    assert (outcome.status, outcome.err) == (0, "")
    assert "An SSD and an NVMe, mirrored four ways: 2 cells" in outcome.out
    assert "near: md RAID-10 n2 512K [nvme ssd]" in outcome.out
    assert "10 GiB" in outcome.out
    words = " ".join(outcome.out.split())
    assert "rand40read: rw=randrw rwmixread=40 bs=4k" in words
    assert "iodepth=32 numjobs=4 size=8g runtime=60s" in words


def test_what_is_varied_has_a_column(run: Run) -> None:
    outcome = run("run", EXAMPLES / "spindles.toml", "--dry-run", "--set", "numjobs=[2, 7]")
    assert outcome.status == 0
    assert "Ten spindles, RAID-10 far 2: 2 cells" in outcome.out
    assert "numjobs=7" in outcome.out


def test_a_replay_is_shown(run: Run) -> None:
    outcome = run("run", EXAMPLES / "replay.toml", "--dry-run")
    assert "replay of md127, 17,929 I/Os" in outcome.out


def test_a_dry_run_prints_the_cells_as_json(run: Run) -> None:
    outcome = run(
        "run", UNBALANCED, "--dry-run", "--json", "--seed", 9, "--set", "kernel=6.1",
        "--set", "stack=far", "--only", "workload=seqread",
    )  # fmt: skip
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    (cell,) = document["cells"]
    assert cell["labels"] == {"stack": "far", "workload": "seqread", "repeat": "1"}
    assert (cell["cell"]["seed"], cell["cell"]["kernel"]) == (9, "6.1")
    assert cell["capacity_bytes"] == 10 << 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'EXPERIMENT'"),
        (["nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
        ([UNBALANCED, "--only", "stack"], "'stack': LABEL=PATTERN is wanted, such as stack=raid1"),
        ([UNBALANCED, "--only", "stak=x"], "nothing is called 'stak'; did you mean 'stack'?"),
        ([UNBALANCED, "--only", "stack=x"], "--only stack=x: none of the 48 cells is so"),
        ([UNBALANCED, "--set", "x"], "--set 'x': KEY=VALUE is wanted, such as iodepth=8"),
        ([UNBALANCED, "--set", "kernel=x"], "--set kernel: 'x' is no kernel generation"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_status_2(run: Run, arguments: list[object], said: str) -> None:
    outcome = run("run", *arguments, "--dry-run")
    assert (outcome.status, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_schema_is_printed(run: Run) -> None:
    outcome = run("run", "--schema")
    assert outcome.status == 0
    assert json.loads(outcome.out)["title"] == "blklab experiment"


def test_pydantic_is_imported_when_needed() -> None:
    script = (
        "import sys; from blklab.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
