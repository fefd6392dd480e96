"""When members fail and syncs begin: guests are made up, and their load with them."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from blklab.errors import BlklabError
from blklab.runners.fio.process import FioProgress
from blklab.runners.lab.agent import GuestGone
from blklab.runners.lab.fault_schedule import FaultSchedule
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from tests.runners.lab.stacks.recording import Recorder, guest

STAT = "/sys/block/md0/stat"
FAILED = "mdadm /dev/md0 --fail /dev/vdb"
HOUR = 3600 * 10**9


class Load:
    """A mirror of `a` and `b`, in which nothing has been read yet."""

    def __init__(self, *failures: tuple[int, int | None]) -> None:
        self.recorder = Recorder({STAT: "0 0 0\n"})
        self.guest: GuestStack = guest(self.recorder, "a", "b")
        self.guest.layers.append(GuestLayer("mirror", "md", "md0"))
        self.guest.members["mirror"] = ["/dev/vda", "/dev/vdb"]
        self.document: Any = {
            "failures": [{"array": "mirror", "slot": 1, "at_ns": at, "re_add_ns": back} for at, back in failures]
        }

    def during(self) -> FaultSchedule:
        return FaultSchedule(self.guest, self.document)

    def begins(self) -> None:
        self.recorder.files[STAT] = "1 0 8\n"


def seen(there: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not there() and time.monotonic() < deadline:
        time.sleep(0.01)
    return there()


def test_a_member_fails_and_comes_back_when_the_load_has_begun() -> None:
    load = Load((0, 1))
    with load.during() as during:
        assert load.recorder.ran == []
        load.begins()
        assert seen(lambda: len(load.recorder.ran) == 3)
    assert load.recorder.ran == [FAILED, "mdadm /dev/md0 --remove /dev/vdb", "mdadm /dev/md0 --re-add /dev/vdb"]
    assert during.problems == []


def test_fio_may_say_so_before_any_device() -> None:
    load, shown = Load((0, None)), list[FioProgress]()
    with load.during() as during:
        facts = during.listening(shown.append)
        facts(FioProgress(1.0, 10.0))
        facts(FioProgress(1.0, 10.0, 0.0, 0.0))
        assert load.recorder.ran == []
        facts(FioProgress(2.0, 10.0, 0.0, 5.0))
        assert seen(lambda: FAILED in load.recorder.ran)
    assert len(shown) == 3


def test_what_there_was_no_time_for_is_said() -> None:
    load = Load((0, HOUR))
    with load.during() as during:
        load.begins()
        assert seen(lambda: len(load.recorder.ran) == 2)
    assert during.problems == ["mirror: the load ended before b could be re-added, 1h 00m after its start"]
    load = Load((HOUR, None))
    load.guest.starting.append(lambda: load.guest.write("/sys/sync", "idle"))
    load.guest.syncing["mirror"] = "resync"
    with load.during() as during:
        pass
    assert load.recorder.wrote == []
    assert during.problems == [
        "mirror: the load ended before its resync began",
        "mirror: the load ended before b failed, 1h 00m after its start",
    ]


def test_what_a_member_does_not_do_is_a_warning_and_a_sync_an_error() -> None:
    load = Load((0, None))
    load.recorder.answers = {"mdadm /dev/md0 --fail": 1}
    with load.during() as during:
        load.begins()
        assert seen(lambda: bool(during.problems))
    assert during.problems == [f"mirror: in the guest: {FAILED} ended with status 1"]
    load = Load()
    load.guest.starting.append(lambda: load.guest.write("/sys/refused", "idle"))
    with pytest.raises(BlklabError, match="/sys/refused: Invalid argument"), load.during():
        load.begins()
        assert seen(lambda: bool(load.recorder.wrote))


def test_an_array_without_that_member() -> None:
    load = Load((0, None))
    load.guest.members["mirror"] = ["/dev/vda"]
    with pytest.raises(BlklabError, match="array mirror has no member in slot 1"):
        load.during()


def test_what_the_load_fails_of_is_what_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[object] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)

    def gone(_paths: object) -> dict[str, str | None]:
        raise GuestGone("closed")

    load = Load((0, None))
    with pytest.raises(BlklabError, match="fio failed"), load.during() as during:
        monkeypatch.setattr(load.recorder, "read", gone)
        raise BlklabError("fio failed")
    assert during.problems == []
    assert hooked == []
