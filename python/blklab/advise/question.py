"""What advice is asked for: disks, loads and constraints.

Loads are traces, fio job files, workloads of an experiment, and published mixes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from blklab.devices import stock_models, typed_disks
from blklab.devices.stock_models import SAME_CAPACITY
from blklab.errors import UsageError
from blklab.experiment import cell_form, fio_job, load
from blklab.md.reliability import Care
from blklab.toml_files import problems
from blklab.toml_files.fields import NAME
from blklab.toml_files.files import read_toml
from blklab.units import format_size, parse_size

Table = Mapping[str, object]
"""A table of an experiment file."""

MAX_DISKS = 64

FLASH = ("ssd", "nvme")  # Kinds of devices whose figures depend on how much was written to them


@dataclass(frozen=True)
class DiskPool:
    name: str  # The model's name, without what a device's name cannot have
    count: int
    table: Table  # A disk, as in an experiment file
    kind: str
    bytes: int  # Of each
    price: float | None = None  # Of each
    guess: str = ""  # Why the disk has this model, if that is a guess

    def disk(self, number: int) -> str:
        """Returns the name of a disk; numbers begin at 1."""
        return f"{self.name}-{number}"


@dataclass(frozen=True)
class Constraints:
    """What an arrangement must be."""

    capacity: int = 0  # Bytes
    failures: int = 1  # Disks that can fail without data loss
    drives: int | None = None  # Most disks
    budget: float | None = None
    p99_ns: int | None = None  # The largest 99th percentile
    excluded_kinds: Sequence[str] = ()  # Levels and kinds, as in an experiment file: `5`, `bcache`
    loss: float | None = None  # The largest probability of losing data within YEARS
    comparisons: Sequence[
        Sequence[str]
    ] = ()  # What to show in any case, each with its levels, layouts, kinds: `10`, `f2`


@dataclass(frozen=True)
class Load:
    """A workload and its weight."""

    name: str
    table: Table  # As in an experiment file
    source: str  # Where it comes from, for people
    weight: float = 1.0
    timed: bool = False  # Whether I/Os arrive at their own times, as in a trace
    ios: int | None = None  # I/Os of a trace, or of the longest simulation of a load with a rate
    span: int = 0  # Bytes that it needs; 0 if it adapts to the array
    rate: float | None = None  # I/Os per second of jobs with a limit; None for other loads
    peak: float | None = None  # The highest rate that was measured, over `rate`
    is_cold: bool = False  # Whether its data are in no cache at first
    needs_room: bool = False  # Whether it reads or writes long streams of much data, which rotating disks serve
    background_ios: int = 0
    """I/Os of a trace for which no program waits, and whose latencies do not count; 0 if all latencies count."""

    assumption: str = ""  # What the answer assumes about it, with the source
    amount: float = 0.0  # Of its units, such as virtual machines; 0 without units
    units: str = ""  # What several of them are called
    grows: bool = False  # Whether its data grow with its units

    @property
    def is_paced(self) -> bool:
        """Whether its I/Os arrive at a rate of its own, and not as fast as the disks allow."""
        return self.timed or self.rate is not None


@dataclass(frozen=True)
class Question:
    """Everything that the answer depends on."""

    pools: Sequence[DiskPool]
    loads: Sequence[Load]
    constraints: Constraints
    settings: Table = field(default_factory=dict)  # As in an experiment file: kernel, filesystem
    growth: float = 1.0  # How many times today's load to plan for
    largest_first: bool = False  # Whether the largest arrangement that serves the loads is advised, and not the fastest
    seed: int = 1
    care: Care = field(default_factory=Care)  # What the owner does about failed disks
    directory: Path = Path()  # To which paths in tables are relative

    @property
    def disks(self) -> dict[str, DiskPool]:
        """The pool of each disk, by the disk's name."""
        return {pool.disk(number): pool for pool in self.pools for number in range(1, pool.count + 1)}

    @property
    def cheapest_first(self) -> bool:
        """Whether the cheapest arrangement is advised, and not the fastest."""
        return self.constraints.p99_ns is not None and self.priced

    @property
    def priced(self) -> bool:
        return all(pool.price is not None for pool in self.pools)


def read_pools(texts: Sequence[str], prices: Mapping[str, float], flash_state: str) -> list[DiskPool]:
    """Returns the disks of `2xpm983,4xhdd-7200`; a name with a `/` or `.toml` is a calibrated file.

    `flash_state` is the state of flash disks, as in an experiment file. Raises UsageError.
    """
    pools: list[DiskPool] = []
    for text in typed_disks.split_list(texts) or [""]:
        pool = read_pool(text, flash_state, prices)
        for number, other in enumerate(pools):
            if dict(other.table) == dict(pool.table):
                pools[number] = replace(other, count=other.count + pool.count)
                break
        else:
            pools.append(pool)
    if sum(pool.count for pool in pools) > MAX_DISKS:
        raise UsageError(f"--devices: more than {MAX_DISKS} disks")
    return _give_distinct_names(pools)


def _give_distinct_names(pools: Sequence[DiskPool]) -> list[DiskPool]:
    """Returns pools; those of one model have their size behind the name: `hdd-7200-6tb`."""
    names = [pool.name for pool in pools]
    named: dict[str, DiskPool] = {}
    for pool in pools:
        name = pool.name
        if names.count(name) > 1:
            gigabytes = round(pool.bytes / 1e9)
            size = f"{gigabytes // 1000}tb" if gigabytes % 1000 == 0 else f"{gigabytes}gb"
            name = f"{name}-{size}"
        name = _unused_name(name, named)
        named[name] = replace(pool, name=name)
    return list(named.values())


def merge_pools(host_pools: Sequence[DiskPool], other_pools: Sequence[DiskPool]) -> list[DiskPool]:
    """Returns the disks of this host, which come first in each pool, and others. Raises UsageError."""
    pools = {pool.name: pool for pool in host_pools}
    for pool in other_pools:
        equal = next((other for other in host_pools if _are_alike(other, pool)), None)
        if equal is not None:
            pools[equal.name] = replace(pools[equal.name], count=pools[equal.name].count + pool.count)
            continue
        name = _unused_name(pool.name, pools)
        pools[name] = replace(pool, name=name)
    if sum(pool.count for pool in pools.values()) > MAX_DISKS:
        raise UsageError(f"--devices: more than {MAX_DISKS} disks with those of this host")
    return list(pools.values())


def _unused_name(name: str, pools: Mapping[str, DiskPool]) -> str:
    """Returns a name that no pool has: with a number if one has it."""
    number = 1
    unused = name
    while unused in pools:
        number += 1
        unused = f"{name}-{number}"
    return unused


def _are_alike(host_pool: DiskPool, pool: DiskPool) -> bool:
    """Returns whether disks that a user wrote are like those of this host: `8TB` is 8.0016 × 10¹² bytes there."""
    model = pool.table.get("model")
    size_ratio = pool.bytes / max(1, host_pool.bytes)
    return model is not None and model == host_pool.table.get("model") and abs(size_ratio - 1) <= SAME_CAPACITY


def check_prices(prices: Mapping[str, float], pools: Sequence[DiskPool]) -> None:
    """Raises UsageError for a price of no disk, and for disks without a price if others have one."""
    names = {pool.name for pool in pools} | {str(pool.table.get("model", pool.name)) for pool in pools}
    if unknown := [name for name in prices if name not in names]:
        raise UsageError(f"--price: no disk {unknown[0]!r}; {problems.near(unknown[0], sorted(names))}")
    if prices and (free := [pool.name for pool in pools if pool.price is None]):
        raise UsageError(f"--price: none for {free[0]!r}: give the price of each disk, 0 for those that you have")


def read_pool(
    text: str, flash_state: str, prices: Mapping[str, float] = MappingProxyType({}), option: str = "--devices"
) -> DiskPool:
    """Returns the equal disks of `4xhdd-7200`; errors name the option. Raises UsageError."""
    count, rest = typed_disks.split_count(text)
    file_name, size = typed_disks.split_size(rest)
    guess = ""
    try:
        if typed_disks.is_file(file_name):
            path = Path(file_name).expanduser().resolve()
            parameters = load.read_calibrated(path)
            table: dict[str, object] = {"calibrated": str(path)}
            model = file_name
            name = path.stem
            used_bytes = typed_disks.parse_disk_size(size) if size else None
        else:
            disks = typed_disks.find_disks(text, option)
            model = disks.model.name
            name = model
            table = {"model": model}
            if disks.capacity is not None:
                table["capacity"] = str(disks.capacity)
            parameters = stock_models.stock(model, table)
            used_bytes = disks.bytes
            guess = disks.guess
        bytes_of_each = used_bytes or _size(parameters)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from None
    kind = str(parameters["kind"])
    table["size"] = str(bytes_of_each)
    if kind in FLASH and "state" not in parameters:
        table |= lasting_state(flash_state)
    price = prices.get(model, prices.get(name))
    name = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    if not NAME.fullmatch(name):
        raise UsageError(f"{option} {text!r}: {name!r} is no name of a device")
    return DiskPool(name, count, table, kind, bytes_of_each, price, guess)


def lasting_state(flash_state: str) -> dict[str, str]:
    """Returns the keys of a flash disk under a load that goes on for days: its cache of single-bit cells is full."""
    return {"state": flash_state, "slc_fill": "100%"} if flash_state == "used" else {"state": flash_state}


def _size(parameters: Table) -> int:
    size = parameters.get("size", parameters.get("capacity"))
    if size is None:
        raise ValueError("the model has no capacity: add a size, such as aws-gp3:500GiB")
    return parse_size(str(size))


MIXES = Path(__file__).parent / "mixes"


def split_weight(text: str) -> tuple[str, float]:
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


def load_of_mix(text: str, working_set: int) -> Load:
    """Returns a published mix over a working set of some bytes. Raises UsageError."""
    name, weight = split_weight(text)
    if name not in mixes():
        raise UsageError(f"--load {name!r}: no such mix; {problems.near(name, mixes())}")
    document = read_toml(MIXES / f"{name}.toml")
    table = {**document["workload"], "size": str(working_set)}
    about = f"{document['title']}, {table['iodepth']} in flight, on {format_size(working_set)}"
    source = f"{about} ({document['source']})"
    return Load(name, table, source, weight, span=working_set, needs_room=document.get("needs_room", False))


def load_of_trace(text: str, device: str | None, number: int, *, waited_only: bool = False) -> Load:
    """Returns a trace, at its recorded times. Raises UsageError or BlklabError.

    With `waited_only`, latencies are those of I/Os for which a program waits, if there are any.
    """
    name, weight = split_weight(text)
    path = Path(name).expanduser().resolve()
    trace, background_ios = cell_form.read_replay(path, None, device)
    table = {"replay": str(path), "device": trace.name if device is None else device, "timing": "recorded"}
    about = f"the trace {name}, device {trace.name}"
    if not waited_only or background_ios == trace.ios:
        background_ios = 0
    return Load(
        f"trace{number}", table, about, weight, timed=True, ios=trace.ios, span=trace.end, background_ios=background_ios
    )


def loads_of_job_file(text: str) -> list[Load]:
    """Returns the jobs of a fio job file. Raises UsageError."""
    name, weight = split_weight(text)
    path = Path(name)
    groups, _ = fio_job.read(path)
    size = len(groups)
    label = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in path.stem) or "job"
    return [
        Load(label if size == 1 else f"{label}-{number}", {"jobs": jobs}, f"the job file {name}", weight / size)
        for number, (_, jobs) in enumerate(groups, 1)
    ]


def loads_of_experiment(text: str) -> list[Load]:
    """Returns the workloads of an experiment file. Raises UsageError."""
    name, weight = split_weight(text)
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


def distinct_loads(loads: Sequence[Load]) -> list[Load]:
    """Returns loads; raises UsageError if two have the same name."""
    names = [load.name for load in loads]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two loads are called {twice!r}: give one, with the amount or the weight of both")
    return list(loads)
