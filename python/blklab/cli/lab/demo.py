"""`blklab lab demo`: measure and predict mirrors of unequal disks."""

from pathlib import Path

import click

from blklab.cli.common import emit, fail_with, json_option, note, store_option, taking
from blklab.runners.lab import ACCEL


@click.command()
@taking(ACCEL)
@store_option
@json_option
def demo(*, accel: str | None, store: str | None, as_json: bool) -> None:
    """Boot a real kernel, build mirrors of unequal disks with mdadm, and measure their reads.

    The output shows predictions next to measurements. The experiment is examples/mirrors.toml. The results are stored.
    """
    from blklab.cli.run import measured
    from blklab.report.terminal import draw_table
    from blklab.runners import lab
    from blklab.runners.lab.runner import LabRunner
    from blklab.spec.cells import plan
    from blklab.spec.lab_cell import FORM
    from blklab.validation import agreement, agreement_report

    path = Path(lab.__file__).with_name("mirrors.toml")
    measuring = plan(path, form=FORM)
    runner = LabRunner(accelerator=accel, note=note)
    runner.check(measuring)
    note("booting a real kernel; mdadm and fio run in it")
    results, failed = measured(runner, measuring, store, keep=True, resume=False)
    predicted = agreement.predicted([plan(path)])
    given = {
        agreement.agreement_key(measuring.name, result.labels): agreement.agreement_figures(result.outcome)
        for result in results
    }
    rows = agreement.agreement_rows(measuring.cells[0].document["kernel"], predicted, given)
    table = agreement_report.agreement_table(rows)
    emit([row.as_dict() for row in rows], as_json, lambda console: draw_table(console, table))
    fail_with(failed)
