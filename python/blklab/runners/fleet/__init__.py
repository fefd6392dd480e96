"""The runner `fleet`: real fio on many hosts at the same time."""

from typing import Final

from blklab.runners import host
from blklab.runners.kind import RunnerKind

KIND: Final = RunnerKind(
    name="fleet",
    summary="real fio on the hosts of [fleet] at the same time",
    did="measured",
    make="blklab.runners.fleet.runner:make",
    form="blklab.spec.host_cell:FLEET_FORM",
    words="blklab.runners.fleet.descriptions:WORDS",
    where=host.KIND.where,
    options=host.KIND.options,
)
