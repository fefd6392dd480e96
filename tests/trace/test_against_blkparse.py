"""The recorded traces, against what blkparse printed of them, and prints of them here."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run

TRACES = Path(__file__).parent.parent / "data" / "traces"
NAMES = ("pgbench-raid1", "scsi-errors", "bfq")


def expected(trace: str, file: str) -> str:
    """The recorded output, decompressed, without the lines that name blkparse's input files."""
    path = TRACES / trace / "expected" / file
    text = subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True).stdout
    return "".join(line for line in text.decode().splitlines(True) if not line.startswith("Input "))


def printed(run: Run, *arguments: str) -> str:
    result = run("trace", "events", *arguments)
    assert result.status == 0, result.err
    lines = result.out.splitlines(True)
    return "".join(line for line in lines if not line.startswith("Input file "))


@pytest.mark.parametrize(("trace", "device"), [("pgbench-raid1", "dm-0"), ("scsi-errors", "sda"), ("bfq", "vdc")])
def test_events_equal_the_recorded_text(run: Run, trace: str, device: str) -> None:
    assert printed(run, str(TRACES / trace / device)) == expected(trace, f"{device}.blkparse.txt.zst")


@pytest.mark.parametrize("trace", NAMES)
def test_events_of_a_whole_set_equal_blkparse_line_for_line(run: Run, tmp_path: Path, trace: str) -> None:
    for file in (TRACES / trace).glob("*.zst"):
        subprocess.run(["zstd", "-dq", str(file), "-o", str(tmp_path / file.stem)], check=True)
    names = sorted({file.name.split(".")[0] for file in tmp_path.iterdir()})
    inputs = [argument for name in names for argument in ("-i", name)]
    blkparse = subprocess.run(["blkparse", *inputs], cwd=tmp_path, capture_output=True, check=True, text=True)
    theirs = [line for line in blkparse.stdout.splitlines() if not line.startswith("Input file ")]
    assert printed(run, str(tmp_path)).splitlines() == theirs


def test_the_summary_of_a_compressed_set_is_the_recorded_one(run: Run) -> None:
    text = printed(run, str(TRACES / "pgbench-raid1"))
    recorded = (TRACES / "pgbench-raid1" / "expected" / "ALL.summary.txt").read_text()
    wanted = [line for line in recorded.splitlines() if not line.startswith("Input file ")]
    assert text.splitlines()[-len(wanted) :] == wanted


FIGURES = {
    "Queued": "queued",
    "Dispatches": "dispatched",
    "Requeued": "requeued",
    "Completed": "completed",
    "Merges": "merged",
}


def test_every_figure_of_the_summary_is_in_the_profile(run: Run) -> None:
    result = run("trace", "stat", "--json", str(TRACES / "pgbench-raid1"))
    devices = {device["name"]: device for device in json.loads(result.out)["summary"]}
    text = (TRACES / "pgbench-raid1" / "expected" / "ALL.summary.txt").read_text()
    compared = 0
    for block in re.split(r"\n(?=CPU\d+ \(|Total \()", "\n" + text)[1:]:
        head = re.match(r"(?:CPU(\d+)|Total) \((.+)\):", block)
        assert head is not None
        device = devices[head[2]]
        tally = device["cpus"][head[1]] if head[1] else device["total"]
        for side, what, count, kib in re.findall(r"(Read|Write)s? (\w+):\s+(\d+)(?:,\s+(\d+)KiB)?", block):
            if what == "depth":
                assert device["max_depth"][side == "Write"] == int(count)
            else:
                actual = tally[FIGURES[what]][side == "Write"]
                assert actual["count"] == int(count)
                assert not kib or actual["bytes"] // 1024 == int(kib)
            compared += 1
        for what, count in re.findall(r"(IO|Timer) unplugs:\s+(\d+)", block):
            assert tally["unplugs" if what == "IO" else "timer_unplugs"] == int(count)
            compared += 1
    assert compared > 150
