"""`blklab lab demo`: mirrors of unequal disks, on a real kernel and in the simulator."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import emit, json_option, note, notes, store_option, warn

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.runners.campaign import Outcome
    from blklab.runners.lab.runner import Lab
    from blklab.spec.cells import Plan


@click.command()
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    help="How the guest runs; KVM if it works, else emulated (tcg). [BLKLAB_ACCEL]",
)
@store_option
@json_option
def demo(*, accel: str | None, store: str | None, as_json: bool) -> None:
    """Boot a real kernel, build mirrors of unequal disks with mdadm, and see who serves the reads.

    The simulator's prediction is printed beside what was measured. The experiment is
    examples/mirrors.toml; results are kept in the store.
    """
    from blklab.analysis import agreement
    from blklab.errors import BlklabError
    from blklab.runners import lab
    from blklab.runners.lab.runner import Lab
    from blklab.spec.cells import LAB, plan

    path = Path(lab.__file__).with_name("mirrors.toml")
    measuring = plan(path, runner=LAB)
    runner = Lab(accelerator=accel, note=note)
    runner.check(measuring)
    note("booting a real kernel; mdadm and fio run in it")
    outcome = _measured(runner, measuring, store)
    predicted = agreement.predicted([plan(path)])
    measured = {
        agreement.key(measuring.name, result.labels): agreement.figures(result.outcome)
        for result in outcome.results
    }
    rows = agreement.rows(measuring.cells[0].document["kernel"], predicted, measured)

    def draw(console: "Console") -> None:
        from blklab.report import terminal
        from blklab.report.agreement import rows as table

        terminal.draw(console, table(rows))

    emit([row.as_dict() for row in rows], as_json, draw)
    if outcome.failed:
        raise BlklabError(outcome.failed[0])


def _measured(runner: "Lab", measuring: "Plan", where: str | None) -> "Outcome":
    from blklab.report.live import shown
    from blklab.runners.campaign import carry_out
    from blklab.store.campaigns import Store

    with shown(notes(), measuring) as campaign:
        runner.progress = campaign.update
        return carry_out(runner, measuring, Store(where), ended=campaign.ended, note=warn)
