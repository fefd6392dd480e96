"""The kinds of values in an experiment file: sizes, durations, names, as pydantic types."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from blklab import units
from blklab.units import SECTOR

LARGEST = 2**63 - 1  # Bytes; sizes are 64-bit numbers in the simulator and signed numbers in JSON readers
EXACT = 2**53  # Largest whole number that is exact as a floating-point number; the simulator divides by it
HOUR = 3600 * 10**9  # ns; longer than anything a disk or host does
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*", re.A)
"""Valid names of devices and stacks: such a name is part of `near.chunk` in a matrix."""

BARE = re.compile(r"\s*\d{1,20}(\.\d{1,20})?\s*", re.A)  # A number without a unit


class ExperimentTable(BaseModel):
    """Base of every table of an experiment file: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def quantity(parse: Callable[[str], int], expectation: str) -> Callable[[Any], int]:
    """Returns a validator for a number, or text that one of the parsers of blklab.units reads."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"found {show_value(value)}, expected {expectation}")
        if isinstance(value, float):
            if not value.is_integer():
                raise ValueError(f"found {value}, expected {expectation}: write it in quotes with a unit")
            value = int(value)
        amount = value if isinstance(value, int) else parse(value)
        if not 0 <= amount <= LARGEST:
            raise ValueError(f"{value} is out of range: expected 0 to 2^63 - 1")
        return amount

    return read


def show_value(value: Any) -> str:
    """Returns a short form of a value for a message."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "a table"
        case list():
            return "a list"
        case str():
            return repr(value if len(value) <= 40 else value[:40] + "…")
        case _:
            text = str(value)
            return text if len(text) <= 40 else text[:40] + "…"


def seconds(value: Any) -> int:
    """Returns ns of a duration; a bare number is seconds, as fio's `runtime`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    return quantity(units.parse_duration, "a duration such as 60s")(value)


def duration_in(unit: str, example: str) -> Callable[[Any], int]:
    """Returns a validator for a duration in ns; a bare number, also as text, has this unit."""

    def read(value: Any) -> int:
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if is_count or (isinstance(value, str) and BARE.fullmatch(value)):
            value = f"{value}{unit}"
        return quantity(units.parse_duration, f"a duration such as {example}")(value)

    return read


def milliseconds(value: Any) -> int:
    """Returns ns of whole milliseconds, which a number is."""
    duration = duration_in("ms", "5ms")(value)
    if duration % 10**6:
        raise ValueError(f"found {show_value(value)}, expected whole milliseconds such as 5ms")
    return duration


def accept_number(value: Any) -> Any:
    """Accepts a number where fio expects text: `bs = 4096`."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _schema(description: str, kinds: tuple[str, ...] = ("integer", "string")) -> WithJsonSchema:
    return WithJsonSchema({"type": list(kinds), "description": description})


Size = Annotated[  # Bytes
    int,
    BeforeValidator(quantity(units.parse_size, "a size such as 10GiB")),
    _schema("Bytes, or a size in powers of 1024: 512, 4k, 10GiB."),
]

Seconds = Annotated[  # ns, typed as a duration or a number of seconds
    int,
    BeforeValidator(seconds),
    _schema("A duration: 60s, 200ms, 1h; a number is seconds.", ("integer", "number", "string")),
]

Microseconds = Annotated[  # ns, typed as a duration or a number of microseconds
    int, BeforeValidator(duration_in("us", "100us")), _schema("A duration: 100us, 2ms; a number is microseconds.")
]

Milliseconds = Annotated[  # ns, typed as a duration or a number of milliseconds
    int,
    BeforeValidator(milliseconds),
    Field(ge=0, le=HOUR),
    _schema("A duration of whole milliseconds: 5ms, 1s; a number is milliseconds."),
]

Words = Annotated[str, BeforeValidator(accept_number), _schema("""Text, as fio reads it.""")]  # Text; a number will do


def whole_sectors(value: Any) -> Any:
    """Refuses bytes that are not a multiple of the sector size; text and None are not checked."""
    if isinstance(value, int) and value % SECTOR:
        raise ValueError(f"found {value} B, expected a multiple of the sector size, {SECTOR} B")
    return value


Sectors = Annotated[Size, AfterValidator(whole_sectors)]  # Bytes of whole sectors


def no_truth(value: Any) -> Any:
    """Refuses true and false, which Python accepts as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"found {show_value(value)}, expected a number")
    return value


NUMBER = BeforeValidator(no_truth)  # Goes before the bounds of every number
Count = Annotated[int, Field(ge=1, lt=2**32), NUMBER]  # A count, at least one
Number = Annotated[int, Field(ge=0, lt=2**32), NUMBER]  # A count, which can be 0

Nanoseconds = Annotated[  # ns, in keys that end in `_ns`, typed as a number or a duration: an hour at most
    int,
    Field(ge=0, le=HOUR),
    BeforeValidator(duration_in("ns", "300us")),
    _schema("A duration: 300us, 1ms; a number is nanoseconds."),
]

PerSecond = Annotated[int, Field(gt=0, le=EXACT), NUMBER]  # Bytes per second


def _throttle(value: float) -> float:
    if value and not 1e-3 <= value <= 1e12:
        raise ValueError(f"found {value:g}, expected 0, or 0.001 to 1e12 a second")
    return value


Rate = Annotated[float, Field(ge=0), AfterValidator(_throttle), NUMBER]  # Per second; 0 is unlimited
Share = Annotated[float, Field(ge=0, le=1), NUMBER]  # 0 to 1


CONDITIONS = {"used": 0.5, "fresh": 0.0, "unwritten": 0.0, "worn": 0.5}
"""States of a flash disk that say nothing of how full it is, and how full the disk is then in the simulator."""


def fill_share(state: str) -> float:
    """Returns the share in `full:80%` or `80%`; `steady` is all."""
    shares = {**CONDITIONS, "steady": 1.0}
    return shares[state] if state in shares else int(state.removeprefix("full:")[:-1]) / 100


Percent = Annotated[str, Field(pattern=r"^([1-9]?[0-9]|100)%$"), PlainSerializer(fill_share)]
FlashState = Annotated[
    str, Field(pattern=rf"^({'|'.join(CONDITIONS)}|steady|full:([1-9][0-9]?|100)%)$"), PlainSerializer(fill_share)
]
