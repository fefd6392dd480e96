"""Collects what others need to judge the arrays of a host, as one text for a mail; `md audit FILE` reads it."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from blklab.errors import BlklabError
from blklab.system import child_process
from blklab.system.ssh import command, last_line

SCRIPT = Path(__file__).with_name("bundle.sh")
HEADER = "blklab-bundle 1\n"
END = "\nend\n"
MOST_BYTES = 32 << 20

PRIVATE = (
    ("host", re.compile(r"^\s*Name : ([^\s:()]+):", re.M)),
    ("host", re.compile(r"\blocal to host ([^\s()]+)\)")),
    ("label", re.compile(r"^\s*Name : (?:[^\s:()]+:)?([A-Za-z][^\s:()]*)(?: |$)", re.M)),
    ("serial", re.compile(r"^\s*(?:Serial [Nn]umber|SerialNumber|Disk\d+ Serial) ?: +(\S+)", re.M)),
    ("serial", re.compile(r"\bSERIAL=\"([^\"]+)\"")),
    ("serial", re.compile(r"\bSerialNumber: (\S+)")),
    ("wwn", re.compile(r"\bWWN=\"([^\"]+)\"")),
    ("wwn", re.compile(r"^.{0,20}(?:LU WWN Device Id|Logical Unit id|IEEE EUI-64): +(\S.*?) *$", re.M)),
    ("wwn", re.compile(r"\b((?:naa|eui|wwn-0x|nvme-eui|iqn|nqn)\.[\w.:-]+)")),
    ("volume", re.compile(r"\bNAME=\"([^\"]+)\" SIZE=\"[^\"]*\" TYPE=\"(?:lvm|crypt|raid\d+)\"")),
    ("volume", re.compile(r"/dev/mapper/([\w.+-]+)")),
    ("label", re.compile(r"\bFS(?:_| )?LABEL=\"([^\"]+)\"")),
    ("address", re.compile(r"\b(\d{1,3}(?:\.\d{1,3}){3})\b")),
    ("mail", re.compile(r"\b([\w.+-]+@[\w-]+(?:\.[\w-]+)+)")),
)
"""What tells a host or a disk, and what it is replaced with: a word and a number."""

SHORTEST = 4
"""Letters of a name that is replaced everywhere; of hosts, shorter ones are, too, unless the outputs have this word."""

WORDS = re.compile(
    r"md\d*|dm|sd[a-z]{1,3}|hd[a-z]|vd[a-z]|nvme|ata\d*|usb|raid\d*|lvm|ext[234]|xfs|btrfs|disk|part|rom|pci|scsi|cpu|"
    r"the|and|for|not|all|of|to|on|in|is|at|by|no|as|or|an?|with|from|host|name|size|type|dev|sys|proc|log|yes|set|up|"
    r"\d+|[a-z]"
)
"""Short words of the outputs, and names of devices: a host with such a name is only replaced where it is a host."""

UNREAD = (
    (re.compile(r"^mdadm: (?:cannot|failed to) open (?:device )?/dev/\S+: Permission denied", re.M), "disk", "examine"),
    (re.compile(r"^mdadm: must be super-user to perform this action", re.M), "array", "detail"),
)
"""What mdadm prints to a plain user."""

LOG_DENIED = re.compile(r"^dmesg: .*(?:Operation not permitted|Permission denied)", re.M)
DISKS_DENIED = re.compile(r"^Smartctl open device: \S+ failed: Permission denied", re.M)


def collect(address: str | None, *, sudo: bool, timeout: float, root: Path | None = None) -> str:
    """Returns the outputs of this host, or over ssh of another one. Raises BlklabError if they are not complete.

    `root` is the directory of /proc and /sys, for tests. `timeout` is in seconds.
    """
    script = "sudo -n sh -s" if sudo else "sh -s"
    arguments: Sequence[str] = ("sh", "-s", "--", str(root or ""))
    if address is not None:
        arguments = command(address, script, "ClearAllForwardings=yes")
    with SCRIPT.open("rb") as file:
        try:
            result = child_process.run(arguments, stdin=file, timeout=timeout)
        except OSError as error:
            raise BlklabError(f"{arguments[0]}: {error.strerror or error}") from None
        except subprocess.TimeoutExpired:
            raise BlklabError(f"{address or 'this host'}: no result within {timeout:g} s") from None
    text = str(result.stdout)[:MOST_BYTES]
    begin = text.find(HEADER)
    if begin < 0 or not text.endswith(END):
        reason = last_line(str(result.stderr).encode()) or "the output is not complete"
        raise BlklabError(f"{address or 'this host'}: {reason}")
    return text[begin:].removesuffix(END) + "\n"


def make_anonymous(text: str) -> str:
    """Returns a text with other names of hosts, and other serial numbers and WWNs of disks: the same for the same."""
    lines = [line for line in text.splitlines(keepends=True) if "ommand line:" not in line]  # may have names of volumes
    text = "".join(lines)
    substitutes: dict[str, str] = {}
    counts: dict[str, int] = {}
    for kind, pattern in PRIVATE:
        for name in pattern.findall(text):
            if name not in substitutes and name.strip("()"):
                counts[kind] = counts.get(kind, 0) + 1
                substitutes[name] = f"{kind}{counts[kind]}"
    for _, pattern in PRIVATE:
        text = pattern.sub(lambda match: match[0].replace(match[1], substitutes.get(match[1], match[1])), text)
    names = [name for name in substitutes if _is_replaced_everywhere(name, substitutes[name])]
    names.sort(key=len, reverse=True)
    if names:
        everywhere = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))
        text = everywhere.sub(lambda match: substitutes[match[0]], text)
    return text


def _is_replaced_everywhere(name: str, substitute: str) -> bool:
    if len(name) >= SHORTEST:
        return True
    return substitute.startswith("host") and not WORDS.fullmatch(name.lower())


def describe_unread(text: str) -> str:
    """Returns what a plain user could not read, for a message; empty if nothing is missing."""
    lacks = []
    for pattern, noun, option in UNREAD:
        count = len(pattern.findall(text))
        if count:
            what = "the superblocks of " if noun == "disk" else ""
            plural = "" if count == 1 else "s"
            lacks.append(f"{what}{count} {noun}{plural} (mdadm --{option})")
    if LOG_DENIED.search(text):
        lacks.append("the kernel's log (dmesg)")
    if DISKS_DENIED.search(text):
        lacks.append("SMART values (smartctl)")
    return ", ".join(lacks)
