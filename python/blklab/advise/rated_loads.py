"""Loads that are said in units of their application: twelve virtual machines, 800 transactions per second.

Each model is a file in `loads`, with figures of published traces or measurements: the rate of a unit, what it reads and
writes, how much data it uses, and how far units differ. A load is jobs with a limit of their rate.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from blklab.advise.question import Load, Table, load_of_mix, mixes, split_weight
from blklab.errors import UsageError
from blklab.fio import option_values
from blklab.render import formatting
from blklab.toml_files import problems
from blklab.toml_files.files import read_toml
from blklab.units import format_size

MODELS = Path(__file__).parent / "loads"
AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z][A-Za-z/ ]*)?")
MAX_AMOUNT = 1_000_000
MAX_JOBS = 16  # Jobs that stand for the units; of more units, each job stands for several
LEAST_VARIATION = 0.1  # Of the rates of jobs: equal ones would submit in step
NINE_OF_TEN = NormalDist().inv_cdf(0.95)
SECONDS = 60  # That a simulation of such a load takes, in its own time
ENOUGH_IOS = 2_048  # If the rate is so low that this takes longer, it takes up to
MAX_SECONDS = 600  # so many: a rebuild that is simulated for longer has too many I/Os
LEAST_IOS = 64
RUNTIME = "30s"  # Of jobs that go on until the simulation or the measurement ends
DEFAULT_WORKING_SET = 8 << 30  # Bytes that a load uses if its source does not say it
BLOCK = 4096
UNPUBLISHED = ("build", "files", "mail", "web")  # Loads that people ask for, and of which no source says enough


@dataclass(frozen=True)
class UnitFigure:
    """A figure of one unit, and the range of nine of ten units; both ends are None if one figure is known."""

    typical: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class LoadModel:
    name: str
    title: str
    unit: Sequence[str]  # One, and several
    typed_units: Sequence[str]  # As users type them behind the amount; the first is for examples
    source: str
    assumed: str  # What the source does not say
    rate: UnitFigure | None  # I/Os per second of a unit
    bit_rate: UnitFigure | None  # Bits per second of a unit, of loads that are streams
    variation: float  # Of the rates of units: the standard deviation over the mean
    working_set: UnitFigure | None  # Bytes of a unit; None if it is not known
    workload: Table  # As in an experiment file, without rate and size
    is_cold: bool  # Whether its data are in no cache
    needs_room: bool  # Whether it reads or writes long streams of much data
    grows: bool  # Whether its data grow with its units: not those of a library of films

    def ios_per_second(self) -> float:
        """Returns the I/Os per second of one unit."""
        if self.bit_rate is None:
            return self.rate.typical if self.rate else 0.0
        reads, writes = mean_sizes(self.workload)
        share = read_share(self.workload)
        # A stream of a camera are its writes, one of a film its reads; other I/Os come on top.
        streamed = share * reads if share == 1 else (1 - share) * writes
        return self.bit_rate.typical / 8 / streamed


def models() -> list[str]:
    """Returns the names of the loads that have units."""
    return sorted(path.stem for path in MODELS.glob("*.toml"))


def read_model(name: str) -> LoadModel:
    document = read_toml(MODELS / f"{name}.toml")
    rate = dict(document.get("rate", {}))
    variation = rate.pop("variation", 0.0)
    return LoadModel(
        name,
        document["title"],
        document["unit"],
        document["typed_units"],
        document["source"],
        document["assumed"],
        UnitFigure(**rate) if rate else None,
        UnitFigure(**document["bit_rate"]) if "bit_rate" in document else None,
        variation,
        UnitFigure(**document["working_set"]) if "working_set" in document else None,
        document["workload"],
        document.get("cold", False),
        document.get("needs_room", False),
        document.get("grows", False),
    )


def load_of_name(text: str, working_set: int | None) -> Load:
    """Returns the load of `vm:12`, `vm:12=2`, `postgresql:800tps` or `database=3`.

    `working_set` is what the user says, bytes. Raises UsageError.
    """
    typed, weight = split_weight(text)
    name, colon, amount_text = typed.partition(":")
    if name in mixes():
        if colon:
            raise UsageError(
                f"--load {typed!r}: {name} runs as fast as the disks allow and has no amount: expected {name}, "
                f"or one of {_examples()}"
            )
        return load_of_mix(text, working_set or DEFAULT_WORKING_SET)
    if name in UNPUBLISHED:
        raise UsageError(
            f"--load {typed!r}: no published measurement has the rate, sizes and directions of {name}: "
            "record a trace for --trace, or give the output of `iostat -x` with --load-from"
        )
    if name not in models():
        names = sorted([*mixes(), *models()])
        raise UsageError(f"--load {typed!r}: no such load; {problems.near(name, names)}")
    model = read_model(name)
    amount = _parse_amount(typed, model, amount_text) if colon else 1.0
    return _load_of_model(model, amount, weight, working_set)


def _examples() -> str:
    return problems.listing([f"{name}:12{read_model(name).typed_units[0]}" for name in models()])


def _parse_amount(typed: str, model: LoadModel, text: str) -> float:
    example = f"{model.name}:12{model.typed_units[0]}"
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--load {typed!r}: expected an amount of {model.unit[1]}, such as {example}")
    unit = (match[2] or "").strip().lower()
    if unit and unit not in model.typed_units:
        raise UsageError(f"--load {typed!r}: {model.name} is counted in {model.unit[1]}: expected {example}")
    amount = float(match[1])
    if not 0 < amount <= MAX_AMOUNT:
        raise UsageError(f"--load {typed!r}: expected an amount above 0, at most {MAX_AMOUNT:,}")
    return amount


def _load_of_model(model: LoadModel, amount: float, weight: float, working_set: int | None) -> Load:
    rate = model.ios_per_second() * amount
    of_unit = model.working_set
    span = working_set or (math.ceil(of_unit.typical * amount) if of_unit else DEFAULT_WORKING_SET)
    span = -(-span // BLOCK) * BLOCK
    table = rated_jobs(model.workload, rate, span, amount, model.variation)
    about = f"{_count(model, amount)} ({model.title}), on {format_size(span)}"
    return Load(
        model.name,
        table,
        about,
        weight,
        ios=simulated_ios(rate),
        span=span,
        rate=rate,
        is_cold=model.is_cold,
        needs_room=model.needs_room,
        assumption=_assumption(model, amount, rate, span, is_typed=working_set is not None),
        amount=amount,
        units=model.unit[1],
        grows=model.grows,
    )


def simulated_ios(rate: float) -> int:
    """Returns the I/Os of the longest simulation of a load with this rate, in I/Os per second."""
    return max(LEAST_IOS, math.ceil(rate * SECONDS), min(ENOUGH_IOS, math.ceil(rate * MAX_SECONDS)))


def _count(model: LoadModel, amount: float) -> str:
    one, several = model.unit
    unit = one if amount == 1 else several
    return f"{amount:,g} {unit}"


def _assumption(model: LoadModel, amount: float, rate: float, span: int, *, is_typed: bool) -> str:
    """Returns what the answer assumes about this load, and where it comes from."""
    count = _count(model, amount)
    if model.bit_rate is not None:
        rates = f"{count} with {_bit_rate(model.bit_rate.typical)} each"
        if model.bit_rate.low is not None and model.bit_rate.high is not None:
            rates += f" (from {_bit_rate(model.bit_rate.low)} to {_bit_rate(model.bit_rate.high)})"
    else:
        rates = f"{count} with {formatting.number(rate)} I/Os per second"
        rates += _range_of_sum(model, amount, rate)
    if is_typed:
        data = f"{format_size(span)} of data"
    elif model.working_set is None:
        data = f"{format_size(span)} of data, which the source does not say"
    else:
        data = f"{format_size(span)} of data"
        if model.working_set.low is not None and model.working_set.high is not None:
            low, high = (format_size(size) for size in (model.working_set.low, model.working_set.high))
            data += f" ({format_size(model.working_set.typical)} each; nine of ten use {low} to {high})"
    return f"{rates}, on {data}; {model.assumed}. Source: {model.source}"


def _bit_rate(bits_per_second: float) -> str:
    return f"{bits_per_second / 1e6:.3g} Mbit/s"


def _range_of_sum(model: LoadModel, amount: float, rate: float) -> str:
    """Returns the range of nine of ten sums of so many units, which are independent of each other."""
    if not model.variation or model.rate is None or model.rate.low is None or model.rate.high is None:
        return ""
    units = f"nine of ten {model.unit[1]} have {model.rate.low:g} to {model.rate.high:g}"
    if amount <= 1:
        return f" ({units})"
    deviation = math.sqrt(math.log1p(model.variation**2 / amount))
    low, high = (rate * math.exp(sign * NINE_OF_TEN * deviation - deviation**2 / 2) for sign in (-1, 1))
    sums = f"nine of ten such groups {formatting.number(low)} to {formatting.number(high)}"
    return f" ({sums}; {units})"


def rated_jobs(
    workload: Mapping[str, Any], rate: float, span: int, amount: float = MAX_JOBS, variation: float = 0.0
) -> dict[str, object]:
    """Returns jobs that together do `rate` I/Os per second on `span` bytes, as a workload of an experiment file.

    Their rates differ as those of the units. Each has a region of its own, as virtual machines and streams have.
    """
    count = max(1, min(MAX_JOBS, math.ceil(amount)))
    # The mean of several units varies less than one unit.
    deviation = math.sqrt(math.log1p(max(variation * math.sqrt(count / max(amount, count)), LEAST_VARIATION) ** 2))
    factors = [math.exp(deviation * NormalDist().inv_cdf((number + 0.5) / count)) for number in range(count)]
    region = span // count // BLOCK * BLOCK
    jobs = {}
    for number, factor in enumerate(factors):
        jobs[f"job{number + 1}"] = {
            **workload,
            "size": str(region),
            "offset": str(number * region),
            "rate": byte_limit(workload, rate * factor / sum(factors)),
            "time_based": True,
            "runtime": RUNTIME,
        }
    return {"jobs": jobs}


def byte_limit(workload: Mapping[str, Any], rate: float) -> str:
    """Returns `rate` of a job with `rate` I/Os per second in all.

    fio limits the bytes per second of each direction; the mix keeps one of them below its limit.
    """
    reads, writes = mean_sizes(workload)
    share = read_share(workload)
    return str(max(1, round(rate * max(share * reads, (1 - share) * writes))))


def mean_sizes(workload: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the mean bytes of reads and of writes."""
    reads, writes = option_values.block_sizes(workload.get("bs"), workload.get("bssplit"))
    return _mean(reads), _mean(writes)


def _mean(sizes: option_values.Sizes) -> float:
    return sum(size * share for size, share in sizes)


def read_share(workload: Mapping[str, Any]) -> float:
    reads, writes, _ = option_values.RW[str(workload["rw"])]
    if not (reads and writes):
        return 1.0 if reads else 0.0
    return float(workload["rwmixread"]) / 100


def grow_jobs(load: Load, growth: float) -> Table:
    """Returns the workload of a load with `growth` times its rate; other loads as they are."""
    if load.rate is None or growth == 1:
        return load.table
    jobs: Any = load.table["jobs"]
    grown = {}
    for name, job in jobs.items():
        grown[name] = {**job, "rate": str(max(1, round(int(job["rate"]) * growth)))}
    return {**load.table, "jobs": grown}
