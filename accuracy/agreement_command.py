"""`accuracy/run agreement`: run the same cells in the simulator and in the lab."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from accuracy import agreement as analysis
from accuracy import agreement_report as report
from accuracy import recordings
from accuracy.agreement import AgreementFigures, AgreementKey, AgreementRow, agreement_rows, figures_of_cells
from accuracy.agreement_report import agreement_table
from accuracy.options import check_option, output_option, reference_option
from accuracy.recordings import LabRecording
from blklab.cli.common import emit, fail_with, json_option, note, store_option
from blklab.cli.run import changes, measure_campaign, only_cells
from blklab.errors import UsageError
from blklab.experiment import cells, lab_cell, sim_cell
from blklab.experiment.cell_form import CellForm
from blklab.experiment.cells import ExperimentPlan
from blklab.experiment.overrides import Override
from blklab.output import write
from blklab.render import terminal
from blklab.render.console import Console
from blklab.runners.base import RunResult
from blklab.runners.lab.runner import LabRunner
from blklab.runners.registry import accel_option
from blklab.runners.sim.runner import SimRunner


@dataclass(frozen=True)
class AgreementOptions:
    """The options of a measurement."""

    directory: Path
    suite: str
    only: dict[str, str]
    settings: tuple[str, ...]
    accel: str | None
    resume: bool
    record: bool
    store: str | None


@click.command()
@click.argument("suite", default=recordings.ALL, metavar="[SUITE]")
@reference_option
@output_option
@click.option("--recorded", is_flag=True, help="Use recorded measurements; boot no guest.")
@click.option("--record", is_flag=True, help="Store the measurements in DIR/lab/measured.")
@click.option(
    "--only",
    metavar="LABEL=PATTERN,...",
    callback=only_cells,
    help="Run only these cells: 'stack=raid1*,workload=rand*'.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key in all suites: kernel=6.12.")
@accel_option
@click.option("--resume", is_flag=True, help="Continue an interrupted campaign.")
@store_option
@check_option
@json_option
def agreement(
    *,
    suite: str,
    directory: Path,
    output: Path | None,
    recorded: bool,
    record: bool,
    only: dict[str, str],
    settings: tuple[str, ...],
    accel: str | None,
    resume: bool,
    store: str | None,
    check: bool,
    as_json: bool,
) -> None:
    """Measure DIR/lab/SUITE.toml on real kernels and simulate it; without SUITE: all suites except 'short'.

    Arrays of throttled virtual disks are measured on a real kernel and simulated. Nine of ten cells
    must agree. The results are stored, like those of `blklab run`.

    \b
    Examples:
      accuracy/run agreement short --check                takes a minute and a half
      accuracy/run agreement published --set kernel=6.12
      accuracy/run agreement --recorded                   recorded measurements

    \b
    Exit status: 0 success; 1 with --check if a cell is outside its bounds; 2 the experiments are not
    valid; 3 a program such as QEMU is missing.
    """
    wanted = AgreementOptions(directory, suite, only, settings, accel, resume=resume, record=record, store=store)
    measuring = {"--record": record, "--only": only, "--set": settings, "--accel": accel}
    for name, value in {**measuring, "--resume": resume, "--store": store}.items():
        if recorded and value:
            raise UsageError(f"{name}: --recorded measures nothing")
    pairs, failed = _recorded(wanted) if recorded else _measure_pairs(wanted)
    rows = [row for _, own in pairs for row in own]
    verdicts = analysis.agreement_verdicts(rows)
    if output is not None:
        write(output, ("\n".join(_section(wanted.directory, pairs)) + "\n").encode())
    missed = recordings.missed(recordings.misses(wanted.directory), rows)

    def draw(console: Console) -> None:
        terminal.draw_table(console, agreement_table(rows))
        if missed:
            terminal.draw_table(console, report.misses(missed))
        terminal.draw_table(console, report.verdicts_table(verdicts))

    documents: dict[str, Any] = {
        "rows": [row.as_dict() for row in rows],
        "verdicts": [
            {"kernel": verdict_.kernel, "cells": verdict_.rows, "within": verdict_.within, "holds": verdict_.holds}
            for verdict_ in verdicts
        ],
    }
    emit(documents, as_json, draw)
    fail_with(failed)
    if check and not all(verdict_.holds for verdict_ in verdicts):
        raise click.exceptions.Exit(1)


def recorded_section(directory: Path) -> list[str]:
    """Return the lines of the accuracy report about recorded lab measurements, if there are any."""
    known = recordings.read_recordings(directory)
    pairs = [(recording, recordings.predicted(directory, recording)) for recording in known]
    return _section(directory, pairs) if pairs else []


def _section(directory: Path, pairs: Sequence[tuple[LabRecording, Sequence[AgreementRow]]]) -> list[str]:
    rows = [row for _, own in pairs for row in own]
    missed = recordings.missed(recordings.misses(directory), rows)
    return list(
        report.report_section([recording for recording, _ in pairs], rows, analysis.agreement_verdicts(rows), missed)
    )


def _recorded(wanted: AgreementOptions) -> tuple[list[tuple[LabRecording, list[AgreementRow]]], list[str]]:
    names = {path.stem for path in recordings.suites(wanted.directory, wanted.suite)}
    pairs = []
    for recording in recordings.read_recordings(wanted.directory):
        rows = [
            row
            for row in recordings.predicted(wanted.directory, recording)
            if row.key.suite in names or wanted.suite == recordings.ALL
        ]
        if rows:
            pairs.append((recording, rows))
    if not pairs:
        raise UsageError(
            f"{recordings.recordings_directory(wanted.directory)}: no recording of suite"
            f" {wanted.suite!r}; record it with --record"
        )
    return pairs, []


def _measure_pairs(wanted: AgreementOptions) -> tuple[list[tuple[LabRecording, list[AgreementRow]]], list[str]]:
    """Run every suite on both runners. With --resume, finished cells are not run again."""
    paths = recordings.suites(wanted.directory, wanted.suite)
    extra = changes(wanted.settings)
    theirs = _plans(wanted, paths, extra, lab_cell.FORM)
    ours = _plans(wanted, paths, extra, sim_cell.FORM)
    lab = LabRunner(accelerator=wanted.accel, note=note)
    for plan in theirs:
        lab.check(plan)
    predicted: dict[str, dict[AgreementKey, AgreementFigures]] = {}
    given: dict[str, dict[AgreementKey, AgreementFigures]] = {}
    failed: list[str] = []
    machines: dict[str, dict[str, str]] = {}
    for real, model in zip(theirs, ours, strict=True):
        real_ones = measure_campaign(lab, real, wanted.store, keep=True, resume=wanted.resume)
        results = real_ones.results
        known = {key: figures for _, key, figures in _figures(real, results)}
        costed = analysis.with_io_costs(model, known)
        simulated = measure_campaign(
            SimRunner(seed_count=lambda _cell: 1), costed, wanted.store, keep=True, resume=False
        )
        failed += [*real_ones.errors, *simulated.errors]
        for kept, some in ((predicted, simulated.results), (given, results)):
            for kernel, suite, figures in _figures(model, some):
                kept.setdefault(kernel, {})[suite] = figures
        for result in results:
            machines.setdefault(_kernel(real, result), _measured_with(lab, real, result))
    pairs = []
    for kernel, cells_of in given.items():
        recording = recordings.LabRecording(kernel, machines[kernel], cells_of)
        if wanted.record:
            note(f"stored in {recordings.write_recording(wanted.directory, recording)}")
        pairs.append((recording, agreement_rows(kernel, predicted.get(kernel, {}), cells_of)))
    return pairs, failed


def _plans(
    wanted: AgreementOptions, paths: Sequence[Path], extra: Sequence[Override], form: CellForm
) -> list[ExperimentPlan]:
    """Return the plan of each suite that has selected cells.

    Raises UsageError if no suite has any, and for an invalid experiment.
    """
    plans: list[ExperimentPlan] = []
    lacking: list[UsageError] = []
    for path in paths:
        plan = cells.plan(path, changes=extra, form=form)
        if not wanted.only:
            plans.append(plan)
            continue
        try:
            plans.append(cells.plan(path, changes=extra, only=wanted.only, form=form))
        except UsageError as error:
            lacking.append(error)
    if not plans:
        raise lacking[0]
    return plans


def _figures(plan: ExperimentPlan, results: Sequence[RunResult]) -> list[tuple[str, AgreementKey, AgreementFigures]]:
    return [
        (_kernel(plan, result), key, figures)
        for result in results
        for key, figures in figures_of_cells(plan.name, [(result.labels, result.outcome)]).items()
    ]


def _kernel(plan: ExperimentPlan, result: RunResult) -> str:
    return next(str(cell.document["kernel"]) for cell in plan.cells if cell.number == result.number)


def _measured_with(lab: LabRunner, plan: ExperimentPlan, result: RunResult) -> dict[str, str]:
    """Return the versions of kernel, fio, mdadm and QEMU that measured a cell."""
    environment = lab.environment()
    packages = environment["guests"].get(_kernel(plan, result), {}).get("packages", {})
    guest = result.outcome.lab
    facts = {"kernel": "" if guest is None else guest.kernel}
    facts |= {name: packages[name] for name in ("fio", "mdadm") if name in packages}
    facts["QEMU"] = environment["programs"]["qemu"]
    facts["accelerator"] = "" if guest is None else guest.accel
    return {name: str(value) for name, value in facts.items()}
