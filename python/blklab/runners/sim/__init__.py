"""The runner `sim`: cells predicted by the simulator (crates/sim)."""

import click

from blklab.runners.kind import RunnerKind, RunnerOption, imported

KIND = RunnerKind(
    name="sim",
    summary="the simulator",
    did="simulated",
    make=imported("blklab.runners.sim.runner:make"),
    form=imported("blklab.spec.sim_cell:FORM"),
    descriptions=imported("blklab.runners.sim.descriptions"),
    predicts=True,
    explain=imported("blklab.analysis.explain:explain"),
    options=(
        RunnerOption(
            "--jobs",
            "Number of cells to run at the same time.  [default: number of CPUs]",
            metavar="N",
            type=click.IntRange(1, 1024),
            elsewhere="other runners measure one cell at a time",
        ),
        RunnerOption(
            "--this-host",
            "Predict for as many cores as this process has CPUs. An experiment's own settings.host.cores stays.",
            is_flag=True,
            elsewhere="other runners use the CPUs that there are",
        ),
        RunnerOption(
            "--cluster",
            "Compute on a Dask cluster: HOST:PORT of its scheduler, or local:N for N processes here.",
            metavar="ADDRESS",
            elsewhere="other runners measure on the hosts that they name",
        ),
    ),
)
