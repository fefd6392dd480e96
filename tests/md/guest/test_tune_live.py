"""`blklab tune --live` on a real kernel with a real array under load: its setting is always restored."""

import json
import signal
from collections.abc import Callable, Sequence

import pytest

from blklab.runners.lab.agent import GuestFailed
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import payload
from tests.md.guest.rig import Rig
from tests.md.guest.test_trace_live import LOAD, SHAPES

READ_AHEAD = "/sys/block/md0/queue/read_ahead_kb"


@pytest.mark.guest
def test_the_read_ahead_of_an_array_is_always_restored(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    machine = rig(SHAPES)
    machine.create("/dev/md0", machine.names(SHAPES), "--level=1", "--bitmap=none")
    before = machine.read(READ_AHEAD)
    assert before not in {"512", "1024"}
    command = payload.command("inside.tuned")
    with pytest.raises(GuestFailed, match="fio"), machine.guest.agent.running(LOAD):  # fio fails if it is interrupted
        output = machine.run(*command, "tune", "/dev/md0")
        *slices, ended = map(json.loads, output.stdout.splitlines())
        assert ended is None, output.stderr
        assert sorted(value for value, *_ in slices) == ["1024", "1024", "512", "512", "as is", "as is"]
        assert all(ios > 0 and mean > 0 for _, ios, mean, _, _ in slices)
        assert any(p99 is not None and p99 >= mean / 100 for _, _, mean, p99, _ in slices), slices
        assert [changes for value, _, _, _, changes in slices] == [int(value != "as is") for value, *_ in slices]
        assert machine.read(READ_AHEAD) == before
        for mode in ("kill", "stop", "fail"):
            output = machine.run(*command, mode, "/dev/md0")
            first, meanwhile, last, journals, status = json.loads(output.stdout)
            assert (first, last, journals) == (before, before, []), output.stderr
            assert meanwhile in {"512", "1024"}
            assert (status == -signal.SIGKILL) == (mode != "fail"), output.stderr
            if mode == "fail":
                assert "/dev/md0: degraded: 1 of its members missing" in output.stderr
