"""A repair that is killed, at any point, is gone on with: nothing is lost, and no list is left."""

import json
import os
from collections.abc import Callable, Sequence

import pytest

from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

EVERY = os.environ.get("BLKLAB_PROOF") == "every"
"""Every point, which takes minutes an array, or some."""

CASES = [
    # level, metadata, bitmap, members, spares, and the step between points that are tried
    ("1", "1.2", "none", 2, 0, 12),
    ("6", "1.0", "internal", 4, 1, 40),
    ("10", "1.1", "none", 4, 0, 0),
    ("5", "1.2", "none", 3, 1, 0),
]


@pytest.mark.guest
@pytest.mark.parametrize(("level", "metadata", "bitmap", "members", "spares", "step"), CASES)
def test_killed_and_gone_on_with(
    rig: Callable[[Sequence[VirtualDiskShape]], Rig],
    level: str,
    metadata: str,
    bitmap: str,
    members: int,
    spares: int,
    step: int,
) -> None:
    if not EVERY and not step:
        pytest.skip("BLKLAB_PROOF=every has it")
    shapes = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(members + spares)]
    machine = rig(shapes)
    disks = machine.names(shapes)
    output = machine.run(
        *payload.command("inside.killed"), "2", str(1 if EVERY else step), level, metadata, bitmap,
        str(spares), *disks,
    )  # fmt: skip
    lines = [json.loads(line) for line in output.stdout.splitlines()]
    assert lines[-1]["ended"] == 0, "it was killed at its last point too"
    assert len(lines) > 2
    for line in lines:
        now = line["now"]
        assert line["fio"] == 0, line
        assert line["mismatches"] == 0, line
        assert line["ended"] == 0 or line["resumed"] == 0, line
        assert (now["degraded"], now["unfinished"]) == (0, 0), line
        assert (now["bitmap"] == "none") == (bitmap == "none"), line
        assert len(now["states"]) == members + spares, line
        assert sorted(now["states"].values()) == ["in_sync"] * members + ["spare"] * spares, line
        # Before anything was written down there is nothing to go on with.
        untouched = line["ended"] != 0 and line["left"]["unfinished"] == 0
        wanted = "Bad-blocks list is empty in" if untouched else "No bad-blocks list configured on"
        assert set(now["lists"].values()) == {wanted}, line


SEEDS = range(0, 21 * 12, 21)
"""Arrays with entries: see `CONDITIONS` of inside.arrays."""


@pytest.mark.guest
def test_bad_ranges_are_written_again_wherever_it_is_killed(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    shapes = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(8)]
    machine = rig(shapes)
    levels, whole = set(), 0
    for at, seed in enumerate(SEEDS if EVERY else SEEDS[:3]):
        command = payload.command("inside.rewritten")
        # Other seeds meet other points.
        step = str((7 if EVERY else 31) + at)
        output = machine.run(*command, str(seed), step, *machine.names(shapes), check=False, timeout=3000)
        assert output.status == 0, output.stderr
        lines = [json.loads(line) for line in output.stdout.splitlines()]
        assert lines[-1]["ended"] == 0, "it was killed at its last point too"
        assert len(lines) > 1
        for line in lines:
            assert line["changed"] == 0, line
            assert line["lost"] == line["lost_before"], line
            assert line["ended"] == 0 or line["again"] == 0, line
            assert line["unfinished_now"] == 0, line
            assert line["ended"] < 0 or line["unfinished"] == 0, line
            assert (line["listed"] == 0) == (line["lost"] == 0), line
            assert line.get("mismatches", 0) == 0, line
            assert set(line.get("lists", ["No bad-bloc"])) == {"No bad-bloc"}, line
        levels.add(lines[0]["level"])
        whole += not lines[0]["lost"]
    assert len(levels) > 1
    assert whole
