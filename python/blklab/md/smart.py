"""SMART values of the disks below arrays, read with smartctl."""

import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from blklab.md.inventory import parse_number
from blklab.md.model import DiskHealth, Inventory, PhysicalDisk
from blklab.md.probing import Probe
from blklab.system.identity import normal, of_node
from blklab.system.layers import layers
from blklab.system.roots import Roots, read_text

MAX_PARALLEL = 16  # Disks that are read at the same time
SmartTarget = tuple[str, str]  # A path and smartctl's device type, which is empty for disks that the kernel shows


ATA_COUNTERS = {"reallocated": (5, "realloc"), "pending": (197, "pending"), "uncorrectable": (198, "uncorrect")}
"""Numbers of ATA attributes, and a part of their names, since vendors may reuse the numbers."""

NVME_FAILED = {5, 6, 7}
SCSI_FAILED = {3, 4, 5, 6, 7}  # Results of self-tests that mean failure; aborted tests have other numbers


def parse_health(output: str) -> tuple[DiskHealth, str]:
    """Returns the SMART values of a disk and, if there are none, the reason; raises nothing."""
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        return DiskHealth(), "smartctl printed no JSON: install smartctl 7.0 or newer"
    root = _SmartctlNode(document)
    messages = [str(entry.text("string")) for entry in root.list("smartctl", "messages")]
    if any(re.search(r"mode, exit\(\d+\)", message) for message in messages):
        return DiskHealth(), "it is in standby and was not spun up"
    health = _health(root)
    if health.has_answered:
        return health, ""
    errors = [message for message in messages if message]
    return health, errors[0] if errors else "it reports no SMART values"


def parse_devices(output: str) -> list[tuple[str, str]]:
    """Returns the devices of `smartctl --scan-open`: paths and types (`megaraid,3`)."""
    try:
        root = _SmartctlNode(json.loads(output))
    except (ValueError, RecursionError):
        return []
    pairs = [(entry.text("name"), entry.text("type")) for entry in root.list("devices")]
    return [(name, kind) for name, kind in pairs if name.startswith("/dev/") and kind]


class _SmartctlNode:
    """A JSON value of any type, with typed access to its members."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def _at(self, *keys: str | int) -> Any:
        value = self._document
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *keys: str) -> int | None:
        value = self._at(*keys)
        usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64
        return value if usable else None

    def flag(self, *keys: str) -> bool | None:
        value = self._at(*keys)
        return value if isinstance(value, bool) else None

    def text(self, *keys: str) -> str:
        value = self._at(*keys)
        return " ".join(value.split())[:200] if isinstance(value, str) else ""

    def list(self, *keys: str) -> "list[_SmartctlNode]":
        value = self._at(*keys)
        return [_SmartctlNode(item) for item in value] if isinstance(value, list) else []

    def has(self, *keys: str) -> bool:
        return self._at(*keys) is not None


def _health(root: _SmartctlNode) -> DiskHealth:
    attributes = root.list("ata_smart_attributes", "table")
    log = "nvme_smart_health_information_log"
    counters = []
    for direction in ("read", "write", "verify"):
        number = root.number("scsi_error_counter_log", direction, "total_uncorrected_errors")
        if number is not None:
            counters.append(number)
    counts = {key: _attribute(attributes, *which) for key, which in ATA_COUNTERS.items()}
    if counts["pending"] is None:
        counts["pending"] = root.number("scsi_pending_defects", "count")
    limits = [root.number("temperature", key) for key in ("op_limit_max", "drive_trip")]
    return DiskHealth(
        model=root.text("model_name"),
        serial=root.text("serial_number"),
        wwn=_wwn(root),
        protocol=root.text("device", "protocol"),
        rotation=root.number("rotation_rate"),
        passed=root.flag("smart_status", "passed"),
        failing=tuple(attribute.text("name") for attribute in attributes if attribute.text("when_failed") == "now"),
        hours=root.number("power_on_time", "hours"),
        **counts,
        grown_defects=root.number("scsi_grown_defect_list"),
        uncorrected=sum(counters) if counters else None,
        critical_warning=root.number(log, "critical_warning"),
        media_errors=root.number(log, "media_errors"),
        used_percent=root.number(log, "percentage_used"),
        self_test=_self_test(root),
        temperature=root.number("temperature", "current"),
        # Virtual disks report 0.
        temperature_limit=next((limit for limit in limits if limit), None),
        erc=_erc(root),
        erc_seconds=_erc_seconds(root),
        link=_link(root),
        shingled="SMR" in root.text("model_family"),
    )


def _attribute(attributes: "list[_SmartctlNode]", number: int, name: str) -> int | None:
    for attribute in attributes:
        if attribute.number("id") == number and name in attribute.text("name").lower():
            # A raw value may hold several numbers; its text begins with the counter.
            match = re.match(r"\d{1,15}(?!\d)", attribute.text("raw", "string"))
            return int(match[0]) if match else attribute.number("raw", "value")
    return None


def _wwn(root: _SmartctlNode) -> str:
    parts = [root.number("wwn", key) for key in ("naa", "oui", "id")]
    unit = root.text("logical_unit_id")
    if re.fullmatch(r"0x[0-9a-f]{16}", unit):
        return f"wwn-{unit}"
    naa, oui, number = (-1 if part is None else part for part in parts)
    if not (0 <= naa < 16 and 0 <= oui < 1 << 24 and 0 <= number < 1 << 36):
        return ""
    return f"wwn-0x{naa:x}{oui:06x}{number:09x}"


def _self_test(root: _SmartctlNode) -> str:
    for kind in ("standard", "extended"):
        for test in root.list("ata_smart_self_test_log", kind, "table")[:1]:
            if test.flag("status", "passed") is False:
                return test.text("status", "string") or "failed"
    for test in root.list("nvme_self_test_log", "table")[:1]:
        if test.number("self_test_result", "value") in NVME_FAILED:
            return test.text("self_test_result", "string") or "failed"
    if root.number("scsi_self_test_0", "result", "value") in SCSI_FAILED:
        return root.text("scsi_self_test_0", "result", "string") or "failed"
    return ""


def _erc(root: _SmartctlNode) -> bool | None:
    """Returns whether error recovery control is supported: not by disks that report no SCT."""
    is_supported = root.flag("ata_sct_capabilities", "error_recovery_control_supported")
    reports_no_sct = root.has("ata_smart_data") and not root.has("ata_sct_capabilities")
    return False if is_supported is None and reports_no_sct else is_supported


def _erc_seconds(root: _SmartctlNode) -> tuple[float | None, float | None] | None:
    if root.flag("ata_sct_erc", "read", "enabled") is None:
        return None
    times = [
        root.number("ata_sct_erc", direction, "deciseconds") if root.flag("ata_sct_erc", direction, "enabled") else None
        for direction in ("read", "write")
    ]
    read, write = (time / 10 if time else None for time in times)
    return read, write


def _link(root: _SmartctlNode) -> tuple[int, int] | None:
    speeds = []
    for which in ("current", "max"):
        units = root.number("interface_speed", which, "units_per_second")
        bits = root.number("interface_speed", which, "bits_per_unit")
        if not units or not bits:
            return None
        speeds.append(units * bits)
    return speeds[0], speeds[1]


def add_health(
    inventory: Inventory, roots: Roots, reader: Probe | None = None, advance: Callable[[int], None] = lambda _: None
) -> Inventory:
    """Returns the inventory with the disks below its arrays; `unseen` lists unreadable ones.

    Disks that a controller hides are read through it, and recognised by serial number or WWN. Those
    that belong to no member are added without an array. `advance` gets the number of disks read.
    """
    probe = reader or Probe()
    nodes = _find_disks(inventory, roots)
    answers = _read_all([(of_node(node, roots).path, "") for node in nodes], probe, advance)
    disks = []
    hidden = []
    for (node, arrays), (health, failure) in zip(nodes.items(), answers, strict=True):
        device = of_node(node, roots)
        disk = PhysicalDisk(
            node.name,
            device.path,
            arrays,
            health,
            timeout=parse_number(read_text(node / "device/timeout")),
            zoned=read_text(node / "queue/zoned") or "",
            failure=failure,
        )
        disks.append(disk)
        # smartctl reports a controller's volume as a disk without SMART, or names a -d to try.
        if failure and (health.protocol or re.search(r"'-d [\w+]+,N'", failure)):
            hidden.append((len(disks) - 1, {normal(identity) for identity in device.ids}))
    if hidden:
        disks += _read_hidden_disks(disks, hidden, probe, advance)
    unseen = [f"{disk.name}: not seen: SMART: {disk.failure}" for disk in disks if disk.failure]
    if len({disk.failure for disk in disks}) == 1 and disks[0].failure:
        unseen = [f"SMART of {len(disks)} disks: not seen: {disks[0].failure}"]
    return replace(inventory, disks=tuple(disks), unseen=(*inventory.unseen, *unseen))


def _find_disks(inventory: Inventory, roots: Roots) -> dict[Path, tuple[str, ...]]:
    """Returns the disks below arrays, with the names of the arrays."""
    disks: dict[Path, dict[str, None]] = {}
    for array in inventory.arrays:
        for member in array.members:
            device = read_text(roots.sys / "class/block" / member.name.replace("/", "!") / "dev")
            for layer in layers([device] if device else [], roots):
                # The paths of an NVMe multipath disk have no device file, but its head has.
                head = re.sub(r"^(nvme\d+)c\d+(n\d+)$", r"\1\2", layer.name)
                node = (roots.sys / "block" / head).resolve() if head != layer.name else layer.disk
                if layer.leaf and node is not None and (node / "device").exists():
                    disks.setdefault(node, {})[array.name] = None
    return {node: tuple(names) for node, names in disks.items()}


def _read_all(
    targets: Iterable[SmartTarget], reader: Probe, advance: Callable[[int], None]
) -> list[tuple[DiskHealth, str]]:
    disks = []
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        for output, failure in pool.map(lambda target: reader.read_smart(*target), targets):
            disks.append((DiskHealth(), failure) if failure else parse_health(output))
            advance(len(disks))
    return disks


def _read_hidden_disks(
    disks: list[PhysicalDisk], hidden: list[tuple[int, set[str]]], reader: Probe, advance: Callable[[int], None]
) -> list[PhysicalDisk]:
    """Completes `disks` with disks behind controllers that have their ids; returns the others."""
    output, _ = reader.read_controllers()
    targets = [target for target in dict.fromkeys(parse_devices(output)) if "," in target[1]]
    other_disks = []
    for (path, kind), (health, failure) in zip(targets, _read_all(targets, reader, advance), strict=True):
        disk_ids = {normal(identity) for identity in (health.serial, health.wwn) if identity}
        match = next((index for index, ids in hidden if ids & disk_ids), None)
        if match is None:
            other_disks.append(PhysicalDisk(f"{path} {kind}", path, (), health, kind, failure=failure))
        else:
            disks[match] = replace(disks[match], health=health, kind=kind, failure=failure)
    return other_disks
