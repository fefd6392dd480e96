"""Messages about findings of the audit that are new, worse or gone: by mail, to the journal, to a program."""

import json
import os
import platform
import subprocess
import syslog
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

from blklab import output
from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.md.audit import find_problems
from blklab.md.inventory import read_inventory
from blklab.md.mdadm_conf import parse_uuid
from blklab.md.model import Inventory
from blklab.md.repair.unfinished import add_unfinished_repairs
from blklab.md.seen_arrays import SeenArray, add_vanished, names_of_array, update_seen
from blklab.system.child_process import find
from blklab.system.roots import Roots
from blklab.text.printing import printable

PATIENCE_S = 60  # For the program that sends a message
PRIORITIES = {"critical": syslog.LOG_CRIT, "warning": syslog.LOG_WARNING, "note": syslog.LOG_NOTICE}

Send = Callable[[Sequence["Alert"]], None]
"""Sends a message; raises BlklabError."""


@dataclass(frozen=True)
class Alert:
    """What has changed about a finding since the last message."""

    change: Literal["new", "worse", "gone"]
    finding: Diagnostic

    @property
    def title(self) -> str:
        """One line, without the remedy."""
        about = " ".join(filter(None, (self.finding.subject, self.finding.member)))
        severity = "gone" if self.change == "gone" else f"{self.finding.severity}, {self.change}"
        return printable(f"{about or 'md'}: {severity}: {self.finding.message}")

    @property
    def lines(self) -> list[str]:
        """The title, and what to type."""
        remedy = () if self.change == "gone" else self.finding.remedy
        return [self.title, *(f"    {printable(line)}" for line in remedy)]


@dataclass(frozen=True)
class WatchState:
    """What is kept in the file for the next call."""

    findings: tuple[Diagnostic, ...] = ()  # Without remedies
    arrays: tuple[SeenArray, ...] = ()


def watch(state: Path, senders: Sequence[Send], clock: Callable[[], float] = time.time) -> list[Alert]:
    """Audits the arrays, sends one message about all changes, and keeps the facts in a file for the next call.

    Raises EnvironmentLacks if it may not read disks, and BlklabError if a message was not sent: then the findings in
    the file are not changed, and the next call sends it again.
    """
    if os.geteuid() != 0:
        raise EnvironmentLacks("permission denied", "run it as root")
    inventory = add_unfinished_repairs(read_inventory(Roots()), Roots())
    watch_state = read_state(state)
    problems = add_vanished(find_problems(inventory), watch_state.arrays, inventory)
    findings = [finding for finding in problems if finding.severity != "note"]
    unseen = (*inventory.unseen, *inventory.unread)
    findings += [Diagnostic("unseen", "warning", "", line, member=line.partition(":")[0]) for line in unseen]
    findings += _find_undecided(watch_state, findings, inventory)
    alerts = changes(watch_state.findings, findings)
    arrays = update_seen(watch_state.arrays, inventory, int(clock()))
    try:
        for send in senders if alerts else ():
            send(alerts)
    except BlklabError:
        if arrays:
            _write_state(state, WatchState(watch_state.findings, arrays))
        raise
    if alerts or watch_state.findings or arrays:  # Also what is less bad: it may become worse again
        _write_state(state, WatchState(tuple(findings), arrays))
    return alerts


def _find_undecided(watch_state: WatchState, findings: Sequence[Diagnostic], inventory: Inventory) -> list[Diagnostic]:
    """Returns findings of the last call that are not found now, and about which this call can say nothing.

    A finding is gone only if its array is assembled and could be read.
    """
    keys = {_key(finding) for finding in findings}
    missing = [finding for finding in watch_state.findings if _key(finding) not in keys]
    if inventory.unseen:  # What cannot be read is not gone
        return missing
    readable: set[str] = set()
    for array in inventory.arrays:
        if not array.unseen:
            readable.update(names_of_array(array, watch_state.arrays, inventory))
    return [finding for finding in missing if finding.subject and finding.subject not in readable]


def forget(state: Path, name_or_uuid: str) -> str:
    """Removes an array, which the administrator has retired, from the file, by its UUID or name; returns its name.

    Raises UsageError if it is not there.
    """
    watch_state = read_state(state)
    uuid = parse_uuid(name_or_uuid)
    matches = [array for array in watch_state.arrays if array.uuid == uuid or array.name == name_or_uuid]
    names = {name_or_uuid, *(array.name for array in matches)}
    findings = tuple(finding for finding in watch_state.findings if finding.subject not in names)
    if not matches and len(findings) == len(watch_state.findings):
        arrays = ", ".join(f"{array.uuid} ({printable(array.name)})" for array in watch_state.arrays)
        choices = f"expected {arrays}" if arrays else "no array was seen yet"
        raise UsageError(f"--forget {printable(name_or_uuid)}: not a known array: {choices}")
    _write_state(state, WatchState(findings, tuple(array for array in watch_state.arrays if array not in matches)))
    return matches[0].name if matches else name_or_uuid


def changes(before: Sequence[Diagnostic], now: Sequence[Diagnostic]) -> list[Alert]:
    """Returns what is new, worse (the severity, or more bad sectors) or gone, in this order."""
    old = {_key(finding): finding for finding in before}
    new = {_key(finding): finding for finding in now}
    new_alerts = [Alert("new", finding) for key, finding in new.items() if key not in old]
    worse_alerts = [
        Alert("worse", finding) for key, finding in new.items() if key in old and _is_worse(finding, old[key])
    ]
    return [*new_alerts, *worse_alerts, *(Alert("gone", finding) for key, finding in old.items() if key not in new)]


def _key(finding: Diagnostic) -> tuple[str, str, str]:
    return finding.code, finding.subject, finding.member


def _is_worse(finding: Diagnostic, before: Diagnostic) -> bool:
    return finding.rank < before.rank or _bad_sectors(finding) > _bad_sectors(before)


def _bad_sectors(finding: Diagnostic) -> int:
    return sum(bad_range["sectors"] for bad_range in finding.ranges)


def read_state(path: Path) -> WatchState:
    """Returns what the last call kept; nothing if the file is absent or damaged, so that all is sent again.

    Files of blklab 0.2 are a list of findings, with remedies.
    """
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        document = json.loads(path.read_bytes())
        is_old = isinstance(document, list)
        findings = document if is_old else document["findings"]
        arrays = [] if is_old else document["arrays"]
        return WatchState(
            tuple(Diagnostic(**{**finding, "remedy": ()}) for finding in findings),
            tuple(SeenArray(**array) for array in arrays),
        )
    return WatchState()


def _write_state(path: Path, state: WatchState) -> None:
    document = {
        "version": 2,
        "findings": [_as_facts(finding) for finding in state.findings],
        "arrays": [asdict(array) for array in state.arrays],
    }
    output.make_directory(path.parent)
    output.replace(path, json.dumps(document).encode(), mode=0o600)


def _as_facts(finding: Diagnostic) -> dict[str, Any]:
    """Returns a finding without its remedy: commands of today may be wrong tomorrow."""
    return {key: value for key, value in asdict(finding).items() if key != "remedy"}


def mail(address: str) -> Send:
    """Returns how to send a mail with the mail server of this host, as mdadm's monitor does."""

    def send(alerts: Sequence[Alert]) -> None:
        message = EmailMessage()
        suffix = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
        message["Subject"] = f"{printable(platform.node())}: {alerts[0].title[:100]}{suffix}"
        message["To"] = printable(address)
        message.set_content("\n".join(_text(alerts)))
        _run([find("sendmail", "msmtp-mta"), "-oi", "-t"], message.as_bytes())

    return send


def journal(alerts: Sequence[Alert]) -> None:
    """Sends each line to syslog, which is the journal with systemd."""
    syslog.openlog("blklab")
    for alert in alerts:
        priority = syslog.LOG_NOTICE if alert.change == "gone" else PRIORITIES[alert.finding.severity]
        for line in alert.lines:
            syslog.syslog(priority, line)


def program(arguments: Sequence[str]) -> Send:
    """Returns how to start a program, without a shell, which gets the message on its standard input."""
    return lambda alerts: _run(arguments, "\n".join([*_text(alerts), ""]).encode())


def _text(alerts: Sequence[Alert]) -> list[str]:
    lines: list[str] = []
    for alert in alerts:
        lines += [*alert.lines, ""]
    return [*lines, f"From blklab md watch on {printable(platform.node())}. All findings: blklab md audit"]


def _run(arguments: Sequence[str], message: bytes) -> None:
    try:
        process = subprocess.run(arguments, input=message, capture_output=True, timeout=PATIENCE_S, check=False)
        stderr = printable(process.stderr.decode(errors="replace").strip()[:200])
        reason = f"exit status {process.returncode}: {stderr}" if process.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error.strerror) if isinstance(error, OSError) else f"no end after {PATIENCE_S} s"
    if reason:
        raise BlklabError(
            f"{printable(arguments[0])}: {reason}: no message was sent; blklab tries again at the next call"
        )
