"""What a shell completes behind options and arguments: campaigns of the store, models, loads, metrics.

A completion never fails: without a store, or with a damaged one, there are no suggestions.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from blklab.errors import BlklabError

MOST = 200  # Suggestions of a list


def complete_campaigns(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the numbers of the store's campaigns, the newest first, with their names."""

    def campaigns() -> Iterable[tuple[str, str]]:
        from blklab.store import query
        from blklab.store.campaigns import Store

        store = Store(ctx.params.get("store"), reading=True)
        for row in reversed(query.all_campaigns(store)):
            yield str(row.number), f"{row.name}, {row.runner}"

    return _list_items(campaigns, incomplete)


def complete_models(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the models of the library behind what was typed before: `2x` and the list before a comma stay."""
    before = incomplete[: len(incomplete) - len(incomplete.rpartition(",")[2])]
    word = incomplete[len(before) :]
    count, times, _ = word.partition("x")
    if times and count.isdigit():
        before += f"{count}x"

    def models() -> Iterable[tuple[str, str]]:
        from blklab.devices.stock_models import library

        for model in library():
            yield f"{before}{model.name}", model.product

    return _list_items(models, incomplete)


def complete_loads(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the published mixes."""

    def loads() -> Iterable[tuple[str, str]]:
        from blklab.advise.question import mixes

        for name in mixes():
            yield name, ""

    return _list_items(loads, incomplete)


def complete_metrics(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the metrics that are compared."""

    def metrics() -> Iterable[tuple[str, str]]:
        from blklab.compare.metrics import METRICS

        for name, metric in METRICS.items():
            yield name, metric.description

    return _list_items(metrics, incomplete)


def _list_items(values: Callable[[], Iterable[tuple[str, str]]], incomplete: str) -> list[CompletionItem]:
    items: list[CompletionItem] = []
    with suppress(BlklabError, ImportError, OSError):
        for value, description in values():
            if value.startswith(incomplete) and len(items) < MOST:
                items.append(CompletionItem(value, help=description or None))
    return items
