"""The runner `host`: real fio on this machine's devices."""

from functools import partial

from blklab.runners.kind import RunnerKind, RunnerOption, imported

_option = partial(RunnerOption, multiple=True)

KIND = RunnerKind(
    name="host",
    summary="real fio on this machine",
    did="measured",
    make=imported("blklab.runners.host.runner:HostRunner"),
    form=imported("blklab.spec.host_cell:FORM"),
    descriptions=imported("blklab.runners.host.descriptions"),
    own_devices=True,
    options=(
        _option(
            "--force",
            "On a host: measure despite this condition; the refusal names it.",
            metavar="NAME",
            elsewhere="other runners check no conditions of devices",
        ),
        _option(
            "--yes-destroy",
            "On a host: overwrite this device of `destroy`, even with data on it.",
            metavar="ID",
            elsewhere="other runners overwrite no device",
        ),
    ),
)
