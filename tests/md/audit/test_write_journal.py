"""Write journals that are missing, have failed, or came back."""

from dataclasses import replace
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.md.audit import find_problems
from blklab.md.model import Array, Inventory
from tests.md.audit.test_cases import commands
from tests.md.test_messages import array, member, two


def journal(**values: Any) -> Any:
    made = member(2, **{"states": ("journal",), "sb_role": "journal", "sb_slot": None, "sb_journal": True, **values})
    return replace(made, slot=None, data_offset=None)


def audit(made: Array, **more: Any) -> dict[str, Diagnostic]:
    return {finding.code: finding for finding in find_problems(Inventory((made,), **more))}


def raid5(*journals: Any, **values: Any) -> Array:
    members = (*two(sb_journal=True, sb_level=5), member(3, sb_journal=True, sb_level=5))
    members = (*members[:2], replace(members[2], slot=2), *journals)
    return array(
        "raid5", *members, raid_disks=3, **{"degraded": 0, "consistency": "journal", "uuid": "a:b:c:d", **values}
    )


def test_a_journal_that_works_is_no_finding() -> None:
    for states in (("journal",), ("journal", "in_sync")):
        found = audit(raid5(journal(states=states), state="clean"))
        assert not {"journal-missing", "degraded", "cannot-run", "inactive", "faulty", "events"} & set(found)


def test_a_journal_that_failed_is_removed_before_another_is_added() -> None:
    found = audit(raid5(journal(states=("faulty", "journal"), sb_events=90), state="clean"))
    assert "mdadm refuses it as stale" in found["journal-missing"].message
    assert commands([found["journal-missing"]]) == [
        "mdadm --readonly /dev/md0",
        "mdadm /dev/md0 --remove /dev/sd2",
        "mdadm /dev/md0 --add-journal NEW-DISK",
        "echo resync > /sys/block/md0/md/consistency_policy",
        "mdadm --readwrite /dev/md0",
    ]
    assert "faulty" not in found
    assert commands(list(found.values())) == commands([found["journal-missing"]])  # No check, and no other repair


def test_a_journal_that_is_missing_at_assembly() -> None:
    found = audit(raid5(state="readonly"))
    first, *_ = found["journal-missing"].remedy
    assert first.startswith("# Only if the journal's disk is really lost")
    assert commands([found["journal-missing"]]) == [
        "mdadm /dev/md0 --add-journal NEW-DISK",
        "echo resync > /sys/block/md0/md/consistency_policy",
        "mdadm --readwrite /dev/md0",
    ]


def test_a_journal_that_came_back_is_not_replaced() -> None:
    found = audit(raid5(state="readonly", outside=(journal(states=()),)))
    assert "add no new journal" in found["journal-missing"].message
    assert commands([found["journal-missing"]]) == [
        "mdadm --stop /dev/md0",
        "mdadm --assemble /dev/md0 /dev/sd0 /dev/sd1 /dev/sd3 /dev/sd2",
    ]
    used = audit(raid5(state="readonly", outside=(journal(states=(), users=("mounted at /",)),)))
    assert commands([used["journal-missing"]]) == []


def test_a_journal_that_is_behind_does_not_count() -> None:
    found = audit(raid5(state="readonly", outside=(journal(states=(), sb_events=98),)))
    assert "(/dev/sd2 was the journal, and is too many events behind)" in found["journal-missing"].message
    assert "mdadm /dev/md0 --add-journal NEW-DISK" in found["journal-missing"].remedy


@pytest.mark.parametrize("values", [{"degraded": 1}, {"reshaping": True}])
def test_nothing_is_given_up_while_a_member_is_missing(values: dict[str, Any]) -> None:
    made = raid5(state="readonly", **values)
    members = made.members[:2] if "degraded" in values else made.members
    found = audit(replace(made, members=members))
    assert commands(list(found.values())) == []


def test_an_inactive_array_waits_for_its_journal() -> None:
    found = audit(raid5(state="inactive"))
    assert "it waits for its write journal" in found["inactive"].message
    assert commands(list(found.values())) == []
    found = audit(raid5(state="inactive", outside=(journal(states=()),)))
    assert commands([found["inactive"]])[-1].startswith("mdadm --assemble /dev/md0 ")


def test_an_array_that_is_not_assembled_needs_its_journal() -> None:
    made = replace(raid5(state="not assembled"), live=False, path="")
    (found,) = find_problems(Inventory((), unassembled=(made,)))
    assert "its write journal, which may have the newest writes, is not on this host" in found.message
    assert commands([found]) == []
    (found,) = find_problems(Inventory((), unassembled=(replace(made, members=(*made.members, journal(states=()))),)))
    assert commands([found]) == ["mdadm --assemble --scan"]


def test_a_journal_that_is_not_among_pasted_members_is_missing() -> None:
    stopped = replace(raid5(), live=False, state="clean")
    message = audit(stopped)["journal-missing"].message
    assert message.startswith("has a write journal, which is not among these members")
    stale = replace(raid5(journal(sb_events=10)), live=False, state="clean")
    assert "events behind the members: mdadm refuses it as stale" in audit(stale)["journal-missing"].message
    assert "journal-missing" not in audit(replace(raid5(journal()), live=False, state="clean"))
    assert commands(list(audit(stopped).values())) == []
