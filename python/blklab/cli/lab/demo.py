"""`blklab lab demo`: measure and predict mirrors of unequal disks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blklab.cli.common import emit, fail_with, json_option, note, store_option
from blklab.runners.lab import accel_option

if TYPE_CHECKING:
    from blklab.report.tables.base import TextTable


@click.command()
@accel_option
@store_option
@json_option
def demo(*, accel: str | None, store: str | None, as_json: bool) -> None:
    """Boot a real kernel, build mirrors of unequal disks with mdadm, and measure their reads.

    The output shows predictions next to measurements. The experiment is examples/mirrors.toml. The results are stored.
    """
    from blklab.analysis.metrics import device_shares
    from blklab.cli.run import measured
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
    by_number = dict(zip((cell.number for cell in predicting.cells), simulated, strict=True))
    rows = [
        {
            "labels": dict(result.labels),
            "iops": [side.read.iops for side in sides],
            "shares": {name: [share[name][0] or 0.0 for share in shares] for name in shares[0]},
        }
        for result in outcome.results
        for sides in [(by_number[result.number], result.outcome)]
        for shares in [[device_shares(side) for side in sides]]
    ]
    emit(rows, as_json, lambda console: draw_table(console, _table(rows)))
    fail_with(outcome.failed)


def _table(rows: list[dict[str, Any]]) -> "TextTable":
    """Return the table; of the two members of a mirror, only the first one is shown."""
    from blklab.report.tables.base import TextTable, figures, text

    cells = []
    for row in rows:
        (predicted, measured), (name, shares) = row["iops"], next(iter(row["shares"].items()))
        error = f"{100 * (predicted / measured - 1):+.1f} %" if measured else "–"
        share = f"{name} {100 * shares[0]:.0f} → {100 * shares[1]:.0f}"
        cells.append([f"{row['labels']['stack']}", f"{predicted:,.0f}", f"{measured:,.0f}", error, share])
    columns = [text("mirror"), *figures("predicted", "measured", "error"), text("share")]
    note = "IOPS of random reads. Share of the first disk (predicted → measured, %)."
    return TextTable("Predictions and the lab", columns, cells, note)
