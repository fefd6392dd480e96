"""How to keep settings over a reboot: commands for now, a udev rule and a sysctl file for later."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blklab.spec.sweep import MD, VM

UDEV: Final = "/etc/udev/rules.d/60-blklab.rules"
SYSCTL: Final = "/etc/sysctl.d/60-blklab.conf"


@dataclass(frozen=True)
class Kept:
    """What makes settings last."""

    commands: Sequence[str]
    """For a root shell, now."""

    udev: Sequence[str]
    """Lines of a rules file."""

    sysctl: Sequence[str]
    """Lines of a sysctl.d file."""


def keep(settings: Mapping[str, str], devices: Sequence[Mapping[str, Any]]) -> Kept:
    """Returns what keeps settings on devices: those of a result (`name`, `kind`, `id`).

    Partitions have no queue of their own; their disks are among the devices. A disk that has a
    name of its own is matched by that, since `sdb` may be another one tomorrow.
    """
    commands, rules, lines = [], [], []
    for key, value in settings.items():
        if key.startswith(VM):
            commands.append(f"sysctl -w {key}={shlex.quote(value)}")
            lines.append(f"{key} = {value}")
            continue
        for device in devices:
            kind = device.get("kind", "disk")
            if kind == "partition" or (key in MD) != (kind == "md" and key in MD):
                continue
            path = attribute(key)
            name = str(device["name"])
            commands.append(
                f"echo {shlex.quote(value)} > {shlex.quote(f'/sys/block/{name}/{path}')}"
            )
            rules.append(
                f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk",'
                f' {_match(device)}, ATTR{{{path}}}="{_quoted(value)}"'
            )
    return Kept(commands, rules, lines)


def attribute(key: str) -> str:
    """Returns where a setting is below /sys/block/NAME."""
    if key in MD:
        return f"md/{key}"
    return "device/queue_depth" if key == "queue_depth" else f"queue/{key}"


def _match(device: Mapping[str, Any]) -> str:
    identity = str(device.get("id") or "")
    if match := re.fullmatch(r"wwn-(0x[0-9a-f]+)", identity):
        return f'ENV{{ID_WWN_WITH_EXTENSION}}=="{match[1]}"'
    if match := re.fullmatch(r"nvme-(eui\.[0-9a-f]+|uuid\.[0-9a-f-]+)", identity):
        return f'ATTR{{wwid}}=="{match[1]}"'
    if match := re.fullmatch(r"(?:ata|scsi|nvme|usb|virtio)-([\w.:+-]+)", identity, re.A):
        return f'ENV{{ID_SERIAL}}=="{match[1]}"'
    if match := re.fullmatch(r"md-uuid-([0-9a-f:]+)", identity):
        return f'ENV{{MD_UUID}}=="{match[1]}"'
    return f'KERNEL=="{_quoted(str(device["name"]))}"'


def _quoted(text: str) -> str:
    return re.sub(r"[^\w.:+ -]", "?", text)
