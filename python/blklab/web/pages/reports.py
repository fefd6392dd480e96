"""The report of a campaign, as `blklab report` draws it."""

from blklab.bisect import findings
from blklab.campaigns.page import ExperimentReport
from blklab.campaigns.view import ExperimentView
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import Selection


def show_report(store: Store, number: int) -> str:
    """Returns the report of a campaign. Raises UsageError if it has no result."""
    selection = Selection(str(number), query.campaign(store, number), query.runs_of(store, number))
    drawn = ExperimentReport(
        ExperimentView([selection], query.points_reader(store, [number])),
        query.raw_reader(store),
        command=f"blklab report {number}",
        bisections=findings.read_bisections(store, [number]),
    )
    return drawn.html()
