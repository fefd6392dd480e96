"""The runner `host`: real fio on this machine's devices."""

from typing import Final

from blklab.runners.kind import RunnerKind, RunnerOption

KIND: Final = RunnerKind(
    name="host",
    summary="real fio on this machine",
    did="measured",
    make="blklab.runners.host.runner:make",
    form="blklab.spec.host_cell:FORM",
    words="blklab.runners.host.descriptions:WORDS",
    own_devices=True,
    where="On a host",
    options=(
        RunnerOption(
            "--force",
            "Measure despite this condition; the refusal names it.",
            metavar="NAME",
            multiple=True,
            elsewhere="other runners check no conditions of devices",
        ),
        RunnerOption(
            "--yes-destroy",
            "Overwrite this device of `destroy`, even with data on it.",
            metavar="ID",
            multiple=True,
            elsewhere="other runners overwrite no device",
        ),
    ),
)
