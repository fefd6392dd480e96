"""The keys of each table of an experiment file, for messages and for a test."""

from typing import Final

from blklab.spec import device, experiment, stack, sweep, target, workload
from blklab.spec.fields import ExperimentTable

SOURCES: Final = ("model", "calibrated", "kind")  # Keys that select a device's model; exactly one must be given


def _of(*tables: type[ExperimentTable]) -> list[str]:
    return list(dict.fromkeys(key for table in tables for key in table.model_fields))


DEVICE: Final = list(dict.fromkeys([*SOURCES, *_of(*device.KINDS.values())]))  # Keys of a device of any kind

KNOWN: Final[dict[tuple[str, ...], list[str]]] = {
    ("settings", "host"): _of(experiment.Host),
    ("settings", "filesystem", "<table>"): _of(experiment.Filesystem),
    ("settings",): _of(experiment.Settings),
    ("devices", "*", "ssd"): _of(device.Ssd),
    ("devices", "*", "nvme"): _of(device.Nvme),
    ("devices", "*", "hdd"): _of(device.Hdd),
    ("devices", "*", "throttled"): _of(device.Throttled),
    ("stacks", "*", "<bare>"): _of(stack.Bare),
    ("stacks", "*", "<md>", "fail", "*"): _of(stack.Failure),
    ("stacks", "*", "<md>"): ["device", "kind", *_of(stack.Md)],
    **{("stacks", "*", f"<{kind}>"): _of(table) for kind, table in stack.VOLUMES.items()},
    ("workloads", "*", "<jobs>", "jobs", "*"): _of(workload.Job),
    ("workloads", "*", "<jobs>"): _of(workload.Jobs),
    ("workloads", "*", "<job file>"): _of(workload.JobFile),
    ("workloads", "*", "<replay>"): _of(workload.Replay),
    ("workloads", "*", "<command>"): _of(workload.Command),
    ("workloads", "*", "<job>"): [*_of(workload.Job), *workload.TAGS],
    ("targets", "*"): _of(target.Target),
    ("host", "steady", "<table>"): _of(target.Steady),
    ("host",): _of(target.HostRun),
    ("fleet",): _of(target.Fleet),
    ("cells", "*"): _of(experiment.CellPairs),
    ("lab",): _of(experiment.Lab),
    ("sweep",): [sweep.MODE, *sweep.QUEUE, *sweep.MD],
}
"""The keys of a table, by its path as pydantic gives it; `*` is any name."""

ROOT: Final = _of(experiment.Experiment)  # Keys of the file itself
STACK: Final = _of(stack.Bare, stack.Md, *stack.VOLUMES.values())  # Keys of a stack of any kind
WORKLOAD: Final = _of(workload.Job, workload.Replay)  # Keys of a workload that a matrix may vary in all workloads
