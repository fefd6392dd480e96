"""How busy members are while a resync is slow: measured, and only then."""

import pytest

from blklab.md.audit import find_problems
from blklab.md.sync_activity import add_sync_activity
from tests.md.conftest import Arrays, machine

__all__ = ["machine"]


def set_busy(machine: Arrays, **busy_ms: int) -> None:
    lines = [f"   8 {number} {name} 1 0 8 1 1 0 8 1 0 {busy} 1" for number, (name, busy) in enumerate(busy_ms.items())]
    machine.proc("diskstats", "\n".join(lines))


def audit(machine: Arrays, speed: str, busy: dict[str, int]) -> str:
    """Returns what the audit says of a resync at a speed, while members become busier by some milliseconds of 2 s."""
    machine.disk("sdc", "8:32")
    machine.disk("sdd", "8:48")
    names = ("sda", "sdb", "sdc", "sdd")
    machine.disk("sda", "8:0")
    machine.disk("sdb", "8:16")
    machine.array(
        "md0", "9:0", {name: {} for name in names}, level="raid5", sync_action="resync", sync_completed="8 / 1000",
        sync_speed=speed, sync_speed_min="1000 (system)", stripe_cache_size="256", stripe_cache_active="256",
    )  # fmt: skip
    set_busy(machine, **dict.fromkeys(names, 5000))
    moments = iter((10.0, 12.0))
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        set_busy(machine, **{name: 5000 + busy.get(name, 0) for name in names})

    inventory = add_sync_activity(machine.seen(), machine.roots, sleep, lambda: next(moments))
    assert len(naps) == (int(speed) < 1100)
    findings = {finding.code: finding for finding in find_problems(inventory)}
    stalled = findings.get("sync-stalled")
    return "" if stalled is None else "\n".join((stalled.message, *stalled.remedy))


@pytest.mark.parametrize(
    ("speed", "busy", "said"),
    [
        (
            "3",
            {"sda": 300, "sdb": 340, "sdc": 1980, "sdd": 320},
            "sdc is busy 99 % of the time, the others 16 %: sdc holds",
        ),
        ("1010", dict.fromkeys(("sda", "sdb", "sdc", "sdd"), 1990), "All members are busy all the time: other I/O"),
        ("3", dict.fromkeys(("sda", "sdb", "sdc", "sdd"), 100), "No member is busy for more than 5 % of the time"),
        ("1010", {"sda": 1900, "sdb": 1500, "sdc": 1400, "sdd": 1200}, "other I/O to its disks slows it down"),
    ],
)
def test_the_member_that_holds_a_resync_up_is_named(
    machine: Arrays, speed: str, busy: dict[str, int], said: str
) -> None:
    text = audit(machine, speed, busy)
    assert said in text
    assert ("echo 4096 > /sys/block/md0/md/stripe_cache_size" in text) == (speed == "3")


def test_a_fast_resync_takes_no_time(machine: Arrays) -> None:
    assert audit(machine, "150000", {}) == ""
