"""What a check reports: one type, whether it looked at runs, arrays, machines or traces."""

import pkgutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["critical", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")  # The worst first


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong or risky, or worth knowing."""

    code: str  # A name that stays the same: `bbl-entries`, `device-busy`
    severity: Severity  # `critical` forbids to go on, or risks data; `warning` is a doubt; `note` helps to judge
    subject: str  # What it is about: an array, a device, a target; empty if that is the whole machine
    message: str  # One line: what, and why it matters. Names in it are as hostile as they were found.
    remedy: tuple[str, ...] = ()  # How to fix it: commands for the user, in order (blklab never runs them), or advice
    member: str = ""  # The member of the array, or the disk
    ranges: tuple[dict[str, Any], ...] = ()  # Of bad blocks: `member_sector`, `sectors`, `array_ranges`
    runs: tuple[int, ...] = ()  # The runs that it is about, by their numbers
    weight: float = 0.0  # Of the same about several runs, the heaviest is told first

    @property
    def rank(self) -> int:
        """Its place among severities: 0 is the worst."""
        return SEVERITIES.index(self.severity)

    @property
    def sentence(self) -> str:
        """The message with its remedy, in one line."""
        return "; ".join([self.message, *self.remedy])

    def __str__(self) -> str:
        """Returns the sentence behind its subject."""
        about = " ".join(filter(None, (self.subject, self.member)))
        return f"{about}: {self.sentence}" if about else self.sentence


def texts(package: str, file: str) -> Callable[..., Diagnostic]:
    """Returns what makes the diagnostics of a TOML file in a package: from their name, their subject and their words.

    A table has `severity`, `message`, perhaps a `remedy`, and a `code` if that is not its name.
    """
    tables = tomllib.loads((pkgutil.get_data(package, file) or b"").decode())

    def diagnostic(name: str, subject: str, /, **words: object) -> Diagnostic:
        table = tables[name]
        remedy = (table["remedy"].format(**words),) if "remedy" in table else ()
        return Diagnostic(table.get("code", name), table["severity"], subject, table["message"].format(**words), remedy)

    return diagnostic
