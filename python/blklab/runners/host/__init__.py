"""Real fio on this machine: what may be written to, what is changed for a run and put back."""

from typing import Final

from blklab.runners.kind import RunnerKind, RunnerOption

KIND: Final = RunnerKind(
    name="host",
    summary="real fio, on this machine",
    did="measured",
    make="blklab.runners.host.runner:make",
    form="blklab.spec.host_cell:FORM",
    words="blklab.runners.host.descriptions:WORDS",
    own_devices=True,
    where="On a host",
    options=(
        RunnerOption(
            "--force",
            "Measure although something is wrong; the refusal says its name.",
            metavar="NAME",
            multiple=True,
            elsewhere="nothing is in the way",
        ),
        RunnerOption(
            "--yes-destroy",
            "Overwrite this device of `destroy`, whatever is on it.",
            metavar="ID",
            multiple=True,
            elsewhere="nothing is harmed",
        ),
    ),
)
