"""What `[matrix]` and `--set` change: converts a key such as `near.chunk` to places in the file."""

import copy
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blklab.experiment import schema
from blklab.experiment.tables import Fleet, HostRun, Lab, Settings
from blklab.experiment.workload import Command, Job, Replay
from blklab.toml_files import problems
from blklab.toml_files.fields import ExperimentTable

Path = tuple[str, ...]

SECTIONS = ("devices", "stacks", "workloads")

KEYS = {"devices": schema.DEVICE, "stacks": schema.STACK, "workloads": schema.WORKLOAD}
"""Keys of the tables in each section."""

TABLES = {"host": HostRun.model_fields, "fleet": Fleet.model_fields, "lab": Lab.model_fields}
"""Keys of the file's other tables, by table."""

SCALARS = ("title", "seed", "repeats")  # Keys of the file itself that `--set` may change


MODELLED = ("kernel", "filesystem", "placement", "host", "latency_ns")
"""Settings of the simulator: a host has a kernel and filesystems already."""

LISTS = frozenset({"members", "write_mostly", "rebuilding"})
"""Keys whose value is a list; for any other key, a list means several values: an axis of the matrix."""


@dataclass(frozen=True)
class Override:
    """One key with its value, and where the user wrote it."""

    key: str
    value: Any
    origin: str  # `matrix.bs[1]` or `--set bs`, for messages

    @property
    def axis(self) -> bool:
        """Whether it has several values, each for its own cells."""
        return isinstance(self.value, list) and self.key.split(".")[-1] not in LISTS


def parse_set(text: str) -> Override:
    """Returns what `--set key=value` asks for. Raises ValueError."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals and key.replace(".", "").replace("_", "").isalnum():
        raise ValueError(f"{text!r}: expected KEY=VALUE: write {key}=VALUE, as in iodepth=8 or runtime=60s")
    if not equals or not key:
        raise ValueError(f"{text!r}: expected KEY=VALUE, such as iodepth=8")
    return Override(key, _value(value.strip()), f"--set {key}")


def _value(text: str) -> Any:
    """Returns a list for `[1, 2]` and a table for `{ key = 1 }`, otherwise text, which every key
    accepts: 6.1 must not become a number.
    """
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        items = text[1:-1].split(",")
        if text.startswith("[") and text.endswith("]") and all(item.strip().isprintable() for item in items):
            return [item.strip() for item in items]  # [raid1, near]: a shell took the quotes
        kind = "list" if text.startswith("[") else "table"
        raise ValueError(f"{text!r} is not a {kind}: {error}") from error


def apply_overrides(raw: Mapping[str, Any], changes: list[Override]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the file with the changes made, and where each changed place was written.

    Raises SpecProblems for an unknown key.
    """
    new_raw = copy.deepcopy(dict(raw))
    origins: dict[str, str] = {}
    for change in changes:
        for *tables, key in list(_places(new_raw, change)):
            table = new_raw
            for name in tables:
                inner = table.setdefault(name, {})
                if not isinstance(inner, dict):
                    raise problems.fail(change.origin, f"{'.'.join(tables)} is not a table")
                table = inner
            table[key] = copy.deepcopy(change.value)
            origins[".".join((*tables, key))] = change.origin
    return new_raw, origins


def is_only_simulated(raw: Mapping[str, Any], change: Override) -> bool:
    """Tells whether a change is of models or kernels, which have no effect on a host."""
    return all(
        path[0] in {"devices", "stacks"} or (path[0] == "settings" and path[1] in MODELLED)
        for path in _places(raw, change)
    )


def _places(raw: Mapping[str, Any], change: Override) -> Iterator[Path]:
    first, dot, inner_key = change.key.partition(".")
    if not dot:
        yield from _plain(raw, change)
        return
    if first in {*SECTIONS, "settings"} and (first == "settings" or "." in inner_key):
        yield from _check_path(raw, change, tuple(change.key.split(".")))
        return
    sections = [name for name in SECTIONS if first in _tables(raw, name)]
    if not sections and inner_key in TABLES.get(first, {}):
        yield (first, inner_key)
        return
    if not sections and first in Settings.model_fields:
        yield from _check_path(raw, change, ("settings", *change.key.split(".")))
        return
    if len(sections) > 1:
        sections = [name for name in sections if inner_key in KEYS[name]] or sections
    if len(sections) > 1:
        places_text = " and ".join(f"{name}.{first}" for name in sections)
        raise problems.fail(change.origin, f"{first!r} is ambiguous: use one of {places_text}")
    if not sections:
        hint = problems.near(first, [name for section in SECTIONS for name in _tables(raw, section)])
        raise problems.fail(change.origin, f"there is no device, stack or workload {first!r}; {hint}")
    if sections[0] == "workloads":
        yield from _in_workload(raw, first, inner_key)
    else:
        yield (sections[0], first, *inner_key.split("."))


def _check_path(raw: Mapping[str, Any], change: Override, path: Path) -> Iterator[Path]:
    if path[0] != "settings" and path[1] not in _tables(raw, path[0]):
        hint = problems.near(path[1], _tables(raw, path[0]))
        raise problems.fail(change.origin, f"there is no {path[0]}.{path[1]}; {hint}")
    yield path


def _plain(raw: Mapping[str, Any], change: Override) -> Iterator[Path]:
    key = change.key
    if key in schema.WORKLOAD:
        places = [place for name in _tables(raw, "workloads") for place in _in_workload(raw, name, key)]
        places = [place for place in places if _has_key(raw, place)]
        if not places:
            raise problems.fail(change.origin, "no workload has this key")
        yield from places
    elif key in Settings.model_fields:
        yield ("settings", key)
    elif key in SCALARS and change.origin.startswith("--"):
        yield (key,)
    elif key in schema.DEVICE or key in schema.STACK:
        noun = "device" if key in schema.DEVICE else "stack"
        names = problems.listing([f"{name}.{key}" for name in _tables(raw, f"{noun}s")])
        raise problems.fail(change.origin, f"is a key of one {noun}, expected one of {names or 'none'}")
    else:
        known_keys = [*Settings.model_fields, *schema.WORKLOAD, "stack", "workload"]
        raise problems.fail(change.origin, f"no such key; {problems.near(key, known_keys)}")


def _in_workload(raw: Mapping[str, Any], name: str, key: str) -> Iterator[Path]:
    """Returns the places of a workload's key: in each of its jobs, if it has several."""
    table = _tables(raw, "workloads")[name]
    jobs = table.get("jobs") if isinstance(table, dict) else None
    if isinstance(jobs, dict) and "." not in key:
        for job in jobs:
            yield ("workloads", name, "jobs", job, key)
    else:
        yield ("workloads", name, *key.split("."))


def _has_key(raw: Mapping[str, Any], place: Path) -> bool:
    table = _tables(raw, "workloads")[place[1]]
    kinds: dict[str, type[ExperimentTable]] = {"replay": Replay, "command": Command}
    kind = next((kinds[key] for key in kinds if isinstance(table, dict) and key in table), Job)
    return place[-1] in kind.model_fields


def _tables(raw: Mapping[str, Any], section: str) -> dict[str, Any]:
    tables = raw.get(section, {})
    return tables if isinstance(tables, dict) else {}
