"""Comparisons of campaigns in the store."""

from collections.abc import Callable, Sequence

from blklab.compare import comparison as analysis
from blklab.compare.comparison import Comparison
from blklab.compare.decision import look_share
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import Selection, StoredRun


def compare_selections(
    store: Store,
    names: Sequence[str],
    selections: Sequence[Selection],
    metrics: Sequence[str],
    earlier: Callable[[], Sequence[Sequence[StoredRun]]] | None = None,
) -> Comparison:
    """Returns the comparison of selections under these names; without a query for runs that have no series."""
    points = query.points_reader(store, [selection.campaign.number for selection in selections])
    return analysis.compare(
        analysis.comparison_sides(list(zip(names, [selection.runs for selection in selections], strict=True))),
        metrics,
        points,
        look=look_share(query.earlier_looks(store, selections)),
        earlier=earlier or (lambda: query.earlier_campaigns(store, selections)),
    )
