"""`blklab import`: results that others measured, kept as runs."""

from typing import TYPE_CHECKING

import click

from blklab.cli.common import DURATION, emit, json_option, note, store_option, warn

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.imports.collect import Batch
    from blklab.store.campaigns import Store

FORMATS = ("fio", "fio-log", "fio-text", "iostat", "randomio", "blkparse")
"""As in blklab.imports.registry, which is too heavy to be imported for `--help`."""


def _labels(
    _ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Reads `KEY=VALUE`."""
    labels = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value or set(key) & set(",:@~"):
            raise click.BadParameter(f"{text!r}: KEY=VALUE is wanted, such as stack=raid1")
        labels[key] = value
    return labels


def _renamed(
    _ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[tuple[str, str], str]:
    """Reads `LABEL:OLD=NEW`."""
    renamed = {}
    for text in texts:
        label, colon, rest = (part.strip() for part in text.partition(":"))
        old, equals, new = (part.strip() for part in rest.partition("="))
        if not (colon and equals and label and old and new):
            raise click.BadParameter(f"{text!r}: LABEL:OLD=NEW is wanted, such as stack:md4=raid1")
        renamed[label, old] = new
    return renamed


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--name", metavar="NAME", help="What to call the campaign; the first file's name.")
@click.option("--title", default="", metavar="TEXT", help="What it is about.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_labels,
    help="A label of all runs: stack=raid1.",
)
@click.option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="LABEL:OLD=NEW",
    callback=_renamed,
    help="Another value of a label, as your experiment calls it: stack:md4=raid1, device:sdc=ssd.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Instead of what the content looks like."
)
@click.option("--device", metavar="NAME", help="Of iostat and blkparse: the device that is meant.")
@click.option(
    "--interval", type=DURATION, metavar="DURATION", help="Of iostat without -t: 1s, 500ms."
)
@click.option(
    "--keep-first", is_flag=True, help="Of iostat -y: the first report is not since boot."
)
@click.option("--dry-run", is_flag=True, help="Show the runs; keep nothing.")
@store_option
@json_option
def import_(
    *,
    files: tuple[str, ...],
    name: str | None,
    title: str,
    labels: dict[str, str],
    renamed: dict[tuple[str, str], str],
    form: str | None,
    device: str | None,
    interval: int | None,
    keep_first: bool,
    dry_run: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Keep what others measured beside your own results: for `runs`, `compare` and `report`.

    FILE is the output of fio (JSON, text, interval logs), `iostat -x`, randomio or blkparse, a
    directory of such files, a directory of published figures such as reference/, or - for
    standard input. blklab recognises the format from the content. The runs of each tool become
    a campaign: NAME@fio, NAME@iostat ...

    The workload of a run is fio's job; runs that have all labels in common are repeats.

    \b
    Examples:
      blklab import results.txt --label stack=raid1
      blklab import randread.json randread_iops.*.log
      ssh server iostat -xt 1 60 | blklab import - --name server --device md0
      blklab import reference --rename stack:fast-raid1=raid1
      blklab compare unbalanced@sim:kernel=4.19 published@fio
    """
    from blklab.imports.base import ImportSource
    from blklab.imports.collect import RunNaming, batches
    from blklab.store.campaigns import Store

    if name is not None and (not name.strip() or set(name) & set("@:~/")):
        raise click.BadParameter(f"{name!r}: a name without @ : ~ / is wanted", param_hint="--name")
    if interval == 0:
        raise click.BadParameter("an interval is longer than 0", param_hint="--interval")
    batches_read, notes = batches(
        files,
        ImportSource((), device, interval, keep_first),
        RunNaming(name, title, labels, renamed),
        form,
    )
    for line in notes:
        warn(line)
    if dry_run:
        documents = [_document(batch) for batch in batches_read]
        emit(documents, as_json, lambda console: _draw(console, batches_read))
        return
    kept = Store(store)
    numbers = [kept.add(batch.plan, batch.finished, batch.environment) for batch in batches_read]
    for number in numbers:
        note(f"kept as campaign {number}: blklab report {number}")
    _show(kept, numbers, as_json)


def _show(kept: "Store", numbers: list[int], as_json: bool) -> None:
    from blklab.report import runs
    from blklab.store import query

    chosen = [query.selected(kept, str(number)) for number in numbers]

    def draw(console: "Console") -> None:
        for batch in chosen:
            runs.show_runs(console, batch.campaign, batch.runs)

    emit([run.as_dict() for item in chosen for run in item.runs], as_json, draw)


def _document(batch: "Batch") -> dict[str, object]:
    """Returns what would be kept, as `--json` has it."""
    return {
        "experiment": batch.plan.name,
        "runner": batch.plan.runner,
        "runs": [
            {"labels": dict(cell.labels), **batch.finished[cell.key].outcome}
            for cell in batch.plan.cells
        ],
    }


def _draw(console: "Console", batches: "list[Batch]") -> None:
    from blklab.report import runs

    for batch in batches:
        measured = [(cell.labels, batch.finished[cell.key].outcome) for cell in batch.plan.cells]
        runs.show_measured(console, batch.plan, measured)
