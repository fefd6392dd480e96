"""Known bugs of the kernel: each is reported for the releases and the arrays that it concerns, and for no others."""

from dataclasses import replace

import pytest

from blklab.md.audit.kernel_bugs import CONDITIONS, check_kernel_bugs, read_bugs
from blklab.md.model import Array, Software, SyncPass
from tests.md.test_good_copies import array_of

MIRROR = array_of("raid1", 0, 2, {})
RAID5 = array_of("raid5", 2, 3, {})


def with_states(array: Array, state: str) -> Array:
    return replace(array, members=tuple(replace(member, states=("in_sync", state)) for member in array.members))


EXAMPLES = {
    "write-mostly-recovery": (with_states(MIRROR, "write_mostly"), (6, 10)),
    "write-behind": (with_states(MIRROR, "write_mostly"), (6, 16)),
    "zeros-while-degraded": (replace(RAID5, degraded=1, logical_block=4096), (6, 1)),
    "reshape-restarted": (replace(RAID5, reshaping=True), (6, 1)),
    "failfast-last-member": (with_states(MIRROR, "failfast"), (6, 12)),
    "bitmap-panic": (replace(MIRROR, bitmap=True), (6, 13)),
    "raid5-hang": (RAID5, (6, 7)),
    "slow-raid6-check": (replace(array_of("raid6", 2, 16, {}), degraded=0), (5, 16)),
    "starved-by-resync": (replace(array_of("raid5", 2, 9, {}), sync=SyncPass("resync", 1, 10, 900)), (6, 12)),
}


def reported(array: Array, kernel: tuple[int, int] | None) -> set[str]:
    findings = check_kernel_bugs(array, Software(kernel=kernel))
    return {finding.message.partition("may have a bug (")[2].partition(")")[0] for finding in findings}


def test_each_bug_has_an_example_and_a_condition() -> None:
    assert [bug.id for bug in read_bugs()] == list(EXAMPLES)
    assert {bug.condition for bug in read_bugs()} == set(CONDITIONS)


@pytest.mark.parametrize("bug", read_bugs(), ids=lambda bug: bug.id)
def test_a_bug_is_reported_in_its_range_only(bug) -> None:  # type: ignore[no-untyped-def]
    array, kernel = EXAMPLES[bug.id]
    assert bug.id in reported(array, kernel)
    if bug.fixed is not None:
        assert bug.id not in reported(array, bug.fixed)
    if bug.last is not None:
        assert bug.id in reported(array, bug.last)
        assert bug.id not in reported(array, (bug.last[0], bug.last[1] + 1))
    before = (bug.since[0], bug.since[1] - 1)
    assert bug.id not in reported(array, before)
    assert reported(array, None) == set()


@pytest.mark.parametrize("bug", read_bugs(), ids=lambda bug: bug.id)
def test_other_arrays_are_not_accused(bug) -> None:  # type: ignore[no-untyped-def]
    _, kernel = EXAMPLES[bug.id]
    assert bug.id not in reported(replace(MIRROR, bitmap=False), kernel)
    if bug.id != "raid5-hang":
        assert bug.id not in reported(RAID5, kernel)


def test_the_finding_says_may_and_what_helps() -> None:
    array, kernel = EXAMPLES["zeros-while-degraded"]
    (finding,) = [
        finding for finding in check_kernel_bugs(array, Software(kernel=kernel)) if "zeros" in finding.message
    ]
    assert finding.severity == "critical"
    assert "Linux 6.1 may have a bug (zeros-while-degraded)" in finding.message
    assert "boot a newer kernel before you read or copy its data" in finding.message
    assert "Whether later releases have it is not known. Source: 10764815ff47" in finding.message
    assert finding.remedy == ()
