"""`blklab runs list`: list the campaigns in the store."""

from dataclasses import asdict

import click

from blklab.cli.common import emit, json_option, store_option


@click.command("list")
@store_option
@json_option
def list_(*, store: str | None, as_json: bool) -> None:
    """List the campaigns, oldest first: experiment, runner and progress."""
    from blklab.report import runs
    from blklab.store import annotations, query
    from blklab.store.campaigns import Store

    kept = Store(store, reading=True)
    rows = query.all_campaigns(kept)
    tags = annotations.tags(kept)
    documents = [
        {**asdict(row), "begun": row.begun, "states": dict(row.states), "tags": tags.get(row.number, [])}
        for row in rows
    ]
    emit(documents, as_json, lambda console: runs.print_campaigns(console, rows, kept.database.name, tags))
