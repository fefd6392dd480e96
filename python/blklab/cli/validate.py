"""`blklab validate`: the simulator beside published measurements."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import emit, json_option

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.analysis.questions import Answer
    from blklab.analysis.validate import Validation

_DIRECTORY = click.Path(path_type=Path)


@click.command()
@click.option(
    "--reference",
    "directory",
    type=_DIRECTORY,
    required=True,
    metavar="DIR",
    help="Published tables: targets.toml, fio_runs.csv, fio_device_io.csv, randomio_runs.csv.",
)
@click.option(
    "--calibration",
    type=_DIRECTORY,
    metavar="DIR",
    help="Tables with the single-device rows, if they are not in the same directory.",
)
@click.option(
    "--explain", is_flag=True, help="Answer the questions that the publisher left open as well."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the accuracy report, in Markdown; docs/accuracy.md is made so.",
)
@click.option("--check", is_flag=True, help="Exit with 1 if a row is outside its bound.")
@json_option
def validate(
    *,
    directory: Path,
    calibration: Path | None,
    explain: bool,
    output: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Calibrate on single devices, predict every array, and print prediction beside measurement.

    Arrays are never fitted: what differs between them must follow from the kernel's rules.

    \b
    Examples:
      blklab validate --reference reference/
      blklab validate --reference held-back/ --calibration reference/ --json
      blklab validate --reference reference/ --explain -o docs/accuracy.md

    \b
    Exit status: 0 done, 1 with --check if a row is outside its bound, 2 the tables make no sense.
    """
    from blklab.analysis import questions, reference
    from blklab.analysis import validate as analysis

    published = reference.read(directory)
    singles = reference.read(calibration) if calibration is not None else published
    found = analysis.validate(published, singles, tell=_tell)
    verdicts = analysis.verdicts(found.rows)
    wanted = explain or output is not None
    answers: list[Answer] = questions.answers(published, found) if wanted else []
    if output is not None:
        from blklab.output import write
        from blklab.report import accuracy

        write(output, accuracy.markdown(found, verdicts, answers).encode())
    rows = [row.as_dict() for row in found.rows]

    def draw(console: "Console") -> None:
        _draw(console, found, answers if explain else [])

    emit(rows, as_json, draw)
    if check and not all(verdict.holds for verdict in verdicts):
        raise click.exceptions.Exit(1)


def _tell(line: str) -> None:
    from blklab.cli.common import notes

    notes().print(line)


def _draw(console: "Console", found: "Validation", answers: "list[Answer]") -> None:
    from blklab.analysis import validate as analysis
    from blklab.report import accuracy, terminal

    terminal.draw(console, accuracy.rows(found.rows))
    terminal.draw(console, accuracy.verdicts(analysis.verdicts(found.rows)))
    accuracy.questions(console, answers)
