"""Messages about findings of the audit that are new, worse or gone: by mail, to the journal, to a program."""

import json
import os
import platform
import subprocess
import syslog
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

from blklab import output
from blklab.child_process import find
from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, EnvironmentLacks
from blklab.md.audit import find_problems
from blklab.md.inventory import read_inventory
from blklab.md.repair.unfinished import add_unfinished_repairs
from blklab.system.roots import Roots
from blklab.text import printable, wording

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


def watch(state: Path, senders: Sequence[Send]) -> list[Alert]:
    """Audits the arrays, sends one message about all changes, and keeps the findings in a file for the next call.

    Raises EnvironmentLacks if it may not read disks, and BlklabError if a message was not sent: then the file is not
    changed, and the next call sends it again.
    """
    if os.geteuid() != 0:
        raise EnvironmentLacks("permission denied", "run it as root")
    inventory = add_unfinished_repairs(read_inventory(Roots()), Roots())
    known = _known(state)
    findings = [finding for finding in find_problems(inventory) if finding.severity != "note"]
    findings += [Diagnostic("unseen", "warning", "", line, member=line.partition(":")[0]) for line in inventory.unseen]
    if inventory.unseen:  # What cannot be read is not gone
        found = {_key(finding) for finding in findings}
        findings += [finding for finding in known if _key(finding) not in found]
    alerts = changes(known, findings)
    for send in senders if alerts else ():
        send(alerts)
    if alerts or known:  # Also what is less bad: it may become worse again
        output.make_directory(state.parent)
        output.replace(state, json.dumps([asdict(finding) for finding in findings]).encode(), mode=0o600)
    return alerts


def changes(before: Sequence[Diagnostic], now: Sequence[Diagnostic]) -> list[Alert]:
    """Returns what is new, worse (the severity, or more bad sectors) or gone, in this order."""
    old, new = ({_key(finding): finding for finding in findings} for findings in (before, now))
    added = [Alert("new", finding) for key, finding in new.items() if key not in old]
    worse = [Alert("worse", finding) for key, finding in new.items() if key in old and _is_worse(finding, old[key])]
    return [*added, *worse, *(Alert("gone", finding) for key, finding in old.items() if key not in new)]


def _key(finding: Diagnostic) -> tuple[str, str, str]:
    return finding.code, finding.subject, finding.member


def _is_worse(finding: Diagnostic, before: Diagnostic) -> bool:
    sectors = [sum(bad["sectors"] for bad in of.ranges) for of in (finding, before)]
    return finding.rank < before.rank or sectors[0] > sectors[1]


def _known(state: Path) -> list[Diagnostic]:
    """Returns the findings of the last call; none if the file is absent or damaged, so that all are sent again."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [Diagnostic(**finding) for finding in json.loads(state.read_bytes())]
    return []


def mail(address: str) -> Send:
    """Returns how to send a mail with the mail server of this host, as mdadm's monitor does."""

    def send(alerts: Sequence[Alert]) -> None:
        message = EmailMessage()
        more = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
        message["Subject"] = f"{platform.node()}: {alerts[0].title[:100]}{more}"
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
    lines = [line for alert in alerts for line in (*alert.lines, "")]
    return [*lines, f"From blklab md watch on {platform.node()}. All findings: blklab md audit"]


def _run(arguments: Sequence[str], message: bytes) -> None:
    try:
        done = subprocess.run(arguments, input=message, capture_output=True, timeout=PATIENCE_S, check=False)
        said = printable(done.stderr.decode(errors="replace").strip()[:200])
        reason = f"exit status {done.returncode}: {said}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error.strerror) if isinstance(error, OSError) else f"no end after {PATIENCE_S} s"
    if reason:
        raise BlklabError(wording("not-sent", program=printable(arguments[0]), reason=reason))
