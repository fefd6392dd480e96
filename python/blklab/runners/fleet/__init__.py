"""The runner `fleet`: real fio on many hosts at the same time."""

from blklab.runners import host
from blklab.runners.kind import RunnerKind, imported

KIND = RunnerKind(
    name="fleet",
    summary="real fio on the hosts of [fleet] at the same time",
    did="measured",
    make=imported("blklab.runners.fleet.runner:FleetRunner"),
    form=imported("blklab.spec.host_cell:FLEET_FORM"),
    descriptions=imported("blklab.runners.host.descriptions"),
    options=host.KIND.options,
)
