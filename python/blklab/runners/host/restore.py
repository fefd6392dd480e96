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


def restore(roots: Roots, only: Path | None = None) -> RestoreReport:
    """Undoes every journal whose owner is dead, or one of them `only`, and removes it when nothing remains.

    Settings of an earlier boot are void; directories are not. A device that is gone is reported and done; one whose
    name now belongs to another disk is not written to. What fails is tried again next time.
    """
    report = RestoreReport()
    if roots.state.is_dir():
        state_directory.prepare(roots)  # root acts on its contents, so only root may have written it
    for path in journals.list_leftovers(roots):
        if only is not None and path != only:
            continue
        try:
            with journals.lock_leftover(path, roots) as leftover:
                if leftover is None:
                    report.running.append(f"{path}: not restored: its blklab is still running")
                    continue
                results = [_undo_entry(entry, leftover, roots, report) for entry in reversed(leftover.entries.values())]
                if all(results):
                    path.unlink()
        except FileNotFoundError:
            continue  # its owner just ended
        except (BlklabError, OSError) as error:
            report.problems.append(str(error))
    return report


def _undo_entry(
    entry: journals.SettingsEntry | journals.DirectoryEntry,
    leftover: journals.LeftoverJournal,
    roots: Roots,
    report: RestoreReport,
) -> bool:
    """Undoes an entry; tells whether it is finished."""
    if isinstance(entry, journals.SettingsEntry):
        return _settings(entry, leftover, roots, report)
    path = Path(entry.parent) / entry.name
    try:
        problem = remove(entry, roots)
    except (BlklabError, OSError) as error:
        report.problems.append(f"{path}: not removed: {error}")
        return False
    if problem:
        report.done.append(f"{path}: removed")
    return True


def _settings(
    entry: journals.SettingsEntry, leftover: journals.LeftoverJournal, roots: Roots, report: RestoreReport
) -> bool:
    device = entry.device
    owner = device.name if device else journals.KERNEL
    if leftover.boot != journals.boot_of(roots):
        report.done.append(f"{owner}: nothing to restore: the machine has booted since then")
        return True
    if device is not None:
        try:
            node = (roots.sys / "class/block" / device.name).resolve(strict=True)
        except OSError:
            report.problems.append(f"{owner}: the device is gone, so its settings cannot be restored")
            return True
        actual = of_node(node, roots)
        if not same_disk(device, actual):
            report.problems.append(
                f"{owner}: not restored: found {actual.id or 'another disk'}, expected {device.id or 'the former disk'}"
            )
            return True
        device = actual
    try:
        problems = put_back(device, entry.values, roots)
    except BlklabError as error:  # a key of another blklab
        problems = [f"{owner}: {error}"]
    report.problems += problems
    if not problems:
        values_text = ", ".join(f"{key}={value}" for key, value in entry.values.items())
        report.done.append(f"{owner}: restored {values_text}")
    return not problems
