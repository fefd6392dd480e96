"""The comparison of campaigns."""

from collections.abc import Sequence

from blklab.compare import comparison as analysis
from blklab.compare import report
from blklab.compare.comparison import Comparison, distinguish
from blklab.compare.decision import look_share
from blklab.errors import UsageError
from blklab.render import diagnostics
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import LinkedCell
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import Selection
from blklab.text.printing import printable
from blklab.web.frame import SitePage

METRICS_SHOWN = "iops,mean,p99"


def compare_campaigns(store: Store, sides: Sequence[str], metrics: str) -> SitePage:
    """Returns what `blklab compare` prints about campaigns. Raises UsageError."""
    if len(sides) < 2:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    selections = [query.select_runs(store, selector) for selector in sides]
    difference = distinguish(selections)
    names = difference[1] if difference else [f"campaign {selector}" for selector in sides]
    result = compare_selections(store, names, selections, [name.strip() for name in metrics.split(",")])
    shown = list(dict.fromkeys(row.metric for row in result.rows))
    campaigns = [selection.campaign for selection in selections]
    tables = zip(shown, report.tables(result), strict=True)
    return SitePage(
        "Comparison",
        [PageSection(name.replace(".", "-"), name, name, [table]) for name, table in tables],
        here="/",
        facts=[f"campaign {row.number}: {printable(row.name)} on {printable(row.place)}" for row in campaigns],
        sentences=[Sentence(name, report.summary(result, name)) for name in shown],
        doubts=diagnostics.sentences(result.notes),
        links=[LinkedCell(f"Campaign {row.number}", f"/campaigns/{row.number}") for row in campaigns],
    )


def compare_selections(
    store: Store, names: Sequence[str], selections: Sequence[Selection], metrics: Sequence[str]
) -> Comparison:
    """Returns the comparison of selections under these names; without a query for runs that have no series."""
    runs_with_points = query.runs_with_points(store, [selection.campaign.number for selection in selections])
    return analysis.compare(
        analysis.comparison_sides(list(zip(names, [selection.runs for selection in selections], strict=True))),
        metrics,
        lambda run: query.points(store, run) if run in runs_with_points else [],
        look=look_share(query.earlier_looks(store, selections)),
        earlier=lambda: query.earlier_campaigns(store, selections),
    )
