"""`blklab import`: import results of other tools as runs."""

from typing import TYPE_CHECKING

import click

from blklab.cli.common import DEFAULT_METRICS, DURATION, emit, json_option, note, results, store_option, warn
from blklab.errors import BlklabError, UsageError
from blklab.render.console import Console

if TYPE_CHECKING:
    from blklab.importers.collect import Batch
    from blklab.store.campaigns import Store
    from blklab.store.query import Selection

FORMATS = (
    *("fio", "fio-log", "fio-text", "iostat", "randomio", "iozone", "bonnie", "bonnie-csv", "sysbench", "blkparse"),
    *("dd", "sdd", "table"),
)
"""The formats of blklab.importers.collect, which is too slow to import for `--help`."""

MOST_SHOWN = 2000  # Runs that are printed after an import

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}


def _labels(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `KEY=VALUE`."""
    labels = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value or set(key) & set(",:@~"):
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE, such as stack=raid1")
        labels[key] = value
    return labels


def _parse_renames(
    _ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[tuple[str, str], str]:
    """Parse `LABEL:OLD=NEW`."""
    renames = {}
    for text in texts:
        label, colon, change = (part.strip() for part in text.partition(":"))
        old, equals, new = (part.strip() for part in change.partition("="))
        if not (colon and equals and label and old and new):
            raise click.BadParameter(f"{text!r}: expected LABEL:OLD=NEW, such as stack:md4=raid1")
        renames[label, old] = new
    return renames


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--name", metavar="NAME", help="Name of the campaign; default: the name of the first file.")
@click.option("--title", metavar="TEXT", help="Title of the campaign.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_labels,
    help="Add a label to all runs: stack=raid1.",
)
@click.option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="LABEL:OLD=NEW",
    callback=_parse_renames,
    help="Change the value of a label to that of your experiment: stack:md4=raid1, device:sdc=ssd.",
)
@click.option(
    "--pattern",
    metavar="PATTERN",
    help="Split names of files or jobs into labels: '{stack}_{workload}', 'nightly-{repeat}'.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help=f"Format of the files; default: recognised from the content. {', '.join(FORMATS)}.",
)
@click.option(
    "--columns",
    metavar="ROLE=COLUMN,...",
    help="Read a text table, a run in each row: iops=2,read.mean=lat_us,read.p99=5:ms,label.threads=1 ...",
)
@click.option(
    "--separator",
    type=click.Choice([*SEPARATORS]),
    help="For --columns: what separates the columns; default: detected.",
)
@click.option("--device", metavar="NAME", help="For iostat: the device to import.")
@click.option(
    "--interval", type=DURATION, metavar="DURATION", help="For iostat without -t: its interval, such as 1s or 500ms."
)
@click.option("--keep-first", is_flag=True, help="For iostat -y: also import the first report.")
@click.option("--dry-run", is_flag=True, help="Show the runs; store nothing.")
@store_option
@json_option
def import_(
    *,
    files: tuple[str, ...],
    name: str | None,
    title: str | None,
    labels: dict[str, str],
    renamed: dict[tuple[str, str], str],
    pattern: str | None,
    form: str | None,
    columns: str | None,
    separator: str | None,
    device: str | None,
    interval: int | None,
    keep_first: bool,
    dry_run: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Import results of other tools into the store, for `runs`, `compare` and `report`.

    FILE is the output of fio (JSON, text, interval logs), `iostat -x`, randomio, IOzone, bonnie++, sysbench, blkparse,
    dd or sdd, a directory of such files, or - for standard input. blklab recognises the format from the content. Any
    other table can be read with --columns. The runs of each tool become a campaign: NAME@fio, NAME@iostat ...

    fio's job name becomes the workload of a run. Runs with the same labels are repeats if they measured the same device
    or file; otherwise a label keeps them apart: device, file, host, or source, which is the part of the file name that
    differs. A file that cannot be imported is named, and the others are imported; the exit status is then 1.

    \b
    Examples:
      blklab import results.txt --label stack=raid1
      blklab import *.json --pattern '{stack}_{workload}'
      blklab import randread.json randread_iops.*.log
      ssh server iostat -xt 1 60 | blklab import - --name server --device md0
      blklab import sweep.csv --columns label.threads=threads,read.iops=3,read.mean=5:ms
      blklab compare unbalanced@sim:kernel=4.19 results@fio
    """
    from blklab.fio.output import refuse_job_files
    from blklab.importers.base import ImportSource, TableColumns
    from blklab.importers.collect import batches
    from blklab.importers.columns import parse_columns
    from blklab.importers.run_labels import RunNaming, name_pattern
    from blklab.store.campaigns import Store

    if name is not None and (not name.strip() or set(name) & set("@:~/")):
        raise click.BadParameter(f"{name!r}: expected a name without @ : ~ /", param_hint="--name")
    if interval == 0:
        raise click.BadParameter("expected more than 0", param_hint="--interval")
    if pattern is not None:
        name_pattern(pattern)
    if columns and form not in {None, "table"}:
        raise UsageError("--format and --columns exclude each other")
    if separator and not columns:
        raise UsageError("--separator needs --columns")
    refuse_job_files(files)
    table = None
    if columns:
        table = TableColumns(parse_columns(columns), SEPARATORS.get(separator or ""))
    collection = batches(
        files,
        ImportSource((), device, interval, keep_first, table=table, options=labels),
        RunNaming(name, title or "", labels, renamed, pattern),
        "table" if columns else form,
    )
    for line in [*collection.notes, *(f"{problem}: not imported" for problem in collection.errors)]:
        warn(line)
    if dry_run:
        documents = [_document(batch) for batch in collection.batches]
        emit(documents, as_json, lambda console: _draw(console, collection.batches))
    elif collection.batches:
        _store(collection.batches, Store(store), as_json)
    if collection.errors:
        runs = sum(len(batch.plan.cells) for batch in collection.batches)
        message = f"{len(collection.errors)} of the inputs could not be imported (see above); {runs} runs were imported"
        raise BlklabError(message)


def _store(batches: "list[Batch]", store: "Store", as_json: bool) -> None:
    """Store the campaigns, and print their runs."""
    numbers = [store.add(batch.plan, batch.finished_runs, batch.environment) for batch in batches]
    for number in numbers:
        note(f"stored as campaign {number}: blklab report {number}")
    count = sum(len(batch.plan.cells) for batch in batches)
    if count > MOST_SHOWN and not as_json:
        results().print(f"{count:,} runs are stored; `blklab runs show {numbers[0]}` prints them")
    else:
        _show(store, numbers, as_json)


def _show(store: "Store", numbers: list[int], as_json: bool) -> None:
    """Print the runs, and the verdict if a label makes sides of them, such as two kernels in two directories."""
    from blklab.campaigns import runs
    from blklab.store import query

    selections = [query.select_runs(store, str(number)) for number in numbers]

    def draw(console: Console) -> None:
        for selection in selections:
            runs.print_runs(console, selection.campaign, selection.runs)
            _print_verdict(console, store, selection)

    emit([run.as_dict() for selection in selections for run in selection.runs], as_json, draw)


def _print_verdict(console: Console, store: "Store", selection: "Selection") -> None:
    from blklab.compare import comparison
    from blklab.compare.report import verdict_sentences
    from blklab.store import query

    if comparison.find_side_label(selection.runs) is None:
        return
    sides = comparison.comparison_sides([(selection.campaign.name, selection.runs)])
    try:
        result = comparison.compare(
            sides, DEFAULT_METRICS.split(","), query.points_reader(store, [selection.campaign.number])
        )
    except UsageError:  # The results have other figures only, such as a 95th percentile
        return
    console.print()
    for sentence in verdict_sentences(result):
        console.print(sentence)
    console.print(f"Next: blklab compare {selection.campaign.number}")


def _document(batch: "Batch") -> dict[str, object]:
    return {
        "experiment": batch.plan.name,
        "runner": batch.plan.runner,
        "runs": [
            {"labels": dict(cell.labels), **batch.finished_runs[cell.key].outcome.as_document()}
            for cell in batch.plan.cells
        ],
    }


def _draw(console: Console, batches: "list[Batch]") -> None:
    from blklab.campaigns import runs

    for batch in batches:
        outcomes = [(cell.labels, batch.finished_runs[cell.key].outcome) for cell in batch.plan.cells]
        runs.print_measured(console, batch.plan, outcomes)
