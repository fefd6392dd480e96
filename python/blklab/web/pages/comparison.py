"""The comparison of campaigns."""

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from blklab.campaigns.runs import when
from blklab.compare import comparison as analysis
from blklab.compare import report
from blklab.compare.comparison import Comparison, distinguish
from blklab.compare.decision import look_share
from blklab.compare.metrics import COMPARED_METRICS
from blklab.errors import UsageError
from blklab.render import diagnostics
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import LinkedCell
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection, StoredRun
from blklab.text.printing import printable
from blklab.web.frame import SitePage

METRICS_SHOWN = ",".join(COMPARED_METRICS)
MAX_SIDES = 12  # A page compares each with the baseline


def compare_campaigns(store: Store, selectors: Sequence[str], metrics: str, baseline: str | None = None) -> SitePage:
    """Returns what `blklab compare` prints about campaigns. Raises UsageError.

    The oldest campaign is the baseline, in whichever order they were chosen, unless `baseline` names another one.
    """
    distinct = list(dict.fromkeys(selectors))
    if len(distinct) == 1:
        return _compare_sides_of_one(store, distinct[0], metrics)
    if not distinct:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    if len(distinct) > MAX_SIDES:
        raise UsageError(f"found {len(distinct):,} campaigns, expected at most {MAX_SIDES}: choose fewer")
    if baseline is not None and baseline not in distinct:
        raise UsageError(f"the baseline {baseline!r} is none of the chosen campaigns")
    selections_by_selector = {selector: query.select_runs(store, selector) for selector in distinct}
    in_time = sorted(distinct, key=lambda selector: _age_key(selections_by_selector[selector]))
    first = baseline or in_time[0]
    ordered = [first, *(selector for selector in in_time if selector != first)]
    selections = [selections_by_selector[selector] for selector in ordered]
    difference = distinguish(selections)
    names = difference[1] if difference else [f"campaign {selector}" for selector in ordered]
    result = compare_selections(store, names, selections, [name.strip() for name in metrics.split(",")])
    campaigns = [selection.campaign for selection in selections]
    baseline_text = _describe_baseline(names, campaigns)
    return _draw_page(result, campaigns, baseline_text, _swap_links(ordered, names, metrics))


def _draw_page(
    result: Comparison, campaigns: Sequence[CampaignRow], baseline: str, swap_links: Sequence[LinkedCell]
) -> SitePage:
    """Returns the page of a comparison: the verdict, the `baseline` in words, and a table for each metric."""
    shown = list(dict.fromkeys(row.metric for row in result.rows))
    tables = zip(shown, report.tables(result), strict=True)
    return SitePage(
        "Comparison",
        [PageSection(name.replace(".", "-"), name, name, [table]) for name, table in tables],
        here="/",
        facts=[f"campaign {row.number}: {printable(row.name)} on {printable(row.place)}" for row in campaigns],
        sentences=[
            Sentence("Verdict", " ".join(report.verdict_sentences(result))),
            Sentence("Baseline", baseline),
            *(Sentence(name, report.summary(result, name)) for name in shown),
        ],
        doubts=diagnostics.sentences(result.notes),
        links=[*swap_links, *(LinkedCell(f"Campaign {row.number}", f"/campaigns/{row.number}") for row in campaigns)],
    )


def _compare_sides_of_one(store: Store, selector: str, metrics: str) -> SitePage:
    """Returns the comparison of the sides of one campaign, such as two kernels. Raises UsageError without sides."""
    selection = query.select_runs(store, selector)
    if analysis.find_side_label(selection.runs) is None:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    campaign = selection.campaign
    result = compare_selections(store, [campaign.name], [selection], [name.strip() for name in metrics.split(",")])
    baseline_text = f"{printable(result.sides[0])}: changes are those of the others to it."
    return _draw_page(result, [campaign], baseline_text, [])


def _age_key(selection: Selection) -> tuple[str, int]:
    """Sorts campaigns by the time when they were measured."""
    return selection.campaign.begun, selection.campaign.number


def _describe_baseline(names: Sequence[str], campaigns: Sequence[CampaignRow]) -> str:
    """Says which side the others are compared with, and which of them are older."""
    first = campaigns[0]
    line = (
        f"{printable(names[0])} (campaign {first.number}, {when(first.begun)}); changes are those of the others to it."
    )
    if any(row.begun < first.begun for row in campaigns[1:]):
        line += " It is newer than another one: an improvement since then is shown as worse."
    return line


def _swap_links(selectors: Sequence[str], names: Sequence[str], metrics: str) -> list[LinkedCell]:
    """Returns links to the same comparison with another baseline."""
    links = []
    for selector, name in list(zip(selectors, names, strict=True))[1:]:
        sides = [("side", side) for side in selectors]
        address = urlencode([*sides, ("metric", metrics), ("baseline", selector)])
        links.append(LinkedCell(f"Use {printable(name)} as the baseline", f"/compare?{address}"))
    return links


def compare_selections(
    store: Store,
    names: Sequence[str],
    selections: Sequence[Selection],
    metrics: Sequence[str],
    earlier: Callable[[], Sequence[Sequence[StoredRun]]] | None = None,
) -> Comparison:
    """Returns the comparison of selections under these names; without a query for runs that have no series."""
    runs_with_points = query.runs_with_points(store, [selection.campaign.number for selection in selections])
    return analysis.compare(
        analysis.comparison_sides(list(zip(names, [selection.runs for selection in selections], strict=True))),
        metrics,
        lambda run: query.points(store, run) if run in runs_with_points else [],
        look=look_share(query.earlier_looks(store, selections)),
        earlier=earlier or (lambda: query.earlier_campaigns(store, selections)),
    )
