"""Builds a cell's stack in the guest, from its disks upwards, and removes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from blklab.documents import cell
from blklab.errors import BlklabError
from blklab.experiment import documents
from blklab.experiment.documents import LabCellDocument, LabDeviceDocument, latency_ns
from blklab.experiment.sweep import MD, QUEUE, VM
from blklab.grouping import by_key
from blklab.outcome import VolumeReport
from blklab.runners.host.settings import OF_REQUESTS
from blklab.runners.lab.agent import GuestGone
from blklab.runners.lab.stacks import bcache, filesystem, lvm, md
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from blklab.text.printing import printable

STATE = ("error", "blocks", "free_blocks", "writeback_blocks")
COUNTS = (
    "reads", "read_hits", "writes", "write_hits_uncommitted", "write_hits_committed", "writes_around",
    "writes_allocate", "writes_blocked_on_freelist", "flushes", "discards",
)  # fmt: skip
"""Fields of the status line (device-mapper/writecache.rst); kernels before 5.15 do not count."""


def create_writecache(guest: GuestStack, table: cell.Writecache, paths: Mapping[str, Sequence[str]]) -> str:
    """Puts an empty writecache on `cache` over `origin`; returns its path."""
    (origin,) = paths["origin"]
    (cache,) = paths["cache"]
    guest.load_modules("dm-writecache")
    below = origin.removeprefix("/dev/")
    block = table["block"] // 512
    sectors = int(guest.read(f"/sys/block/{below}/size") or 0) // block * block
    # dm-writecache formats a device that begins with zeros.
    guest.write(cache, "\0" * 4096)
    options = ["high_watermark", str(table["high_watermark"]), "low_watermark", str(table["low_watermark"])]
    if (max_age := table.get("max_age_ns")) is not None:
        options += ["max_age", str(max_age // 10**6)]
    name = f"writecache_{below}"
    dm_table = f"0 {sectors} writecache s {origin} {cache} {table['block']} {len(options)} {' '.join(options)}"
    guest.run("dmsetup", "create", name, "--table", dm_table)
    guest.undoing.append(lambda: guest.run("dmsetup", "remove", "--retry", name))
    before: dict[str, int] = {}
    guest.readying.append(lambda: before.update(_status(guest, name)))
    guest.reports.append(lambda: _report(table["name"], before, _status(guest, name)))
    return guest.add_cache(GuestLayer(table["name"], "dm", guest.find_dm_name(name)), origin, cache)


def _status(guest: GuestStack, name: str) -> dict[str, int]:
    line = guest.run("dmsetup", "status", name).stdout.strip()
    fields = line.split()[3:]
    if len(fields) < len(STATE) or not all(word.isascii() and word.isdigit() for word in fields):
        excerpt = printable(line[:200])
        raise BlklabError(f"dmsetup status {name}: found {excerpt}, expected the status of a writecache")
    return dict(zip((*STATE, *COUNTS), map(int, fields), strict=False))


def _report(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> VolumeReport:
    """Returns a cache's activity since the load began: counts, and its present state."""
    grown = {key: after[key] - before[key] for key in COUNTS if key in after}
    return {"name": name, "kind": "writecache", **after, **grown}


MS = 1_000_000  # ns; dm-delay counts in them, and its timer is no finer than the kernel's tick


def create_delay(guest: GuestStack, table: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> str:
    """Delays reads and writes of `origin`; returns the path of the delayed device."""
    (origin,) = paths["origin"]
    write_ns, flush_ns = table["write_ns"], table.get("flush_ns")
    delays = (table["read_ns"], write_ns, write_ns if flush_ns is None else flush_ns)
    return _add_delay_layer(guest, table["name"], origin, [delay // MS for delay in delays])


VOLUMES = {
    "lvm": lvm.volume,
    "lvmcache": lvm.create_cache,
    "bcache": bcache.create,
    "writecache": create_writecache,
    "delay": create_delay,
}
"""Builders of stacks with a `kind`, called with the paths of the parts by key."""


def delay_disk(guest: GuestStack, disk: GuestLayer, latency_ns: int) -> str:
    """Puts a delay on a disk, in whole ms and at least one, and returns its path.

    The delay is then part of the stack; the disk below it keeps its name with a suffix.
    """
    return _add_delay_layer(guest, f"{disk.name} (delayed)", disk.path, [max(1, round(latency_ns / MS))])


def _add_delay_layer(guest: GuestStack, layer: str, path: str, delays_ms: Sequence[int]) -> str:
    guest.load_modules("dm-delay")
    below = path.removeprefix("/dev/")
    sectors = guest.read(f"/sys/block/{below}/size")
    name = f"delay_{below}"
    classes = " ".join(f"{path} 0 {delay}" for delay in delays_ms)  # Of reads, writes and flushes; of all if it is one
    guest.run("dmsetup", "create", name, "--table", f"0 {sectors} delay {classes}")
    guest.undoing.append(lambda: guest.run("dmsetup", "remove", "--retry", name))
    return guest.add_layer(GuestLayer(layer, "dm", guest.find_dm_name(name)), path)


def build(guest: GuestStack, document: LabCellDocument, serials: Sequence[str]) -> str:
    """Builds the stack of a cell and returns the target of its jobs: a device or a file.

    `serials` are those of the devices' disks, in the document's order. Raises BlklabError;
    `guest.undo` then removes what was built.
    """
    disks = _disks(guest, document, serials)
    # mdadm must be able to add, or re-add, a member.
    adds = bool(document["failures"]) or _rebuilds(document)
    md.configure(guest, bad_blocks=not adds)
    try:
        path = _node(guest, document["stack"], disks)
        if document["filesystem"] is None:
            return path
        kind = document["filesystem"]["type"]
        journal = document["filesystem"].get("journal")
        journal_path = None if journal is None else _node(guest, journal, disks)
        return filesystem.create(guest, kind, path, document["stack"], journal_path) + "/data"
    except GuestGone:
        raise
    except BlklabError as error:
        if not guest.lacking:
            raise
        kernel = guest.agent.hello(1).kernel
        raise BlklabError(f"{error} (kernel {kernel} has no module {', '.join(guest.lacking)})") from error


def _rebuilds(document: LabCellDocument) -> bool:
    """Tells whether an array of the stack has a member that is rebuilding."""
    for kind, table in documents.arrays_and_volumes(document["stack"]):
        if kind == "md" and any(slot["rebuilding"] for slot in table["members"]):
            return True
    return False


def _disks(guest: GuestStack, document: LabCellDocument, serials: Sequence[str]) -> list[str]:
    """Returns the path of each device: its disk, or the delay on top of it."""
    names_by_serial = {serial: path.split("/")[3] for path, serial in guest.glob("/sys/block/vd*/serial").items()}
    paths = []
    for device, serial in zip(document["devices"], serials, strict=True):
        if serial not in names_by_serial:
            raise BlklabError(f"device {device['name']}: the guest has no disk {serial}")
        layer = GuestLayer(device["name"], "disk", names_by_serial[serial], serial)
        guest.layers.append(layer)
        _queue(guest, layer, device)
        latency = latency_ns(device["model"])
        paths.append(delay_disk(guest, layer, latency) if latency else layer.path)
    return paths


def _queue(guest: GuestStack, layer: GuestLayer, device: LabDeviceDocument) -> None:
    """Sets a disk's queue as in the cell, in its order. Raises BlklabError if a value is not accepted."""
    base = f"/sys/block/{layer.kernel}/queue"
    queue_settings = device["virtual"]["queue"]
    for key, value in queue_settings.items():
        change_setting(guest, f"{base}/{key}", value)
    if "wbt_lat_usec" not in queue_settings and guest.read(f"{base}/wbt_lat_usec") is not None:
        # Its default depends on the disk at boot (block/blk-wbt.c): request it again.
        guest.write(f"{base}/wbt_lat_usec", "-1")
    for key, value in queue_settings.items():
        present = guest.setting(f"{base}/{key}")
        if present != value:
            raise BlklabError(f"device {device['name']}: {key}: wrote {value}, found {present}")


def change_setting(guest: GuestStack, path: str, value: str) -> None:
    """Changes a file of /sys or /proc for this cell. Raises BlklabError if the kernel refuses."""
    before = guest.setting(path)
    if before is None:
        raise BlklabError(f"{path}: the guest's kernel has no such setting")
    if before == value:
        return
    counterpart = _counterpart(path)
    other = None if counterpart is None else guest.setting(counterpart)
    guest.write(path, value)

    def back() -> None:
        try:
            if before == "0" and counterpart is not None and other is not None:
                guest.write(counterpart, other)
            else:
                guest.write(path, before)
        except GuestGone:
            raise
        except BlklabError:  # it may be about to go with its array
            guest.lost_settings[path] = before

    guest.undoing.append(back)


def apply_settings(guest: GuestStack, settings: Mapping[str, str]) -> None:
    """Changes settings (`blklab.experiment.sweep`) on every layer that has them.

    Raises BlklabError if no layer has one, or if the kernel refuses.
    """
    for key, value in settings.items():
        if key.startswith(VM):
            change_setting(guest, f"/proc/sys/vm/{key.removeprefix(VM)}", value)
            continue
        if key in MD:
            name = f"md/{key}"
        elif key in QUEUE:
            name = f"device/{key}" if key == "queue_depth" else f"queue/{key}"
        else:
            raise BlklabError(f"setting {key}: not supported in the lab")
        layers = [layer for layer in guest.layers if layer.kind == "disk" or key not in OF_REQUESTS]
        paths = guest.glob(*(f"/sys/block/{layer.kernel}/{name}" for layer in layers))
        if not paths:
            raise BlklabError(f"setting {key}: no device of the guest has it")
        for path in paths:
            change_setting(guest, path, value)


def _counterpart(path: str) -> str | None:
    """Returns the file that is 0 when this one is not, and the reverse (mm/page-writeback.c).

    Writing 0 to a limit in bytes is refused; writing the ratio unsets it.
    """
    for suffix, other in (("_ratio", "_bytes"), ("_bytes", "_ratio")):
        if path.startswith("/proc/sys/vm/dirty_") and path.endswith(suffix):
            return path.removesuffix(suffix) + other
    return None


def _node(guest: GuestStack, node: Mapping[str, Any], disks: Sequence[str]) -> str:
    ((kind, table),) = node.items()
    match kind:
        case "device":
            return disks[int(table)]
        case "md":
            members = [None if slot["node"] is None else _node(guest, slot["node"], disks) for slot in table["members"]]
            return md.create(guest, table, members)
        case _:
            paths = by_key((key, _node(guest, part, disks)) for key, part in documents.nodes_below(table))
            return VOLUMES[kind](guest, table, paths)
