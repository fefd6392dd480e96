"""The power fails in the midst of repairs: what was written is there, and --resume ends them."""

import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

EVERY = os.environ.get("BLKLAB_PROOF") == "every"
"""Every point at which a repair can be, or some."""

BETWEEN = 2
"""The point at which nothing has been done, and nothing is written down."""

FIO = [
    "fio", "--name=written", "--direct=1", "--bs=4k", "--size=4m", "--rw=randwrite",
    "--ioengine=libaio", "--iodepth=4", "--verify=crc32c", "--verify_fatal=1", "--randseed=7",
]  # fmt: skip

BUSY = [
    "fio", "--name=busy", "--direct=1", "--bs=4k", "--size=4m", "--offset=16m", "--rw=randwrite",
    "--time_based", "--runtime=300", "--rate_iops=100",
]  # fmt: skip
"""What is in flight when the power fails."""

PARITY = {"5", "6"}


@dataclass
class Repaired:
    """An array, and the repair of it that is cut short."""

    name: str
    level: str
    shapes: list[VirtualDiskShape]
    options: list[str]
    disks: list[str] = field(default_factory=list)
    frozen: threading.Event = field(default_factory=threading.Event)
    output: str = ""
    """What the repair has printed."""
    ended: bool = False
    more: bool = False
    """More was written while the repair stood still."""


def arrays() -> list[Repaired]:
    return [
        Repaired("md0", "1", [VirtualDiskShape(f"mirror{at}", 24 << 20) for at in range(2)], []),
        Repaired("md5", "5", [VirtualDiskShape(f"parity{at}", 24 << 20) for at in range(3)], ["--chunk=64"]),
    ]


def background(machine: Rig, command: list[str], *more: str, **options: Any) -> threading.Thread:
    """Runs something that the power's failure ends."""

    def run() -> None:
        with suppress(BlklabError):
            machine.run(*command, *more, **options)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def freeze(machine: Rig, item: Repaired, point: int, seconds: int = 600) -> None:
    """Begins a repair in the background, which stands still at a point, unless it ends before.

    Writes are suspended for `seconds`. If they resumed before the power fails, because the guest is slow, md would not
    start an array with parity: it would be dirty and degraded.
    """

    def heard(_stream: str, text: str) -> None:
        item.output += text
        if "FROZEN" in text:
            item.frozen.set()
        if "no member has" in text:
            item.ended = True
            item.frozen.set()

    command = payload.command("inside.frozen")
    background(machine, command, str(point), f"/dev/{item.name}", str(seconds), stream=heard)


def cut(machine: Rig, some: list[Repaired], points: Sequence[int]) -> None:
    """Has the power fail while repairs are at points; then all is gone on with, and looked at."""
    for item, point in zip(some, points, strict=True):
        item.frozen.clear()
        item.ended = item.more = False
        item.output = ""
        item.disks = machine.names(item.shapes)
        machine.run("mdadm", "--zero-superblock", *item.disks, check=False)
        machine.create(f"/dev/{item.name}", item.disks, f"--level={item.level}", "--bitmap=none", *item.options)
        machine.run(*FIO, f"--filename=/dev/{item.name}", "--do_verify=0")
        background(machine, BUSY, f"--filename=/dev/{item.name}")
        freeze(machine, item, point)
    for item in some:
        assert item.frozen.wait(600), (item.name, item.output)
        # While a member is out, what is written must reach it later. With parity it would wait.
        if item.level not in PARITY or machine.read(f"/sys/block/{item.name}/md/degraded") == "0":
            more = ["--offset=8m", "--do_verify=0", "--end_fsync=1"]
            machine.run(*FIO, f"--filename=/dev/{item.name}", *more)
            item.more = True
    machine.cut()
    machine.power()
    log = assemble(machine, some)
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, (points, output.stdout, output.stderr, machine.read("/proc/mdstat"), log)
    for item, point in zip(some, points, strict=True):
        looked_at(machine, item, point)


def assemble(machine: Rig, some: list[Repaired]) -> list[str]:
    """Assembles the arrays as udev does, and what it leaves inactive as an administrator does. Returns the output."""
    log = []

    def mdadm(*words: str) -> None:
        output = machine.run("mdadm", *words, check=False)
        log.append(f"mdadm {' '.join(words)}: {output.status} {output.stdout}{output.stderr}")

    for item in some:
        for disk in machine.names(item.shapes):
            mdadm("--incremental", disk)
    mdadm("--incremental", "--run", "--scan")
    # A member that was out may be seen first; mdadm then leaves the array inactive, without one of the others.
    inactive = re.findall(r"^(md\w+) : inactive (\w+)", machine.read("/proc/mdstat"), re.M)
    for node, first in inactive:
        disks = next(names for item in some if f"/dev/{first}" in (names := machine.names(item.shapes)))
        mdadm("--stop", f"/dev/{node}")
        mdadm("--assemble", "--run", f"/dev/{node}", *disks)
    return log


def looked_at(machine: Rig, item: Repaired, point: int) -> None:
    node = next(
        path.split("/")[3]
        for path, text in machine.guest.agent.read(["/sys/block/md*/md/level"]).items()
        if (text or "").strip() == f"raid{item.level}"
    )
    md, disks = f"/sys/block/{node}/md", machine.names(item.shapes)
    assert machine.read(f"{md}/degraded") == "0", (item.name, point)
    assert machine.read(f"{md}/bitmap/location") == "none", (item.name, point)
    wanted = "empty" if point <= BETWEEN else "none"
    assert machine.lists(disks) == [wanted] * len(disks), (item.name, point)
    # A stopped check says so; --wait ends with 1 if there is nothing to wait for.
    machine.run("mdadm", "--wait", f"/dev/{node}", check=False)
    machine.guest.agent.write(f"{md}/sync_action", "check")
    machine.run("mdadm", "--wait", f"/dev/{node}", check=False)
    assert machine.read(f"{md}/mismatch_cnt") == "0", (item.name, point)
    for more in ([], ["--offset=8m"])[: 1 + item.more]:
        machine.run(*FIO, f"--filename=/dev/{node}", "--verify_only", *more)
    machine.run("mdadm", "--stop", f"/dev/{node}")


@pytest.mark.guest
def test_the_power_fails(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    some = arrays()
    machine = rig([shape for item in some for shape in item.shapes])
    rounds = [(at, at) for at in range(200)] if EVERY else [(11, 9), (14, 29)]
    for points in rounds:
        cut(machine, some, points)
        if all(item.ended for item in some):
            break
    else:
        assert not EVERY, "the last point was never met"


@pytest.mark.guest
@pytest.mark.skipif(not EVERY, reason="BLKLAB_PROOF=every has it")
def test_an_array_that_was_written_to_while_a_member_was_out(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    _, item = arrays()
    machine = rig(item.shapes)
    machine.create("/dev/md5", machine.names(item.shapes), "--level=5", "--chunk=64", "--bitmap=none")
    background(machine, BUSY, "--filename=/dev/md5")
    freeze(machine, item, 9, seconds=1)
    assert item.frozen.wait(300)
    while machine.read("/sys/block/md5/md/array_state") != "active":
        time.sleep(0.2)
    machine.cut()
    machine.power()
    for disk in machine.names(item.shapes):
        machine.run("mdadm", "--incremental", disk, check=False)
    machine.run("mdadm", "--incremental", "--run", "--scan", check=False)
    output = machine.blklab("md", "fix", "--resume")
    assert (output.status, "is inactive: start it" in output.stderr) == (1, True), output
    restart, resume = [
        shlex.split(line) for line in output.stdout.splitlines() if line.startswith("    ") and "#" not in line
    ]
    started = machine.blklab(*restart[1:], "--yes")
    assert started.status == 0, started.stderr
    output = machine.blklab(*resume[1:])
    assert output.status == 0, output.stderr
    assert machine.lists(machine.names(item.shapes)) == ["none"] * 3


@pytest.mark.guest
@pytest.mark.parametrize(("level", "members", "options"), [("1", 2, []), ("5", 3, ["--chunk=64"])])
def test_bad_ranges_are_written_again_after_the_power_failed(
    rig: Callable[[Sequence[VirtualDiskShape]], Rig], level: str, members: int, options: list[str]
) -> None:
    shapes = [VirtualDiskShape(f"disk{at}", 24 << 20) for at in range(members)]
    machine, item = rig(shapes), Repaired("md0", level, shapes, options)
    disks = machine.names(shapes)
    machine.create("/dev/md0", disks, f"--level={level}", "--bitmap=internal", *options)
    node = f"/sys/block/md0/md/dev-{disks[1].removeprefix('/dev/')}"
    for sector in range(0, 4096, 1024):
        machine.guest.agent.write(f"{node}/bad_blocks", f"{int(machine.read(f'{node}/offset')) + sector} 512")
    machine.guest.agent.write(f"{node}/state", "write_error")
    # The member does not get what is written there.
    machine.run(*FIO, "--filename=/dev/md0", "--do_verify=0", "--end_fsync=1")
    machine.guest.agent.write("/sys/block/md0/md/array_state", "clean")
    assert machine.lists(disks)[1] != "empty"
    printed: list[str] = []
    writing = threading.Event()

    def heard(_stream: str, text: str) -> None:
        printed.append(text)
        if "".join(printed).count("write the same data again") == 2:  # after the plan, the step
            writing.set()

    background(machine, payload.command("blklab.cli"), "md", "fix", "entries", "/dev/md0", "--yes", stream=heard)
    assert writing.wait(600), printed
    machine.cut()
    machine.power()
    assemble(machine, [item])
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    output = machine.blklab("md", "fix", "--resume")
    assert output.status == 0, (output, printed)
    again = machine.blklab("md", "fix", "entries", "/dev/md0", "--yes")
    assert again.status == 0, again
    machine.run(*FIO, "--filename=/dev/md0", "--verify_only")
    assert machine.lists(machine.names(shapes)) == ["empty"] * members
    machine.run("mdadm", "--action=check", "/dev/md0")
    machine.run("mdadm", "--wait", "/dev/md0", check=False)
    assert machine.read("/sys/block/md0/md/mismatch_cnt") == "0"
