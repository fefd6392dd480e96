"""`blklab validate`: compare the simulator with published measurements or with the lab."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import cluster_option, computing, emit, json_option, store_option, taking, tell
from blklab.cli.run import only_cells
from blklab.errors import UsageError
from blklab.output import write
from blklab.report.console import Console
from blklab.runners.lab import ACCEL

if TYPE_CHECKING:
    from collections.abc import Mapping


_DIRECTORY = click.Path(path_type=Path)


@click.command()
@click.option(
    "--reference",
    "directory",
    type=_DIRECTORY,
    default=Path("reference"),
    show_default=True,
    metavar="DIR",
    help="Published tables: targets.toml, fio_runs.csv, fio_device_io.csv, randomio_runs.csv,"
    " cache_runs.csv; and the lab's experiments, lab/*.toml.",
)
@click.option(
    "--calibration",
    type=_DIRECTORY,
    metavar="DIR",
    help="Tables with the single-device rows, if they are not in the same directory.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the accuracy report, in Markdown; docs/explanation/accuracy.md is made so.",
)
@click.option(
    "--lab",
    is_flag=False,
    flag_value="all",
    metavar="[SUITE]",
    help="Measure DIR/lab/SUITE.toml on real kernels and simulate it; without SUITE: all suites except 'short'.",
)
@click.option("--recorded", is_flag=True, help="With --lab: use recorded measurements; boot no guest.")
@click.option("--record", is_flag=True, help="With --lab: store the measurements in DIR/lab/measured.")
@click.option(
    "--only",
    metavar="LABEL=PATTERN,...",
    callback=only_cells,
    help="With --lab: run only these cells: 'stack=raid1*,workload=rand*'.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="With --lab: change a key in all suites: kernel=6.12."
)
@taking(ACCEL, where="With --lab")
@click.option("--resume", is_flag=True, help="With --lab: continue an interrupted campaign.")
@store_option
@cluster_option
@click.option("--check", is_flag=True, help="Exit with status 1 if a row is outside its bound.")
@json_option
def validate(
    *,
    directory: Path,
    calibration: Path | None,
    output: Path | None,
    lab: str | None,
    recorded: bool,
    record: bool,
    only: dict[str, str],
    settings: tuple[str, ...],
    accel: str | None,
    resume: bool,
    store: str | None,
    cluster: str | None,
    check: bool,
    as_json: bool,
) -> None:
    """Predict published arrays and print predictions next to measurements.

    The device models are calibrated on single devices. Nothing is fitted to arrays: their
    predictions follow from the rules of the kernel.

    With --lab, arrays of throttled virtual disks are measured on a real kernel and simulated. Nine
    of ten cells must agree. The results are stored, like those of `blklab run`.

    \b
    Examples:
      blklab validate --reference reference/
      blklab validate --reference held-back/ --calibration reference/ --json
      blklab validate --reference reference/ -o docs/explanation/accuracy.md
      blklab validate --lab short --check                 takes a minute and a half
      blklab validate --lab published --set kernel=6.12
      blklab validate --lab --recorded                    recorded measurements

    \b
    Exit status: 0 success; 1 with --check if a row is outside its bound; 2 the tables are not
    valid; 3 a program such as QEMU is missing.
    """
    from blklab.cli.lab import agreement
    from blklab.imports import reference
    from blklab.report import terminal
    from blklab.validation import published as analysis
    from blklab.validation import published_report

    lab_options = {
        "--recorded": recorded,
        "--record": record,
        "--only": only,
        "--set": settings,
        "--accel": accel,
        "--resume": resume,
        "--store": store,
    }
    if lab is not None:
        _refuse({"--calibration": calibration, "--cluster": cluster}, "--lab does not take it")
        if recorded:
            measuring = {name: lab_options[name] for name in lab_options if name != "--recorded"}
            _refuse(measuring, "--recorded measures nothing")
        asked = agreement.AgreementOptions(
            directory, lab, only, settings, accel, resume=resume, record=record, store=store
        )
        agreement.show(asked, recorded=recorded, output=output, as_json=as_json, check=check)
        return
    _refuse(lab_options, "only --lab takes it")
    published = reference.read_reference(directory)
    singles = reference.read_reference(calibration) if calibration is not None else published
    with computing(cluster) as parallel:
        validation = analysis.validate(published, singles, tell=tell, parallel=parallel)
    verdicts = analysis.published_verdicts(validation.rows)
    if output is not None:
        more = [*published_report.questions(directory), *agreement.recorded_section(directory)]
        write(output, published_report.markdown(validation, verdicts, more).encode())
    rows = [row.as_dict() for row in validation.rows] + [row.as_dict() for row in validation.caches]

    def draw(console: Console) -> None:
        terminal.draw_table(console, published_report.published_table(validation.rows))
        if validation.caches:
            terminal.draw_table(console, published_report.caches_table(validation.caches))
        terminal.draw_table(console, published_report.class_verdicts_table(verdicts))

    emit(rows, as_json, draw)
    if check and not all(verdict.holds for verdict in verdicts):
        raise click.exceptions.Exit(1)


def _refuse(options: "Mapping[str, object]", reason: str) -> None:
    """Raise UsageError for the first option that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name}: {reason}")
