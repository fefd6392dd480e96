"""Every runner by name: all that commands, reports and analyses know of it. A new runner is one `RunnerKind`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from blklab.experiment.cell_form import CellForm
    from blklab.experiment.cells import Cell, ExperimentPlan
    from blklab.outcome import Outcome
    from blklab.runners.base import Runner

    Explain = Callable[[Mapping[str, Any], Outcome], list[str]]

F = TypeVar("F", bound=Callable[..., Any])


class RunnerOption(click.Option):
    """An option of `blklab run` that other runners refuse. It is also a decorator, for other commands."""

    def __init__(
        self,
        name: str,
        *,
        help: str,  # noqa: A002
        elsewhere: str,
        type: click.ParamType[Any] | None = None,  # noqa: A002
        metavar: str | None = None,
        is_flag: bool = False,
        multiple: bool = False,
    ) -> None:
        flag = f"--{name.replace('_', '-')}"
        super().__init__([flag], type=type, metavar=metavar, is_flag=is_flag, multiple=multiple, help=help)
        self.elsewhere = elsewhere  # Why other runners refuse it, for the message: `other runners boot no guest`

    def __call__(self, command: F) -> F:
        vars(command).setdefault("__click_params__", []).append(self)  # As click.option does
        return command


class CellDescriptions(Protocol):
    """A module that describes a runner's cells."""

    COLUMNS: "Mapping[str, Callable[[Cell], str]]"
    """Columns of the table of cells, in order; `stack` and `workload` are always there."""

    def notes(self, plan: "ExperimentPlan", /) -> list[str]:
        """Returns the lines below the table."""


@dataclass(frozen=True)
class RunnerKind:
    """A runner's entry in the registry. What it names is imported when it is used: an entry costs nothing to list."""

    name: str  # The value of `--on`
    summary: str  # A phrase for the help
    did: str  # What it did with an experiment, as a participle: `simulated`
    make: "Callable[[], Callable[..., Runner]]"
    """What makes the runner; called with its options by name, and with `note` and `warn`,
    which show messages to the user."""

    form: "Callable[[], CellForm]"
    descriptions: Callable[[], CellDescriptions]
    predicts: bool = False  # Whether its results are predictions rather than measurements
    own_devices: bool = False  # Whether it measures the devices of the machine that it runs on
    options: Collection[RunnerOption] = ()
    explain: "Callable[[], Explain] | None" = None
    """What explains a cell's outcome, one sentence each; None if it cannot."""


jobs_option = RunnerOption(
    "jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of cells to run at the same time.  [default: number of CPUs]",
    elsewhere="other runners measure one cell at a time",
)
this_host_option = RunnerOption(
    "this_host",
    is_flag=True,
    help="Predict for as many cores as this process has CPUs. An experiment's own settings.host.cores stays.",
    elsewhere="other runners use the CPUs that there are",
)
cluster_option = RunnerOption(
    "cluster",
    metavar="ADDRESS",
    help="Compute on a Dask cluster: HOST:PORT of its scheduler, or local:N for N processes here.",
    elsewhere="other runners measure on the hosts that they name",
)

accel_option = RunnerOption(
    "accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    help="In the lab: accelerator of the guest; auto is KVM if it works, otherwise emulation (tcg). [BLKLAB_ACCEL]",
    elsewhere="other runners boot no guest",
)
kernel_option = RunnerOption(
    "kernel",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="VMLINUZ",
    help="In the lab: your own kernel, instead of Debian's.",
    elsewhere="other runners boot no guest",
)
modules_option = RunnerOption(
    "modules",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="In the lab: directory with the modules of that kernel, lib/modules/VERSION.",
    elsewhere="other runners boot no guest",
)
trace_option = RunnerOption(
    "trace",
    metavar="NAME,...",
    help="In the lab: record the events of these devices and stacks with blktrace; 'all' for all of them.",
    elsewhere="other runners boot no guest",
)
trace_to_option = RunnerOption(
    "trace_to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="In the lab: directory for the traces, with a directory for each cell.  [default: traces]",
    elsewhere="other runners boot no guest",
)

force_option = RunnerOption(
    "force",
    multiple=True,
    metavar="NAME",
    help="On a host: measure despite this condition; the refusal names it.",
    elsewhere="other runners check no conditions of devices",
)
yes_destroy_option = RunnerOption(
    "yes_destroy",
    multiple=True,
    metavar="ID",
    help="On a host: overwrite this device of `destroy`, even with data on it.",
    elsewhere="other runners overwrite no device",
)


def _load_sim_runner() -> "Callable[..., Runner]":
    from blklab.runners.sim.runner import make

    return make


def _load_sim_form() -> "CellForm":
    from blklab.experiment.sim_cell import FORM

    return FORM


def _load_sim_descriptions() -> CellDescriptions:
    from blklab.runners.sim import descriptions

    return descriptions


def _load_sim_explanation() -> "Explain":
    # By name: `compare` is above `runners`, and asks this registry.
    explain: Explain = resolve_name("blklab.compare.explain:explain")
    return explain


def _load_lab_runner() -> "Callable[..., Runner]":
    from blklab.runners.lab.runner import make

    return make


def _load_lab_form() -> "CellForm":
    from blklab.experiment.lab_cell import FORM

    return FORM


def _load_lab_descriptions() -> CellDescriptions:
    from blklab.runners.lab import descriptions

    return descriptions


def _load_host_runner() -> "Callable[..., Runner]":
    from blklab.runners.host.runner import HostRunner

    return HostRunner


def _load_host_form() -> "CellForm":
    from blklab.experiment.host_cell import FORM

    return FORM


def _load_host_descriptions() -> CellDescriptions:
    from blklab.runners.host import descriptions

    return descriptions


def _load_fleet_runner() -> "Callable[..., Runner]":
    from blklab.runners.fleet.runner import FleetRunner

    return FleetRunner


def _load_fleet_form() -> "CellForm":
    from blklab.experiment.host_cell import FLEET_FORM

    return FLEET_FORM


SIM = RunnerKind(
    "sim",
    summary="the simulator",
    did="simulated",
    make=_load_sim_runner,
    form=_load_sim_form,
    descriptions=_load_sim_descriptions,
    explain=_load_sim_explanation,
    predicts=True,
    options=(jobs_option, this_host_option, cluster_option),
)
LAB = RunnerKind(
    "lab",
    summary="real md and fio on a real kernel, in a virtual machine",
    did="measured in the lab",
    make=_load_lab_runner,
    form=_load_lab_form,
    descriptions=_load_lab_descriptions,
    options=(accel_option, kernel_option, modules_option, trace_option, trace_to_option),
)
HOST = RunnerKind(
    "host",
    summary="real fio on this machine",
    did="measured",
    make=_load_host_runner,
    form=_load_host_form,
    descriptions=_load_host_descriptions,
    own_devices=True,
    options=(force_option, yes_destroy_option),
)
FLEET = RunnerKind(
    "fleet",
    summary="real fio on the hosts of [fleet] at the same time",
    did="measured",
    make=_load_fleet_runner,
    form=_load_fleet_form,
    descriptions=_load_host_descriptions,
    options=(force_option, yes_destroy_option),
)

RUNNERS = {kind.name: kind for kind in (SIM, LAB, HOST, FLEET)}
"""The values of `--on`, in this order."""


def predicts(name: str) -> bool:
    """Tells whether a runner's results are predictions; imported results are not."""
    return name in RUNNERS and RUNNERS[name].predicts


def did(name: str) -> str:
    """Returns what a runner, or the program of an import, did: `simulated`."""
    return RUNNERS[name].did if name in RUNNERS else "imported"
