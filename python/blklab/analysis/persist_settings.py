"""Persist settings: shell commands for now, a udev rule and a sysctl file for the next boot."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blklab.outcome import Outcome
from blklab.spec.sweep import MD, VM

UDEV = "/etc/udev/rules.d/60-blklab.rules"
SYSCTL = "/etc/sysctl.d/60-blklab.conf"


@dataclass(frozen=True)
class PersistedSettings:
    commands: Sequence[str]  # Commands for a root shell
    udev: Sequence[str]  # Lines of a rules file
    sysctl: Sequence[str]  # Lines of a sysctl.d file


def persist_settings(settings: Mapping[str, str], outcomes: Iterable[Outcome]) -> PersistedSettings:
    """Returns how to persist settings on the devices that these results changed.

    A disk with a stable identity is matched by it, because `sdb` may be another disk after a boot.
    """
    ids: dict[str, str | None] = {}
    changed: dict[tuple[str, str], None] = {}
    for outcome in outcomes:
        ids |= {device.name: device.id for device in outcome.devices}
        for change in outcome.settings or ():
            changed[change.key, change.where] = None
    commands, rules, lines = [], [], []
    for key, value in settings.items():
        if key.startswith(VM):
            commands.append(f"sysctl -w {key}={shlex.quote(value)}")
            lines.append(f"{key} = {value}")
            continue
        for name in (name for of, name in changed if of == key):
            path = attribute(key)
            commands.append(f"echo {shlex.quote(value)} > {shlex.quote(f'/sys/block/{name}/{path}')}")
            rules.append(
                f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk",'
                f' {_match(name, ids.get(name))}, ATTR{{{path}}}="{_quoted(value)}"'
            )
    return PersistedSettings(commands, rules, lines)


def attribute(key: str) -> str:
    """Returns the path of a setting below /sys/block/NAME."""
    if key in MD:
        return f"md/{key}"
    return "device/queue_depth" if key == "queue_depth" else f"queue/{key}"


def _match(name: str, identity: str | None) -> str:
    identity = identity or ""
    if match := re.fullmatch(r"wwn-(0x[0-9a-f]+)", identity):
        return f'ENV{{ID_WWN_WITH_EXTENSION}}=="{match[1]}"'
    if match := re.fullmatch(r"nvme-(eui\.[0-9a-f]+|uuid\.[0-9a-f-]+)", identity):
        return f'ATTR{{wwid}}=="{match[1]}"'
    if match := re.fullmatch(r"(?:ata|scsi|nvme|usb|virtio)-([\w.:+-]+)", identity, re.A):
        return f'ENV{{ID_SERIAL}}=="{match[1]}"'
    if match := re.fullmatch(r"md-uuid-([0-9a-f:]+)", identity):
        return f'ENV{{MD_UUID}}=="{match[1]}"'
    return f'KERNEL=="{_quoted(name)}"'


def _quoted(text: str) -> str:
    return re.sub(r"[^\w.:+ -]", "?", text)
