"""A cell as the runner `fleet` takes it: that of a host, and the hosts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from blklab.ansible_inventory import expanded
from blklab.spec import host_cell, load, problems
from blklab.spec.cell_form import CellForm, Made
from blklab.spec.experiment import Experiment
from blklab.spec.fields import shown
from blklab.spec.target import PLACES


def document(
    source: load.ExperimentSource, experiment: Experiment, target: str, workload: str, swept: Mapping[str, object]
) -> Made:
    """Returns a cell's document; `destroy` has `HOST:ID` as the user wrote them."""
    fleet = experiment.fleet
    if not fleet.hosts:
        raise problems.fail("fleet.hosts", "is missing: expected the hosts to measure, as you name them for ssh")
    hosts = expanded(fleet.hosts, source.path.parent)
    for number, name in enumerate(experiment.destroy):
        if host_of(name, hosts) is None:
            raise problems.fail(f"destroy[{number}]", f"found {shown(name)}, expected HOST:ID with a host of [fleet]")
    place = experiment.targets[target]
    ((kind, where),) = ((key, path) for key in PLACES if (path := getattr(place, key)) is not None)
    if not Path(where).is_absolute():
        message = f"found {shown(where)}, expected an absolute path: it is on other hosts"
        raise problems.fail(f"targets.{target}.{kind}", message)
    made, *rest = host_cell.document(source, experiment, target, workload, swept)
    for key, present in (
        ("host.steady", made["host"]["steady"]),
        (f"workloads.{workload}.command", made["command"]),
        (f"workloads.{workload}.rate", made.get("load_ramp")),
    ):
        if present:
            raise problems.fail(key, "hosts would not run at the same time: remove it, or use --on host")
    return {**made, "hosts": hosts, "python": fleet.python}, *rest  # type: ignore[return-value]


FORM: Final = CellForm("fleet", document, on_targets=True)


def host_of(name: str, hosts: Iterable[str]) -> str | None:
    """Returns the host of a device `HOST:ID`; None if it names none of them."""
    named = [host for host in hosts if name.startswith(f"{host}:") and len(name) > len(host) + 1]
    return max(named, key=len, default=None)


def ids_of(host: str, names: Sequence[str], hosts: Iterable[str]) -> list[str]:
    """Returns the ids of one host's devices, of names `HOST:ID`."""
    return [name.removeprefix(f"{host}:") for name in names if host_of(name, hosts) == host]
