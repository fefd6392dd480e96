"""`accuracy/run published`: compare predictions with published measurements."""

from pathlib import Path

import click

from accuracy import published as analysis
from accuracy import published_report
from accuracy.agreement_command import recorded_section
from accuracy.cache_tables import read_published
from accuracy.options import check_option, output_option, reference_option
from accuracy.published_caches import hold
from accuracy.reference import read_reference
from blklab.cli.common import cluster_option, computing, emit, json_option, tell
from blklab.output import write
from blklab.render import terminal
from blklab.render.console import Console


@click.command()
@reference_option
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Tables with the single-device rows, if they are not in the same directory.",
)
@output_option
@cluster_option
@check_option
@json_option
def published(
    *, directory: Path, calibration: Path | None, output: Path | None, cluster: str | None, check: bool, as_json: bool
) -> None:
    """Predict published arrays and print predictions next to measurements.

    The device models are calibrated on single devices. Nothing is fitted to arrays: their
    predictions follow from the rules of the kernel.

    \b
    Examples:
      accuracy/run published --reference reference/
      accuracy/run published --reference held-back/ --calibration reference/ --json
      accuracy/run published --reference reference/ -o docs/explanation/accuracy.md

    \b
    Exit status: 0 success; 1 with --check if a row is outside its bound, if fewer than 80 % of the
    caches are inside their intervals, or if one learns in another way; 2 the tables are not valid.
    """
    tables, caches, streams = read_published(directory)
    singles = read_reference(calibration) if calibration is not None else tables
    with computing(cluster) as parallel:
        validation = analysis.validate(tables, caches, singles, streams, tell=tell, parallel=parallel)
    verdicts = analysis.published_verdicts(validation.rows)
    if output is not None:
        more = [*published_report.questions(directory), *recorded_section(directory)]
        write(output, published_report.markdown(validation, verdicts, more).encode())
    rows = [row.as_dict() for row in validation.rows] + [row.as_dict() for row in validation.caches]

    def draw(console: Console) -> None:
        terminal.draw_table(console, published_report.published_table(validation.rows))
        if validation.caches:
            terminal.draw_table(console, published_report.caches_table(validation.caches))
        terminal.draw_table(console, published_report.class_verdicts_table(verdicts))

    emit(rows, as_json, draw)
    if check and not (all(verdict.holds for verdict in verdicts) and hold(validation.caches)):
        raise click.exceptions.Exit(1)
