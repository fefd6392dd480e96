"""`blklab trace live` on a real kernel: what it shows, how it ends, and what it keeps."""

import json
import re
from collections.abc import Callable, Sequence

import pytest

from blklab.runners.lab.agent import GuestFailed
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig

SHAPES = [VirtualDiskShape(f"disk{at}", 32 << 20) for at in range(2)]


LOAD = [
    "fio", "--name=load", "--filename=/dev/md0", "--rw=randread", "--bs=4k", "--rate_iops=100", "--time_based",
    "--runtime=900", "--direct=1", "--ioengine=libaio",
]  # fmt: skip


@pytest.mark.guest
def test_the_load_of_an_array_is_shown_and_kept(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig(SHAPES)
    members = machine.names(SHAPES)
    machine.create("/dev/md0", members, "--level=1", "--bitmap=none")
    with pytest.raises(GuestFailed, match="fio"), machine.guest.agent.running(LOAD):  # fio fails if it is interrupted
        output = machine.blklab("trace", "live", "/dev/md0", "-w", "14s", "-o", "/run/kept")
    assert output.status == 0, output.stderr
    rates = [float(rate) for rate in re.findall(r"md0  (\d+) IOPS, .* 100 % reads, p99", output.stdout)]
    assert len(rates) >= 2, output.stdout
    assert 0 < rates[-1] < 130  # A guest on a busy machine is slower than fio's limit
    kept = json.loads(machine.blklab("trace", "stat", "/run/kept", "--json").stdout)
    ios = {device["name"]: device["load"]["ops"]["read"]["ios"] for device in kept["devices"]}
    assert 0 < ios["md0"] < 16 * 130
    assert sum(ios.get(member.removeprefix("/dev/"), 0) for member in members) == pytest.approx(ios["md0"], rel=0.05)
    assert kept["trace"]["out_of_order"] == 0


@pytest.mark.guest
def test_a_signal_ends_the_trace_of_the_kernel(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig(SHAPES[:1])
    (disk,) = machine.names(SHAPES[:1])
    output = machine.run(*payload.command("inside.watched"), disk, *payload.command("blklab.cli"))
    ended = [json.loads(line) for line in output.stdout.splitlines()]
    assert ended == [["SIGTERM", 0, True], ["SIGKILL", -9, True]]
