"""What a disk says of itself, out of smartctl's JSON: whatever it lacks, or has garbled, is None.

Sources: smartctl(8), which has JSON since 7.0, and what it says of real disks (tests/data/md/smart
holds some); SPC-4, Self-Test Results log page; NVM Express 1.4, 5.14.1.2 (SMART log,
`critical_warning`) and 5.14.1.6 (results of self-tests).
"""

import json
import re
from typing import Any, Final

from blklab.md.model import DiskHealth

COUNTED: Final = {
    "reallocated": (5, "realloc"),
    "pending": (197, "pending"),
    "uncorrectable": (198, "uncorrect"),
}
"""ATA attributes, and what must be in their names: numbers are the makers' own to give."""

NVME_FAILED: Final = {5, 6, 7}
SCSI_FAILED: Final = {3, 4, 5, 6, 7}
"""Results of self-tests that are failures, not tests that were broken off."""


def parse(said: str) -> tuple[DiskHealth, str]:
    """Returns what smartctl said of a disk, and why that is nothing, if so; raises nothing."""
    try:
        document = json.loads(said)
    except (ValueError, RecursionError):
        return DiskHealth(), "smartctl gave no JSON: 7.0 or later does"
    found = _SmartctlNode(document)
    messages = [str(one.text("string")) for one in found.list("smartctl", "messages")]
    if any(re.search(r"mode, exit\(\d+\)", message) for message in messages):
        return DiskHealth(), "it sleeps, and was not woken"
    health = _health(found)
    if health.told:
        return health, ""
    errors = [message for message in messages if message]
    return health, errors[0] if errors else "it tells nothing of its health"


def devices(said: str) -> list[tuple[str, str]]:
    """Returns what `smartctl --scan-open` found: paths and types (`megaraid,3`)."""
    try:
        found = _SmartctlNode(json.loads(said))
    except (ValueError, RecursionError):
        return []
    pairs = [(one.text("name"), one.text("type")) for one in found.list("devices")]
    return [(name, kind) for name, kind in pairs if name.startswith("/dev/") and kind]


class _SmartctlNode:
    """A document that may hold anything."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def _at(self, *keys: str | int) -> Any:
        found = self._document
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def number(self, *keys: str) -> int | None:
        found = self._at(*keys)
        usable = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 64
        return found if usable else None

    def flag(self, *keys: str) -> bool | None:
        found = self._at(*keys)
        return found if isinstance(found, bool) else None

    def text(self, *keys: str) -> str:
        found = self._at(*keys)
        return " ".join(found.split())[:200] if isinstance(found, str) else ""

    def list(self, *keys: str) -> "list[_SmartctlNode]":
        found = self._at(*keys)
        return [_SmartctlNode(one) for one in found] if isinstance(found, list) else []

    def has(self, *keys: str) -> bool:
        return self._at(*keys) is not None


def _health(found: _SmartctlNode) -> DiskHealth:
    attributes = found.list("ata_smart_attributes", "table")
    log = "nvme_smart_health_information_log"
    counters = [
        number
        for way in ("read", "write", "verify")
        if (number := found.number("scsi_error_counter_log", way, "total_uncorrected_errors"))
        is not None
    ]
    counted = {key: _attribute(attributes, *which) for key, which in COUNTED.items()}
    if counted["pending"] is None:
        counted["pending"] = found.number("scsi_pending_defects", "count")
    limits = [found.number("temperature", key) for key in ("op_limit_max", "drive_trip")]
    return DiskHealth(
        model=found.text("model_name"),
        serial=found.text("serial_number"),
        wwn=_wwn(found),
        protocol=found.text("device", "protocol"),
        rotation=found.number("rotation_rate"),
        passed=found.flag("smart_status", "passed"),
        failing=tuple(one.text("name") for one in attributes if one.text("when_failed") == "now"),
        hours=found.number("power_on_time", "hours"),
        **counted,
        grown_defects=found.number("scsi_grown_defect_list"),
        uncorrected=sum(counters) if counters else None,
        critical_warning=found.number(log, "critical_warning"),
        media_errors=found.number(log, "media_errors"),
        used_percent=found.number(log, "percentage_used"),
        self_test=_self_test(found),
        temperature=found.number("temperature", "current"),
        # Of virtual disks it is 0.
        temperature_limit=next((limit for limit in limits if limit), None),
        erc=_erc(found),
        erc_seconds=_erc_seconds(found),
        link=_link(found),
        shingled="SMR" in found.text("model_family"),
    )


def _attribute(attributes: "list[_SmartctlNode]", number: int, name: str) -> int | None:
    for one in attributes:
        if one.number("id") == number and name in one.text("name").lower():
            # Raw values may hold several numbers; of these the text has the one meant first.
            match = re.match(r"\d{1,15}(?!\d)", one.text("raw", "string"))
            return int(match[0]) if match else one.number("raw", "value")
    return None


def _wwn(found: _SmartctlNode) -> str:
    parts = [found.number("wwn", key) for key in ("naa", "oui", "id")]
    unit = found.text("logical_unit_id")
    if re.fullmatch(r"0x[0-9a-f]{16}", unit):
        return f"wwn-{unit}"
    naa, oui, number = (-1 if part is None else part for part in parts)
    if not (0 <= naa < 16 and 0 <= oui < 1 << 24 and 0 <= number < 1 << 36):
        return ""
    return f"wwn-0x{naa:x}{oui:06x}{number:09x}"


def _self_test(found: _SmartctlNode) -> str:
    for kind in ("standard", "extended"):
        for one in found.list("ata_smart_self_test_log", kind, "table")[:1]:
            if one.flag("status", "passed") is False:
                return one.text("status", "string") or "failed"
    for one in found.list("nvme_self_test_log", "table")[:1]:
        if one.number("self_test_result", "value") in NVME_FAILED:
            return one.text("self_test_result", "string") or "failed"
    if found.number("scsi_self_test_0", "result", "value") in SCSI_FAILED:
        return found.text("scsi_self_test_0", "result", "string") or "failed"
    return ""


def _erc(found: _SmartctlNode) -> bool | None:
    """Disks that tell of themselves, and nothing of SCT, cannot do it."""
    said = found.flag("ata_sct_capabilities", "error_recovery_control_supported")
    silent = found.has("ata_smart_data") and not found.has("ata_sct_capabilities")
    return False if said is None and silent else said


def _erc_seconds(found: _SmartctlNode) -> tuple[float | None, float | None] | None:
    if found.flag("ata_sct_erc", "read", "enabled") is None:
        return None
    times = [
        found.number("ata_sct_erc", way, "deciseconds")
        if found.flag("ata_sct_erc", way, "enabled")
        else None
        for way in ("read", "write")
    ]
    read, write = (time / 10 if time else None for time in times)
    return read, write


def _link(found: _SmartctlNode) -> tuple[int, int] | None:
    speeds = []
    for which in ("current", "max"):
        units = found.number("interface_speed", which, "units_per_second")
        bits = found.number("interface_speed", which, "bits_per_unit")
        if not units or not bits:
            return None
        speeds.append(units * bits)
    return speeds[0], speeds[1]
