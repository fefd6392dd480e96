"""Settings of the kernel and of devices, changed for a run and restored.

A key is the name of a file: queue/*, device/queue_depth and md/* of devices in sysfs, vm.* in
/proc/sys/vm. Source of what the kernel does with them: block/blk-sysfs.c, block/elevator.c,
drivers/md/md.c and raid5.c, mm/page-writeback.c (6.1 and 6.12).
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.outcome import ChangedSetting
from blklab.runners.host import journal as journals
from blklab.runners.host.journal import HostJournal
from blklab.system.child_process import signals_held_back
from blklab.system.identity import BlockDevice, of_node, same_disk
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots, entries, open_descriptor, read_text

FILES = {  # Keys of devices, and their files in the device's directory in sysfs
    # In the order in which they are written: the scheduler resets nr_requests and wbt, the
    # largest request can change the read-ahead, the write cache wbt.
    "scheduler": "queue/scheduler",
    "write_cache": "queue/write_cache",
    "rotational": "queue/rotational",
    "max_sectors_kb": "queue/max_sectors_kb",
    "queue_depth": "device/queue_depth",
    "nr_requests": "queue/nr_requests",
    "read_ahead_kb": "queue/read_ahead_kb",
    "nomerges": "queue/nomerges",
    "rq_affinity": "queue/rq_affinity",
    "add_random": "queue/add_random",
    "iostats": "queue/iostats",
    "wbt_lat_usec": "queue/wbt_lat_usec",
    "stripe_cache_size": "md/stripe_cache_size",
    "group_thread_cnt": "md/group_thread_cnt",
    "rmw_level": "md/rmw_level",
    "sync_speed_min": "md/sync_speed_min",
    "sync_speed_max": "md/sync_speed_max",
}

ALSO = {  # What else the kernel changes when a setting is written
    "scheduler": ["nr_requests", "wbt_lat_usec"],
    "write_cache": ["wbt_lat_usec"],
    "max_sectors_kb": ["read_ahead_kb"],
    "vm.dirty_ratio": ["vm.dirty_bytes"],
    "vm.dirty_bytes": ["vm.dirty_ratio"],
    "vm.dirty_background_ratio": ["vm.dirty_background_bytes"],
    "vm.dirty_background_bytes": ["vm.dirty_background_ratio"],
}

ACTIONS = frozenset({"vm.drop_caches", "vm.compact_memory", "vm.stat_refresh"})
"""Files that start an action instead of keeping a value."""

OF_REQUESTS = frozenset({"scheduler", "nr_requests", "wbt_lat_usec"})
"""Keys without a meaning for a device without a request queue (md, most dm)."""

TUNABLE = "iosched/"  # Prefix of the scheduler's own settings, which are lost when the scheduler changes


def path_of(node: Path | None, key: str, roots: Roots) -> Path:
    """Returns the file of a key, below a device's directory. Raises UsageError for unknown keys."""
    if re.fullmatch(r"vm\.[a-z][a-z0-9_]*", key) and key not in ACTIONS:
        return roots.proc / "sys/vm" / key.removeprefix("vm.")
    if node is not None and key in FILES:
        return node / FILES[key]
    if node is not None and re.fullmatch(rf"{TUNABLE}[a-z][a-z0-9_]*", key):
        return node / "queue" / key
    key_names = ", ".join([*FILES, "vm.*"])
    raise UsageError(f"settings: found {key!r}, expected one of {key_names}")


def current(path: Path, key: str) -> str | None:
    """Returns a setting's value as it would be written; None if it cannot be read."""
    value = read_text(path)
    if value is None:
        return None
    if key == "scheduler":
        match = re.search(r"\[([^\]]*)\]", value)
        return match[1] if match else value
    if key in {"sync_speed_min", "sync_speed_max"}:
        # `1000 (system)` follows the system's; `2000 (local)` is this array's own.
        return "system" if value.endswith("(system)") else value.split(" ", 1)[0]
    return " ".join(value.split())


def is_same_value(key: str, expected: str, value: str | None) -> bool:
    """Tells whether a present value is the expected one, in any spelling."""
    if value is None:
        return False
    if key == "wbt_lat_usec" and expected == "-1":  # the kernel's default, unknown here
        return True
    try:
        return int(expected) == int(value)
    except ValueError:
        return " ".join(expected.split()) == value


def _write(path: Path, value: str) -> None:
    """Writes in one system call. Raises OSError (EINVAL, EPERM…) if the kernel refuses it."""
    with open_descriptor(path, os.O_WRONLY | os.O_TRUNC) as descriptor:
        os.write(descriptor, value.encode())


def _rank(key: str) -> tuple[int, str]:
    """Order of writing: the scheduler first; a dirty ratio of 0 must not unset the bytes."""
    if key.startswith(TUNABLE):
        return 1, key
    if key in FILES:
        position = list(FILES).index(key)
        return (position + 1 if position else 0), key
    return 100 + key.endswith("_bytes"), key


@contextmanager
def apply_settings(
    settings: Mapping[str, str], devices: Sequence[SysfsLayer], journal: HostJournal
) -> Iterator[list[ChangedSetting]]:
    """Changes settings while the block runs, and yields the changes.

    A device's key is written to the target and to all devices below it that have it (a partition's disk; md's, to every
    array). Raises UsageError for a key that no device has or a value that the kernel refuses; BlklabError if the kernel
    sets another value, or another blklab is changing the device. Everything is restored in any case; what cannot be
    restored is an error (BlklabError), and stays in the journal for `restore`.
    """
    roots = journal.roots
    checked_settings = {key: _check_value(key, value) for key, value in settings.items()}
    plan = _plan(checked_settings, devices, roots)
    with ExitStack() as locks:
        for device in plan:
            locks.callback(journals.release, journals.lock(_owner_name(device), roots))
        _check_no_leftovers(plan, journal)
        with _put_back_after(plan, journal):
            changes = []
            for device, keys in plan.items():
                for key in sorted(keys, key=_rank):
                    change = _set(device, key, checked_settings[key], roots)
                    if change:
                        changes.append(change)
            yield changes


def check(settings: Mapping[str, str], devices: Sequence[SysfsLayer], roots: Roots) -> None:
    """Raises UsageError for settings that cannot be applied here, as far as that is known before.

    Checks for a key that no device has, and for a scheduler that this kernel does not have. Only
    the kernel knows whether it accepts other values.
    """
    plan = _plan({key: _check_value(key, value) for key, value in settings.items()}, devices, roots)
    for device, keys in plan.items():
        if device is None or "scheduler" not in keys:
            continue
        names = (read_text(path_of(device.node, "scheduler", roots)) or "").replace("[", "").replace("]", "").split()
        if names and settings["scheduler"] not in names:
            scheduler = settings["scheduler"]
            choices = ", ".join(names)
            raise UsageError(f"settings: {device.name}: scheduler: found {scheduler!r}, expected one of {choices}")


def _check_value(key: str, value: str) -> str:
    if not re.fullmatch(r"[\w.:,+-][\w.:,+ -]{0,99}", value, re.ASCII):
        raise UsageError(f"settings: {key}: found {value!r}, expected a word or a number")
    return value


def _plan(
    settings: Mapping[str, str], devices: Sequence[SysfsLayer], roots: Roots
) -> dict[BlockDevice | None, list[str]]:
    """Returns the keys to set, by device; None is the kernel."""
    disks = {}
    for layer in devices:
        if layer.disk is not None and layer.disk not in disks:
            disks[layer.disk] = of_node(layer.disk, roots)
    plan: dict[BlockDevice | None, list[str]] = {}
    for key in settings:
        if key.startswith("vm."):
            if read_text(path_of(None, key, roots)) is None:
                raise UsageError(f"settings: {key}: this kernel has no {path_of(None, key, roots)}")
            plan.setdefault(None, []).append(key)
            continue
        if key not in FILES:
            path_of(None, key, roots)  # raises; a scheduler's own are put back, but not for users
        having = [device for node, device in disks.items() if has_setting(node, key, roots)]
        if not having:
            names = ", ".join(sorted(device.name for device in disks.values())) or "no device"
            raise UsageError(f"settings: {key}: not found on {names}: none of these devices has it")
        for device in having:
            plan.setdefault(device, []).append(key)
    return plan


def has_setting(node: Path, key: str, roots: Roots) -> bool:
    """Tells whether a device has a setting with a meaning: md and most of dm have no queue of requests."""
    if read_text(path_of(node, key, roots)) is None:
        return False
    if key in OF_REQUESTS and not (node / "mq").is_dir():
        # Before blk-mq: a queue of requests has a scheduler, in brackets.
        return "[" in (read_text(node / "queue/scheduler") or "")
    return True


def _check_no_leftovers(plan: Mapping[BlockDevice | None, Sequence[str]], journal: HostJournal) -> None:
    """Raises BlklabError if a run, ours or a killed one, left one of the devices changed.

    Otherwise the changed value would be taken for the original, and restored for ever.
    """
    names = {_owner_name(device) for device in plan}
    conflicts = dict.fromkeys(journal.list_changed_owners() & names, journal.path)
    for path in journals.list_leftovers(journal.roots):
        with suppress(FileNotFoundError), journals.lock_leftover(path, journal.roots) as leftover:
            if leftover is not None and leftover.boot == journals.boot_of(journal.roots):
                for entry in leftover.entries.values():
                    if isinstance(entry, journals.SettingsEntry) and _owner_name(entry.device) in names:
                        conflicts[_owner_name(entry.device)] = path
    if conflicts:
        name = min(conflicts)
        message = f"{name}: an earlier run left its settings changed ({conflicts[name]}); run `blklab restore` first"
        raise BlklabError(message)


def _owner_name(device: BlockDevice | None) -> str:
    return device.name if device else journals.KERNEL


@contextmanager
def _put_back_after(plan: Mapping[BlockDevice | None, Sequence[str]], journal: HostJournal) -> Iterator[None]:
    roots = journal.roots
    journal_entries: list[tuple[int, BlockDevice | None, dict[str, str]]] = []
    problems: list[str] = []
    cause: Exception | None = None
    try:
        for device, keys in plan.items():
            values = _values(device, keys, roots)
            journal_entries.append((journal.settings(device, values), device, values))
        yield
    except Exception as error:
        cause = error
        raise
    finally:
        with signals_held_back():  # A second Ctrl-C must not end it halfway
            problems += _put_back_all(journal_entries, journal)
        if problems:
            if cause:
                problems.insert(0, str(cause))
            raise BlklabError(f"{'; '.join(problems)}; run `blklab restore` to try again") from cause


def _put_back_all(
    journal_entries: Sequence[tuple[int, BlockDevice | None, dict[str, str]]], journal: HostJournal
) -> list[str]:
    """Restores the values of all devices, the last first, and then records it; returns messages about what failed.

    The journal comes last: its disk can be slow, or full, because of a value that is still set.
    """
    problems: list[str] = []
    restored = []
    for number, device, values in reversed(journal_entries):
        failures = _find_other_disk(device, journal.roots) or put_back(device, values, journal.roots)
        if not failures:
            restored.append(number)
        problems += failures
    for number in restored:
        try:
            journal.done(number)
        except BlklabError as error:
            problems.append(str(error))
    return problems


def _find_other_disk(device: BlockDevice | None, roots: Roots) -> list[str]:
    """Returns a message if another disk has the name of a device now: its settings are not ours."""
    if device is None or not device.node.exists():
        return []
    present = of_node(device.node, roots)
    if same_disk(device, present):
        return []
    return [f"{device.name}: not restored: another disk has this name now ({present.id or 'without an id'})"]


def _values(device: BlockDevice | None, keys: Sequence[str], roots: Roots) -> dict[str, str]:
    """Returns the values to restore: of the keys, and of those that the kernel changes with them."""
    node = device.node if device else None
    keys_to_restore = dict.fromkeys([*keys, *(also for key in keys for also in ALSO.get(key, ()))])
    if node is not None and "scheduler" in keys:
        keys_to_restore.update(dict.fromkeys(f"{TUNABLE}{f.name}" for f in entries(node / "queue/iosched")))
    values = {key: current(path_of(node, key, roots), key) for key in keys_to_restore}
    return {key: value for key, value in values.items() if value is not None}


def put_back(device: BlockDevice | None, values: Mapping[str, str], roots: Roots) -> list[str]:
    """Restores values that differ, and returns what could not be restored.

    Writes twice: the second pass corrects what the kernel changed along with another key.
    """
    node = device.node if device else None
    owner = _owner_name(device)
    failures: dict[str, str] = {}
    for _ in range(2):
        for key in sorted(values, key=_rank):
            path = path_of(node, key, roots)
            if is_same_value(key, values[key], current(path, key)):
                continue
            try:
                _write(path, values[key])
            except OSError as error:
                failures[key] = f" ({error.strerror})"
    problems = []
    for key, value in values.items():
        present = current(path_of(node, key, roots), key)
        if not is_same_value(key, value, present):
            why = failures.get(key, "")
            problems.append(f"{owner}: {key}: found {present}, expected the former value {value}{why}")
    return problems


def _set(device: BlockDevice | None, key: str, value: str, roots: Roots) -> ChangedSetting | None:
    owner = _owner_name(device)
    path = path_of(device.node if device else None, key, roots)
    before = current(path, key)
    if before is not None and value != "-1" and is_same_value(key, value, before):
        return None
    try:
        _write(path, value)
    except PermissionError as error:
        raise EnvironmentLacks(f"{path}: {error.strerror}", "run it as root") from None
    except OSError as error:
        hint = ""
        if key == "scheduler":
            names = (read_text(path) or "").replace("[", "").replace("]", "").split()
            hint = f", expected one of {', '.join(names)}"
        message = f"settings: {owner}: {key}: the kernel refused {value!r} ({error.strerror}){hint}"
        raise UsageError(message) from None
    after = current(path, key)
    if not is_same_value(key, value, after):
        raise BlklabError(
            f"settings: {owner}: {key}: wrote {value}, but the kernel set {after}; "
            f"choose a value that it accepts ({path})"
        )
    return ChangedSetting(owner, key, before or "", after or "")
