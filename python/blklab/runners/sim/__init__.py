"""The runner `sim`: cells predicted by the simulator (crates/sim)."""

from typing import Final

import click

from blklab.runners.kind import RunnerKind, RunnerOption

KIND: Final = RunnerKind(
    name="sim",
    summary="the simulator",
    did="simulated",
    make="blklab.runners.sim.runner:make",
    form="blklab.spec.sim_cell:FORM",
    words="blklab.runners.sim.descriptions:WORDS",
    predicts=True,
    explain="blklab.analysis.explain:explain",
    options=(
        RunnerOption(
            "--jobs",
            "Cells to run at the same time; as many as there are CPUs, unless given.",
            metavar="N",
            type=click.IntRange(1, 1024),
            elsewhere="cells would disturb each other, so one at a time is measured",
        ),
    ),
)
