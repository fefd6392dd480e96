"""What a campaign found, in one short phrase for a list: the range of its cells, and how many runs failed."""

from collections.abc import Sequence

from blklab.render import formatting
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRange, CampaignRow

MOST_CACHED = 10_000  # Phrases that are kept


class MainResults:
    """The phrases of campaigns, each made once for each state of its runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._phrases: dict[tuple[int, str], str] = {}

    def read(self, rows: Sequence[CampaignRow]) -> dict[int, str]:
        """Returns the phrase of each campaign, by its number."""
        if len(self._phrases) > MOST_CACHED:
            self._phrases = {}
        known_phrases = self._phrases  # Another thread may begin a new one
        phrases = {row.number: known_phrases[_key(row)] for row in rows if _key(row) in known_phrases}
        missing = [row for row in rows if row.number not in phrases]
        if missing:
            ranges = query.campaign_ranges(self._store, [row.number for row in missing])
            for row in missing:
                phrases[row.number] = describe_result(row, ranges.get(row.number, CampaignRange()))
                known_phrases[_key(row)] = phrases[row.number]
        return phrases


def _key(row: CampaignRow) -> tuple[int, str]:
    return row.number, repr(sorted(row.states.items()))


def describe_result(row: CampaignRow, figures: CampaignRange) -> str:
    """Returns `8 cells, 42,100 to 99,200 IOPS; 1 of 24 runs failed`."""
    parts = []
    unknown_count = figures.cells_with_ios - figures.known_cells
    if figures.known_cells:
        bounds = [formatting.number(bound) for bound in (figures.least_iops, figures.most_iops)]
        parts.append(_describe_range(figures.known_cells, bounds, " IOPS"))
    elif figures.commands:
        bounds = [formatting.duration(bound) for bound in (figures.least_ns, figures.most_ns)]
        parts.append(_describe_range(figures.commands, bounds, ""))
    elif not unknown_count:
        parts.append("no result yet" if row.states.get("running") or row.states.get("planned") else "no result")
    if unknown_count:
        parts.append(f"{formatting.plural(unknown_count, 'cell')} not known")
    idle_count = max(0, figures.cells - figures.cells_with_ios - figures.commands)
    if (figures.known_cells or figures.commands) and idle_count:
        parts.append(f"{formatting.plural(idle_count, 'cell')} without I/O")
    total = sum(row.states.values())
    for state in ("failed", "interrupted"):
        count = row.states.get(state, 0)
        if count:
            verb = "failed" if state == "failed" else "interrupted"
            parts.append(f"{count:,} of {formatting.plural(total, 'run')} {verb}")
    return "; ".join(parts)


def _describe_range(count: int, bounds: Sequence[str], unit: str) -> str:
    low, high = bounds
    figures = f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
    return figures if count == 1 else f"{formatting.plural(count, 'cell')}, {figures}"
