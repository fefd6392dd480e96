"""Arrays that were assembled earlier, and are absent now: what no disk and no configuration tells any more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from blklab.diagnostic import Diagnostic
from blklab.md.model import Array, Inventory

ABSENT_CODES = ("absent", "not-assembled", "old-superblock")  # Of findings about arrays that are not assembled


@dataclass(frozen=True)
class SeenArray:
    """An array that was assembled at an earlier call. Facts only: names and commands may be others by now."""

    uuid: str
    name: str
    seen: int  # When it was assembled last, seconds since 1970
    state: str  # Its state then, `clean, degraded`


def add_vanished(
    problems: Sequence[Diagnostic], earlier_arrays: Sequence[SeenArray], inventory: Inventory
) -> list[Diagnostic]:
    """Returns findings with those about arrays that were seen at an earlier call and are not assembled now."""
    if inventory.unseen and not inventory.arrays:
        return list(problems)  # Nothing could be read, which is another finding
    findings = list(problems)
    for array in earlier_arrays:
        is_retired = any(line.ignored and line.uuid == array.uuid for line in inventory.listed)
        if is_retired or _is_assembled(array.uuid, array.name, inventory):
            continue
        when = datetime.fromtimestamp(array.seen, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
        about = f"was seen on {when} ({array.state})"
        names = _names_of_uuid(array.uuid, inventory)
        absent_findings = [finding for finding in findings if finding.code in ABSENT_CODES and finding.subject in names]
        if not absent_findings:
            message = f"{about} and is not assembled now; no disk that could be read has a member of it"
            advice = f"# If it was retired, make `md watch` forget it: option --forget with its UUID, {array.uuid}"
            findings.append(Diagnostic("absent", "critical", array.name, message, (advice,)))
        for finding in absent_findings:
            message = f"{about}, and now {finding.message}"
            # Its name on the disks may be another one.
            worse = replace(finding, code="absent", severity="critical", subject=array.name, message=message)
            findings[findings.index(finding)] = worse
    return sorted(findings, key=lambda finding: (finding.rank, finding.code != "absent"))


def _is_assembled(uuid: str, name: str, inventory: Inventory) -> bool:
    """Whether an array is assembled. An array whose UUID could not be read is recognised by its name."""
    return any(array.uuid == uuid or (not array.uuid and array.name == name) for array in inventory.arrays)


def _names_of_uuid(uuid: str, inventory: Inventory) -> set[str]:
    """Returns the subjects of findings about an array that is not assembled."""
    names = {array.name for array in inventory.unassembled if array.uuid == uuid}
    names |= {line.short_name or line.uuid[:8] for line in inventory.listed if line.uuid == uuid}
    return names


def names_of_array(array: Array, earlier_arrays: Sequence[SeenArray], inventory: Inventory) -> set[str]:
    """Returns the names that findings about an array may have, also while it was not assembled."""
    names = {array.name, array.label, f"{array.label} {array.uuid[:8]}", array.uuid[:8]}
    names |= {line.short_name for line in inventory.listed if line.describes(array)}
    names |= {other.name for other in earlier_arrays if other.uuid == array.uuid}
    return names - {""}


def update_seen(earlier_arrays: Sequence[SeenArray], inventory: Inventory, now: int) -> tuple[SeenArray, ...]:
    """Returns the arrays that were ever seen, with the present state of those that are assembled and run."""
    arrays = {array.uuid: array for array in earlier_arrays}
    for array in inventory.arrays:
        if array.uuid and array.state not in {"inactive", "clear"}:
            state = f"{array.state}, degraded" if array.degraded else array.state
            arrays[array.uuid] = SeenArray(array.uuid, array.name, now, state)
    return tuple(arrays.values())


def find_absent(
    findings: Sequence[Diagnostic], earlier_arrays: Sequence[SeenArray], inventory: Inventory
) -> Iterator[tuple[str, str]]:
    """Yields the name and the UUID, or an empty string, of each array with a finding `absent`."""
    uuids = {line.short_name: line.uuid for line in inventory.listed}
    uuids |= {array.name: array.uuid for array in inventory.unassembled}
    uuids |= {array.name: array.uuid for array in earlier_arrays}
    for finding in findings:
        if finding.code == "absent":
            yield finding.subject, uuids.get(finding.subject, "")
