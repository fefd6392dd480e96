"""What a bisection finds, for reports and JSON."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from blklab.bisect.git import Commit
from blklab.store import documents
from blklab.store.campaigns import Store


@dataclass(frozen=True)
class CommitFigure:
    """A metric of a commit in one cell."""

    cell: str  # The labels of the cell
    metric: str
    value: float  # The mean of the runs
    of_baseline: float | None  # As a multiple of the good end's mean
    runs: int


@dataclass(frozen=True)
class CommitVerdict:
    commit: Commit
    verdict: str  # `good`, `bad`, `skipped` or, in the check, `unclear`
    figures: Sequence[CommitFigure] = ()
    reason: str = ""  # Why it was skipped


@dataclass(frozen=True)
class Bisection:
    condition: str
    kind: str  # What was bisected: `commit` or `kernel`
    fixes: bool  # Whether the commit was looked for that made the condition false
    campaign: int | None  # The campaign with all runs
    verdicts: Sequence[CommitVerdict]  # In the order of the history
    culprit: Commit | None  # None if only skipped commits are left
    candidates: Sequence[Commit]  # The commits of which one is the culprit, if only skipped ones are left
    check: Sequence[CommitVerdict]  # The commit before the culprit, and the culprit, from new runs
    notes: Sequence[str]

    @property
    def confirmed(self) -> bool:
        """Whether the new runs of both sides say the same."""
        return [verdict.verdict for verdict in self.check] == (["bad", "good"] if self.fixes else ["good", "bad"])

    @property
    def summary(self) -> str:
        """The result in a line."""
        state = "fixed" if self.fixes else "bad"
        first = f"the first {state} {self.kind}"
        if self.culprit is None:
            return f"{first} is one of {len(self.candidates)}, which cannot be measured"
        doubt = "" if self.confirmed else ", but the new runs of both sides do not confirm it"
        return f"{self.culprit.short} is {first}{doubt}: {self.culprit.subject}"

    def as_dict(self) -> Mapping[str, object]:
        """Returns the result for `--json`."""
        return {**asdict(self), "confirmed": self.confirmed}


def keep(store: Store, bisection: Bisection) -> None:
    """Keeps the result of a bisection next to its runs."""
    documents.keep(store, "bisection", str(bisection.campaign), bisection.as_dict())


def read_bisections(store: Store, campaigns: Collection[int]) -> list[Bisection]:
    """Returns the results of the bisections among campaigns."""
    from pydantic import TypeAdapter

    names = {str(number) for number in campaigns}
    bisections = [entry.document for entry in documents.latest(store, "bisection") if entry.name in names]
    return [TypeAdapter(Bisection).validate_python(document) for document in bisections]
