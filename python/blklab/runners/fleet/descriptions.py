"""Describes a fleet's cells: those of a host, and the hosts."""

from blklab.runners.host import descriptions as on_host
from blklab.spec.cells import ExperimentPlan
from blklab.spec.documents import as_fleet

COLUMNS = on_host.COLUMNS


def notes(plan: ExperimentPlan) -> list[str]:
    """Returns the lasting effects of a run, one line each."""
    hosts = as_fleet(plan.cells[0].document)["hosts"]
    return [f"on each of {len(hosts)} hosts, at the same time: {', '.join(hosts)}", *on_host.notes(plan)]
