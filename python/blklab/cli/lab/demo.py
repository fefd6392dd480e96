"""`blklab lab demo`: measure and predict mirrors of unequal disks."""

from pathlib import Path

import click

from blklab.cli.common import emit, fail_with, json_option, note, store_option
from blklab.runners.lab import accel_option


@click.command()
@accel_option
@store_option
@json_option
def demo(*, accel: str | None, store: str | None, as_json: bool) -> None:
    """Boot a real kernel, build mirrors of unequal disks with mdadm, and measure their reads.

    The output shows predictions next to measurements. The experiment is examples/mirrors.toml. The results are stored.
    """
    from blklab.analysis import agreement
    from blklab.cli.run import measured
    from blklab.report.agreement import agreement_table
    from blklab.report.terminal import draw_table
    from blklab.runners import lab
    from blklab.runners.lab.runner import LabRunner
    from blklab.runners.sim.runner import outcomes
    from blklab.spec.cells import plan
    from blklab.spec.lab_cell import FORM

    path = Path(lab.__file__).with_name("mirrors.toml")
    measuring, predicting = plan(path, form=FORM), plan(path)
    runner = LabRunner(accelerator=accel, note=note)
    runner.check(measuring)
    note("booting a real kernel; mdadm and fio run in it")
    outcome = measured(runner, measuring, store, keep=True, resume=False)
    simulated = outcomes([cell.document for cell in predicting.cells])
    predicted = agreement.figures_of_cells(
        predicting.name, zip((cell.labels for cell in predicting.cells), simulated, strict=True)
    )
    given = agreement.figures_of_cells(measuring.name, ((result.labels, result.outcome) for result in outcome.results))
    rows = agreement.agreement_rows(measuring.cells[0].document["kernel"], predicted, given)
    table = agreement_table(rows)
    emit([row.as_dict() for row in rows], as_json, lambda console: draw_table(console, table))
    fail_with(outcome.failed)
