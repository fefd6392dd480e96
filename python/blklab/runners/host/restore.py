"""Undoes what a killed blklab left: settings and directories."""

from dataclasses import dataclass, field
from pathlib import Path

from blklab.errors import BlklabError
from blklab.runners.host import journal as journals
from blklab.runners.host.scratch_directory import remove
from blklab.runners.host.settings import put_back
from blklab.system import state_directory
from blklab.system.identity import of_node, same_disk
from blklab.system.roots import Roots


@dataclass
class RestoreReport:
    """What `restore` did, as messages."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # Messages about what could not be undone
    running: list[str] = field(default_factory=list)  # Journals whose blklab is still running


def restore(roots: Roots) -> RestoreReport:
    """Undoes every journal whose owner is dead, and removes it when nothing remains.

    Settings of an earlier boot are void; directories are not. A device that is gone is reported and done; one whose
    name now belongs to another disk is not written to. What fails is tried again next time.
    """
    did = RestoreReport()
    if roots.state.is_dir():
        state_directory.prepare(roots)  # root acts on its contents, so only root may have written it
    for path in journals.all_left(roots):
        try:
            with journals.taken(path, roots) as left:
                if left is None:
                    did.running.append(f"{path}: not restored: its blklab is still running")
                    continue
                undone = [_undone(entry, left, roots, did) for entry in reversed(left.entries.values())]
                if all(undone):
                    path.unlink()
        except FileNotFoundError:
            continue  # its owner just ended
        except (BlklabError, OSError) as error:
            did.problems.append(str(error))
    return did


def _undone(
    entry: journals.SettingsEntry | journals.DirectoryEntry,
    left: journals.LeftoverJournal,
    roots: Roots,
    did: RestoreReport,
) -> bool:
    """Undoes an entry; tells whether it is finished."""
    if isinstance(entry, journals.SettingsEntry):
        return _settings(entry, left, roots, did)
    path = Path(entry.parent) / entry.name
    try:
        problem = remove(entry, roots)
    except (BlklabError, OSError) as error:
        did.problems.append(f"{path}: not removed: {error}")
        return False
    if problem:
        did.done.append(f"{path}: removed")
    return True


def _settings(entry: journals.SettingsEntry, left: journals.LeftoverJournal, roots: Roots, did: RestoreReport) -> bool:
    device = entry.device
    where = device.name if device else journals.KERNEL
    if left.boot != journals.boot_of(roots):
        did.done.append(f"{where}: nothing to restore: the machine has booted since then")
        return True
    if device is not None:
        try:
            node = (roots.sys / "class/block" / device.name).resolve(strict=True)
        except OSError:
            did.problems.append(f"{where}: the device is gone, so its settings cannot be restored")
            return True
        now = of_node(node, roots)
        if not same_disk(device, now):
            did.problems.append(
                f"{where}: not restored: found {now.id or 'another disk'}, expected {device.id or 'the former disk'}"
            )
            return True
        device = now
    try:
        failed = put_back(device, entry.values, roots)
    except BlklabError as error:  # a key of another blklab
        failed = [f"{where}: {error}"]
    did.problems += failed
    if not failed:
        listed = ", ".join(f"{key}={value}" for key, value in entry.values.items())
        did.done.append(f"{where}: restored {listed}")
    return not failed
