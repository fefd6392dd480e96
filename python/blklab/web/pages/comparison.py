"""The comparison of campaigns."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from blklab.campaigns.runs import when
from blklab.campaigns.stored_comparison import compare_selections
from blklab.compare import comparison as analysis
from blklab.compare import report
from blklab.compare.comparison import Comparison, distinguish
from blklab.compare.metrics import COMPARED_METRICS, metric_name
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.render import diagnostics
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import LinkedCell
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import CampaignRow, Selection
from blklab.text.printing import printable
from blklab.web.frame import ROWS, SitePage, list_parts

METRICS_SHOWN = ",".join(COMPARED_METRICS)
MAX_RUNS = 20_000  # Runs of all sides: each takes 15 KiB of memory
MAX_SIDES = 12  # A page compares each with the baseline


@dataclass(frozen=True)
class ComparedCampaigns:
    """A comparison, and what its page says about the campaigns."""

    result: Comparison
    campaigns: Sequence[CampaignRow]
    baseline: str  # In words
    swap_links: Sequence[LinkedCell]


def compare_campaigns(
    store: Store, selectors: Sequence[str], metrics: str, baseline: str | None = None
) -> ComparedCampaigns:
    """Returns what `blklab compare` prints about campaigns. Raises UsageError.

    The oldest campaign is the baseline, in whichever order they were chosen, unless `baseline` names another one.
    """
    distinct = distinct_sides(selectors)
    if len(distinct) == 1:
        return _compare_sides_of_one(store, distinct[0], metrics)
    if baseline is not None and baseline not in distinct:
        raise UsageError(f"the baseline {baseline!r} is none of the chosen campaigns")
    check_size(store, distinct)
    selections_by_selector = {selector: query.select_runs(store, selector) for selector in distinct}
    in_time = sorted(distinct, key=lambda selector: _age_key(selections_by_selector[selector]))
    first = baseline or in_time[0]
    ordered = [first, *(selector for selector in in_time if selector != first)]
    selections = [selections_by_selector[selector] for selector in ordered]
    difference = distinguish(selections)
    names = difference[1] if difference else [f"campaign {selector}" for selector in ordered]
    result = compare_selections(store, names, selections, _metric_names(metrics))
    campaigns = [selection.campaign for selection in selections]
    baseline_text = _describe_baseline(names, campaigns)
    return ComparedCampaigns(result, campaigns, baseline_text, _swap_links(ordered, names, metrics))


def distinct_sides(selectors: Sequence[str]) -> list[str]:
    """Returns the chosen campaigns, each once. Raises UsageError for none, and for too many."""
    distinct = list(dict.fromkeys(selectors))
    if not distinct:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    if len(distinct) > MAX_SIDES:
        raise UsageError(f"found {len(distinct):,} campaigns, expected at most {MAX_SIDES}: choose fewer")
    return distinct


def check_size(store: Store, selectors: Sequence[str]) -> None:
    """Raises UsageError for campaigns with too many runs: a page must not take gigabytes."""
    count = sum(sum(query.select_campaign(store, selector).states.values()) for selector in selectors)
    if count > MAX_RUNS:
        raise UsageError(
            f"the chosen campaigns have {count:,} runs, expected at most {MAX_RUNS:,}: "
            f"use `blklab compare {' '.join(map(shlex.quote, selectors))}`"
        )


def _metric_names(metrics: str) -> list[str]:
    """Returns the names, each once. Raises UsageError for unknown ones."""
    return list(dict.fromkeys(metric_name(name) for name in metrics.split(",")))


def show_comparison(compared: ComparedCampaigns, address: str, part: int) -> SitePage:
    """Returns the page of a comparison: the verdict, the baseline, and a table for each metric.

    Of many cells, the tables have those of one part; `address` is that of the page.
    """
    result = compared.result
    campaigns = compared.campaigns
    shown = list(dict.fromkeys(row.metric for row in result.rows))
    rows_by_metric = by_key((row.metric, row) for row in result.rows)
    part_rows = []
    for rows in rows_by_metric.values():
        part_rows += rows[(part - 1) * ROWS : part * ROWS]
    most_rows = max(map(len, rows_by_metric.values()))
    tables = dict(zip(shown, report.tables(replace(result, rows=part_rows)), strict=False))
    return SitePage(
        "Comparison",
        [PageSection(name.replace(".", "-"), name, name, [table]) for name, table in tables.items()],
        here="/",
        facts=[f"campaign {row.number}: {printable(row.name)} on {printable(row.place)}" for row in campaigns],
        sentences=[
            Sentence("Verdict", " ".join(report.verdict_sentences(result))),
            Sentence("Baseline", compared.baseline),
            *(Sentence(name, report.summary(result, name)) for name in shown),
        ],
        doubts=diagnostics.sentences(result.notes),
        pages=list_parts(address, part, most_rows, ROWS),
        links=[
            *compared.swap_links,
            *(LinkedCell(f"Campaign {row.number}", f"/campaigns/{row.number}") for row in campaigns),
        ],
    )


def _compare_sides_of_one(store: Store, selector: str, metrics: str) -> ComparedCampaigns:
    """Returns the comparison of the sides of one campaign, such as two kernels. Raises UsageError without sides."""
    check_size(store, [selector])
    selection = query.select_runs(store, selector)
    if analysis.find_side_label(selection.runs) is None:
        raise UsageError("choose at least two campaigns in the list, then compare them")
    campaign = selection.campaign
    result = compare_selections(store, [campaign.name], [selection], _metric_names(metrics))
    baseline_text = f"{printable(result.sides[0])}: changes are those of the others to it."
    return ComparedCampaigns(result, [campaign], baseline_text, [])


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
