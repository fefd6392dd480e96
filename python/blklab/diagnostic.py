"""What a check reports: one type, whether it looked at runs, arrays, machines or traces."""

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
    timeline: tuple[str, ...] = ()  # What happened, one line each, the oldest first
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
