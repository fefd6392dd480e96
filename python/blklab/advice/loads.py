"""Loads: traces, fio job files, workloads of an experiment, and published mixes."""

from collections.abc import Sequence
from pathlib import Path

from blklab.advice.question import Load, Table
from blklab.errors import UsageError
from blklab.spec import cell_form, fio_job, load, problems
from blklab.spec.files import read_toml
from blklab.units import format_size

MIXES = Path(__file__).parent / "mixes"


def weighted(text: str) -> tuple[str, float]:
    """Splits `name=2` into a name and its weight; the weight is 1 without a number."""
    name, equals, number = text.rpartition("=")
    try:
        weight = float(number) if equals else 1.0
    except ValueError:
        return text, 1.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"{text!r}: expected a weight above 0")
    return (name, weight) if equals else (text, 1.0)


def mixes() -> list[str]:
    """Returns the names of the published mixes."""
    return sorted(path.stem for path in MIXES.glob("*.toml"))


def published(text: str, working_set: int) -> Load:
    """Returns a published mix over a working set of some bytes. Raises UsageError."""
    name, weight = weighted(text)
    if name not in mixes():
        raise UsageError(f"--load {name!r}: no such mix; {problems.near(name, mixes())}")
    document = read_toml(MIXES / f"{name}.toml")
    table = {**document["workload"], "size": str(working_set)}
    source = f"{document['title']}, on {format_size(working_set)} ({document['source']})"
    return Load(name, table, source, weight, span=working_set)


def of_trace(text: str, device: str | None, number: int) -> Load:
    """Returns a trace, at its recorded times. Raises UsageError or BlklabError."""
    name, weight = weighted(text)
    path = Path(name).expanduser().resolve()
    trace = cell_form.replay_source(path, None, device)
    table = {"replay": str(path), "device": trace.name if device is None else device, "timing": "recorded"}
    about = f"the trace {name}, device {trace.name}"
    return Load(f"trace{number}", table, about, weight, timed=True, ios=trace.ios, span=trace.end)


def of_job_file(text: str) -> list[Load]:
    """Returns the jobs of a fio job file. Raises UsageError."""
    name, weight = weighted(text)
    path = Path(name)
    groups, _ = fio_job.read(path)
    size = len(groups)
    label = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in path.stem) or "job"
    return [
        Load(label if size == 1 else f"{label}-{at}", {"jobs": jobs}, f"the job file {name}", weight / size)
        for at, (_, jobs) in enumerate(groups, 1)
    ]


def of_experiment(text: str) -> list[Load]:
    """Returns the workloads of an experiment file. Raises UsageError."""
    name, weight = weighted(text)
    raw = load.read(Path(name)).raw
    tables: Table = raw.get("workloads", {})
    if not isinstance(tables, dict) or not tables:
        raise UsageError(f"{name}: no [workloads]: expected an experiment file")
    if any("replay" in table or "command" in table for table in tables.values() if isinstance(table, dict)):
        raise UsageError(f"{name}: has a trace or a command: give traces with --trace")
    share = weight / len(tables)
    # Time-based jobs need the runtime that the experiment gives all of them.
    settings = raw.get("settings")
    common = {"runtime": settings["runtime"]} if isinstance(settings, dict) and "runtime" in settings else {}
    return [Load(key, {**common, **table}, f"workload {key} of {name}", share) for key, table in tables.items()]


def distinct(loads: Sequence[Load]) -> list[Load]:
    """Returns loads; raises UsageError if two have the same name."""
    names = [load.name for load in loads]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two loads are called {twice!r}: give one of them, with a weight")
    return list(loads)
