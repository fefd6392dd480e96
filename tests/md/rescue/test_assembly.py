"""`md fix assemble`: when an array is started on its disks, and when not."""

from dataclasses import replace

import pytest

from blklab.errors import UsageError
from blklab.md.model import Inventory, ListedArray
from blklab.md.rescue.assembly import FORCED, SURE, check_condition, find_members
from blklab.md.rescue.diagnosis import ArrayRescue, diagnose
from blklab.md.rescue.overlay_record import MemberFacts, OverlayRecord, TrialResult, Verdict
from blklab.md.rescue.overlays import choose_members
from blklab.system.roots import Roots
from tests.md.rescue.test_diagnosis import CONTENTS, MADE, make_member

EMPTY = Inventory(())


def diagnose_made(condition: str) -> ArrayRescue:
    (rescue,) = diagnose(Inventory((MADE[condition],)), CONTENTS)
    assert rescue.condition == condition
    return rescue


def make_record(verdict: Verdict) -> OverlayRecord:
    return OverlayRecord("0", "boot", "a:b:c:d", "0", [], [], TrialResult(verdict, ["What was seen."]))


def check(condition: str, verdict: Verdict | None, *, files_are_right: bool = False) -> list[str]:
    """Returns the codes of what is refused."""
    record = make_record(verdict) if verdict else None
    reasons = check_condition(diagnose_made(condition), EMPTY, record, files_are_right=files_are_right)
    return [reason[0] for reason in reasons]


@pytest.mark.parametrize("condition", ["sound", "degraded"])
def test_a_sound_array_needs_no_overlays(condition: str) -> None:
    assert check(condition, None) == []


@pytest.mark.parametrize("condition", sorted(set(MADE) - {"sound", "degraded", "running"}))
def test_no_other_array_is_started_without_overlays(condition: str) -> None:
    assert check(condition, None) in (["no-overlays"], ["condition"])


@pytest.mark.parametrize("condition", sorted(set(FORCED) & set(MADE)))
def test_what_failed_on_overlays_is_never_started(condition: str) -> None:
    assert check(condition, "failed", files_are_right=True) == ["failed"]


@pytest.mark.parametrize("condition", sorted(set(FORCED) & set(MADE)))
def test_a_good_result_is_enough_only_if_little_is_missing(condition: str) -> None:
    assert check(condition, "good") == ([] if condition in SURE else ["files"])
    assert check(condition, "damaged") == ["files"]
    assert check(condition, "unchecked") == ["files"]
    assert check(condition, "damaged", files_are_right=True) == []


@pytest.mark.parametrize("condition", ["not-enough", "refused", "foreign", "unknown", "broken"])
def test_some_conditions_are_never_started(condition: str) -> None:
    assert check(condition, "good", files_are_right=True) == ["condition"]


def test_an_array_that_the_administrator_ignores_is_not_started() -> None:
    line = ListedArray("<ignore>", "a:b:c:d", file="/etc/mdadm/mdadm.conf")
    inventory = Inventory((), listed=(line,))
    reasons = check_condition(diagnose_made("sound"), inventory, None, files_are_right=False)
    assert [reason[0] for reason in reasons] == ["ignored"]


def test_members_are_found_by_their_superblocks_not_by_their_names() -> None:
    array = MADE["behind"]
    facts = []
    for member in array.members:
        superblock = member.superblock
        assert superblock is not None
        facts.append(
            MemberFacts("/dev/other", [], 1, array.uuid, superblock.device, superblock.slot, superblock.events,
                        superblock.updated, False)
        )  # fmt: skip
    renamed = [replace(member, name=f"x{number}", path=f"/dev/x{number}") for number, member in
               enumerate(reversed(array.members))]  # fmt: skip
    found = find_members(replace(array, members=tuple(renamed)), facts, Roots())
    assert [member.path if member else None for member in found] == ["/dev/x2", "/dev/x1", "/dev/x0"]


def test_a_member_that_was_written_to_since_is_not_found() -> None:
    array = MADE["behind"]
    superblock = array.members[1].superblock
    assert superblock is not None
    old = MemberFacts("/dev/sdb", [], 1, array.uuid, superblock.device, superblock.slot, superblock.events - 1,
                      superblock.updated, False)  # fmt: skip
    assert find_members(array, [old], Roots()) == [None]


def test_overlays_are_made_of_the_freshest_members_or_of_those_that_are_named() -> None:
    rescue = diagnose_made("behind")
    assert [member.name for member in choose_members(rescue, [])] == ["sda", "sdb"]
    assert [member.name for member in choose_members(rescue, ["/dev/sdc", "/dev/sda"])] == ["sdc", "sda"]
    with pytest.raises(UsageError, match="/dev/sdx: no member of 0; its members are /dev/sda, /dev/sdb"):
        choose_members(rescue, ["/dev/sdx"])
    with pytest.raises(UsageError, match="named twice"):
        choose_members(rescue, ["/dev/sda", "/dev/sda"])


def test_of_two_parts_that_diverged_the_user_must_name_one() -> None:
    with pytest.raises(UsageError, match="two parts diverged: name the members of one of them with --member"):
        choose_members(diagnose_made("diverged"), [])


def test_a_write_journal_belongs_to_the_members() -> None:
    """Without it, mdadm does not assemble the array."""
    array = MADE["sound"]
    journal = make_member("sdj", None, role="journal", journal=True)
    members = [make_member(f"sd{slot}", slot, journal=True) for slot in range(3)]
    (rescue,) = diagnose(Inventory((replace(array, members=(*members, journal)),)))
    assert rescue.condition == "sound"
    assert [member.name for member in choose_members(rescue, [])][-1] == "sdj"


def test_a_copy_of_a_member_is_not_taken_for_it() -> None:
    """Both have the same superblock; without stable ids, neither is certain."""
    array = MADE["behind"]
    member = array.members[1]
    superblock = member.superblock
    assert superblock is not None
    facts = MemberFacts("/dev/none", [], 1, array.uuid, superblock.device, superblock.slot, superblock.events,
                        superblock.updated, False)  # fmt: skip
    copy = replace(member, name="sdx", path="/dev/sdx")
    assert find_members(array, [facts], Roots()) == [member]
    assert find_members(replace(array, members=(*array.members, copy)), [facts], Roots()) == [None]
