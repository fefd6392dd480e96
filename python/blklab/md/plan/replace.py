"""Judges `mdadm ARRAY --replace OLD --with NEW`: a copy of a member, which stays in use until the end."""

from blklab.md import command_lines
from blklab.md.model import Array, ArrayMember
from blklab.md.plan import acceptance
from blklab.md.plan.change import ChangePlan, Conditions, NewDisk, Refusal, Work
from blklab.md.plan.duration import estimate_duration, plan_replacement_copy

FIRST_KERNEL = (3, 3)
FIRST_MDADM = (3, 3)


def judge_replace(array: Array, old: ArrayMember, new: NewDisk | None, conditions: Conditions) -> ChangePlan:
    """Returns whether md replaces a member online, by a disk or, without one, by any spare."""
    path = array.path or f"/dev/{array.name}"
    if new is None:
        call = command_lines.replace_with_spare(path, old.path)
    else:
        call = command_lines.replace_disk(path, old.path, new.path)
    refusals = [*acceptance.check_running(array), *_check_versions(conditions)]
    if "in_sync" not in old.states and array.live:
        reason = f"{old.name} is {', '.join(old.states) or 'not active'}: add the new disk instead"
        refusals.append(Refusal("not-active", f"{old.path} is not active and so cannot be replaced.", reason))
    refusals += acceptance.check_failed(array, "")
    if new is not None:
        refusals += acceptance.check_new_disk(array, new)
    refusals += _check_degraded(array, new)
    dangers = [] if new is None else list(acceptance.warn_of_disk(array, new))
    caveats = list(acceptance.describe_conditions(conditions))
    no_effect = _explain_no_effect(array, new)
    if new is not None:
        caveats += acceptance.warn_of_blocks(array, new)
    commands: list[str] = []
    if not refusals and not dangers and not no_effect:
        if new is None:
            commands = [call, command_lines.wait_for_sync(path), command_lines.remove_disk(path, old.path)]
        else:
            commands = [command_lines.fix_replace(path, old.path, new.path)]
    work: tuple[Work, ...] = ()
    if not no_effect:
        work = (plan_replacement_copy(array.member_sectors),)
    facts = [
        f"md copies {old.name} onto the new disk; {old.name} stays in use until the end, so that no redundancy is lost",
        f"where {old.name} cannot be read, md reads the other members",
    ]
    return ChangePlan(
        array, "replace", call, conditions, tuple(refusals), tuple(dangers), no_effect, work,
        None if refusals else estimate_duration(work, conditions), tuple(facts), tuple(commands),
        () if refusals or no_effect else (
            "# Nothing is lost: the old disk is still a member. md continues the copy when the array is assembled.",
            "# Do not remove the old disk before the new one is in sync.",
            command_lines.show_detail(path),
        ),
        tuple(caveats),
    )  # fmt: skip


def _check_degraded(array: Array, new: NewDisk | None) -> list[Refusal]:
    """Returns that md is busy, or takes the new disk for an empty slot: md.c, `slot_store`, refuses --with."""
    spares = acceptance.count_spares(array)
    if not array.redundant or (new is None and not spares):
        return []
    if new is not None and (array.sync is not None or array.reshaping):
        return list(acceptance.check_idle(array, f"Failed to set {new.path} as preferred replacement."))
    if not acceptance.count_empty_slots(array):
        return []
    printed = "" if new is None else f"Failed to set {new.path} as preferred replacement."
    reason = f"{acceptance.describe_empty_slots(array)}, and md fills empty slots first: replace a disk after that"
    remedy = () if new is None or new.is_spare else (command_lines.fix_add(array.path, new.path),)
    return [Refusal("degraded", printed, reason, remedy)]


def _check_versions(conditions: Conditions) -> list[Refusal]:
    software = conditions.software
    if software is None:
        return []
    if software.kernel is not None and software.kernel < FIRST_KERNEL:
        return [Refusal("old-kernel", "", "the kernel is older than 3.3, which has no replacement")]
    if software.mdadm is not None and software.mdadm < FIRST_MDADM:
        return [Refusal("old-mdadm", "unrecognized option '--replace'", "mdadm is older than 3.3")]
    return []


def _explain_no_effect(array: Array, new: NewDisk | None) -> str:
    """Returns why mdadm only marks the member, without an error."""
    if not array.redundant:
        return f"{array.level} has no redundancy, and md replaces no member of it"
    if array.state == "readonly":
        return "the array is read-only: md copies nothing until it is writable"
    if new is None and not acceptance.count_spares(array):
        return "the array has no spare: md copies nothing until you add a disk"
    return ""
