"""Examples in real guests, briefly: each measures a few of its cells."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run

pytestmark = [pytest.mark.guest, pytest.mark.proof, pytest.mark.usefixtures("guest_image")]

EXAMPLES = Path(__file__).parents[3] / "examples"
SHORT = ("--set", "runtime=2s", "--set", "kernel=6.1")
SMALL = ("--set", "size=64MiB")
ARGUMENTS = {
    "article-2008-spindles": (
        *SMALL,
        "--set",
        "hitachi.size=1GiB",
        "--set",
        "wd.size=1GiB",
        "--only",
        "numjobs=16,bs=64k",
    ),
    "article-2017-caches": (
        *SMALL,
        "--set",
        "offset_increment=64MiB",
        "--set",
        "hdd.size=1GiB",
        "--set",
        "ssd.size=256MiB",
        # LVM refuses a cache on a disk with a latency, which it sees twice.
        "--set",
        "ssd.latency_ns=0",
    ),
    "article-2019-mirrors": (*SMALL, "--set", "max_ios=500", "--only", "stack=fast-raid1,workload=randread"),
    "delay": (*SMALL, "--only", "stack=distant,workload=read"),
    "load": (*SMALL, "--only", "stack=flash", "--set", "runtime=200ms", "--set", "ssd.size=1GiB"),
    "mirrors": (*SMALL, "--set", "ramp_time=0", "--only", "stack=raid1-flash"),
    "replay": ("--only", "stack=recorded"),
    "saturation": (*SMALL, "--set", "hitachi.size=1GiB", "--set", "wd.size=1GiB", "--only", "numjobs=4,bs=64k"),
    "server": ("--only", "stack=mixed-raid1,workload=closed"),
    "unbalanced": (*SMALL, "--only", "stack=far,workload=randread"),
}


@pytest.mark.parametrize("example", ARGUMENTS)
def test_an_example_runs_in_the_lab(run: Run, example: str) -> None:
    outcome = run(
        "run", EXAMPLES / f"{example}.toml", "--on", "lab", *SHORT, *ARGUMENTS[example], "--json", "--no-store"
    )
    assert outcome.status == 0, outcome.err
    for result in json.loads(outcome.out):
        assert result["read"]["iops"] + result["write"]["iops"] > 0
        assert result["lab"]["kernel"].startswith("6.1")
