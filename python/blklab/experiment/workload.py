"""A workload table: fio's options, several jobs, a fio job file, a trace to replay, a command."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pydantic

from blklab.fio import known_options, option_values
from blklab.toml_files import fields
from blklab.toml_files.problems import KeyedError


def _portion(value: Any) -> Any:
    """Checks a size that may be a percentage of the stack."""
    if isinstance(value, str) and value.strip().endswith("%"):
        option_values.portion(value)
        return value.strip()
    return fields.quantity(lambda text: option_values.portion(text)[0], "a size such as 8GiB or 50%")(value)


Portion = Annotated[
    int | str,
    pydantic.BeforeValidator(_portion),
    pydantic.WithJsonSchema(
        {"type": ["integer", "string"], "description": "Bytes, a size such as 8GiB, or a percentage of the stack: 50%."}
    ),
]

Percent = Annotated[int, pydantic.Field(ge=0, le=100), fields.NUMBER]

Engine = Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"]

SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""Engines that keep one I/O in flight and ignore `iodepth`."""


RAMP = "ramp"  # The value of `rate` that measures latency against offered load


def _options(table: dict[str, Any]) -> dict[str, Any]:
    for option, value in table.items():
        if option in Job.model_fields:
            raise ValueError(f"{option}: write it in the workload's table, not in options")
        if option not in known_options.OPTIONS | known_options.IGNORED:
            raise ValueError(f"{option}: no such option, or one that blklab does not pass on to fio")
        if option_values.NAMES_FILES.get(option, "\0") in str(value):
            raise ValueError(f"{option}: found {fields.show_value(value)}, expected a value without a file")
        if not str(value).isprintable():
            raise ValueError(f"{option}: found {fields.show_value(value)}, expected printable text")
    return table


CHECKS: dict[str, Callable[[str], object]] = {  # Raise ValueError for an option's value that fio would refuse
    "bs": lambda text: option_values.block_sizes(text, None),
    "bssplit": lambda text: option_values.block_sizes(None, text),
    "random_distribution": option_values.distribution,
    "rate": lambda text: text == RAMP or option_values.rate(text, "rate", sizes=True),
    "rate_iops": lambda text: option_values.rate(text, "rate_iops", sizes=False),
}


FurtherOptions = Annotated[dict[str, bool | int | float | str], pydantic.AfterValidator(_options)]


class Job(fields.ExperimentTable):
    """A group of equal jobs, with fio's options and defaults (fio(1))."""

    rw: str = "read"
    bs: fields.Words | None = None
    bssplit: fields.Words | None = None
    blockalign: fields.Sectors | None = None
    iodepth: fields.Count = 1
    iodepth_batch: fields.Number = 1
    iodepth_batch_complete: fields.Count = 1
    iodepth_low: fields.Number = 0
    numjobs: Annotated[int, pydantic.Field(ge=1, le=4096), fields.NUMBER] = 1
    rwmixread: Percent | None = None
    rwmixwrite: Percent | None = None
    random_distribution: fields.Words = "random"
    size: Portion | None = None
    io_size: Portion | None = None
    offset: Annotated[Portion, pydantic.AfterValidator(fields.whole_sectors)] = 0
    offset_increment: fields.Sectors = 0
    runtime: fields.Seconds | None = None
    time_based: bool = False
    ramp_time: fields.Seconds | None = None
    fsync: fields.Number = 0
    fsync_share: fields.Share = 0.0
    thinktime: fields.Microseconds = 0
    thinktime_blocks: fields.Count = 1
    rate: fields.Words | None = None
    rate_iops: fields.Words | None = None
    p99_below: Annotated[fields.Seconds, pydantic.Field(gt=0)] | None = None
    """With rate = "ramp": the limit of the 99th percentile; blklab searches the highest rate."""
    direct: bool = True
    ioengine: Engine = "libaio"
    options: FurtherOptions = pydantic.Field(default_factory=dict)
    """More options of fio, for runners that have fio."""

    @pydantic.field_validator("rw")
    @classmethod
    def _check_rw(cls, value: str) -> str:
        if value not in option_values.RW:
            allowed_values = ", ".join(option_values.RW)
            raise ValueError(f"found {fields.show_value(value)}, expected one of {allowed_values}")
        return value

    @pydantic.field_validator(*CHECKS)
    @classmethod
    def _is_for_fio(cls, value: str | None, info: pydantic.ValidationInfo) -> str | None:
        if value is not None:
            CHECKS[str(info.field_name)](value)
        return value

    @pydantic.model_validator(mode="after")
    def _together(self) -> "Job":
        if self.bs is not None and self.bssplit is not None:
            raise KeyedError("bssplit", "bs is given as well: use one of the two")
        if self.direct:
            try:
                option_values.check_direct(self.bs, self.bssplit)
            except ValueError as error:
                raise KeyedError("bs" if self.bssplit is None else "bssplit", str(error)) from None
        has_both = self.rwmixread is not None and self.rwmixwrite is not None
        if has_both and (self.rwmixread or 0) + (self.rwmixwrite or 0) != 100:
            raise KeyedError("rwmixwrite", f"{self.rwmixwrite} and rwmixread {self.rwmixread} must add up to 100")
        if self.rate is not None and self.rate_iops is not None:
            raise KeyedError("rate_iops", "rate is given as well: use one of the two")
        if self.p99_below is not None and self.rate != RAMP:
            raise KeyedError("p99_below", f"needs rate = {RAMP!r}")
        if self.blockalign == 0:
            raise KeyedError("blockalign", "found 0, expected at least 512 B")
        return self


class Jobs(fields.ExperimentTable):
    """Several groups of jobs that run at the same time."""

    jobs: Annotated[dict[str, Job], pydantic.Field(min_length=1)]


class JobFile(fields.ExperimentTable):
    """A fio job file: all its jobs, with the options of its global sections."""

    job_file: Annotated[str, pydantic.Field(min_length=1)]


class Replay(fields.ExperimentTable):
    """A trace, whose I/Os are replayed."""

    replay: Annotated[str, pydantic.Field(min_length=1)]
    """The trace: a name, a file or a directory, relative to the experiment file."""

    device: str | None = None  # The trace's device; by default the one through which the whole workload passes
    format: str | None = None  # The trace's format; by default detected from the content
    timing: Literal["closed", "recorded"] = "closed"
    iodepth: fields.Count = 32
    speed: Annotated[float, pydantic.Field(gt=0, le=10**6), fields.NUMBER] = 1.0
    runtime: fields.Seconds | None = None
    ramp_time: fields.Seconds | None = None

    @pydantic.model_validator(mode="after")
    def _together(self) -> "Replay":
        set_keys = self.model_fields_set
        if self.timing == "closed" and "speed" in set_keys:
            raise KeyedError("speed", 'only timing = "recorded" has a speed')
        if self.timing == "recorded" and "iodepth" in set_keys:
            raise KeyedError("iodepth", 'only timing = "closed" has an iodepth')
        return self


class Command(fields.ExperimentTable):
    """A program, whose time and I/O are measured."""

    command: Annotated[list[str], pydantic.Field(min_length=1, max_length=4096)]
    """The program and its arguments; no shell interprets them."""

    directory: str | None = None  # The working directory; by default the target's directory, otherwise one below it
    times: Annotated[int, pydantic.Field(ge=1, le=10_000), fields.NUMBER] = 5
    figure: Annotated[str, pydantic.Field(max_length=500)] | None = None
    """A regular expression with one group: the figure that the program prints itself, such as its transactions a
    second. Of several matches, the last one counts."""

    @pydantic.field_validator("figure")
    @classmethod
    def _one_group(cls, value: str | None) -> str | None:
        try:
            groups = 1 if value is None else re.compile(value).groups
        except re.error as error:
            raise ValueError(f"found {fields.show_value(value)}, expected a regular expression: {error}") from None
        if groups != 1:
            example = "'tps = ([0-9.]+)'"
            raise ValueError(f"found {fields.show_value(value)}, expected one group in parentheses, such as {example}")
        return value

    @pydantic.field_validator("directory")
    @classmethod
    def _below(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith("/") or ".." in value.split("/") or "\0" in value):
            raise ValueError(f"found {fields.show_value(value)}, expected a directory below the target")
        return value

    @pydantic.field_validator("command")
    @classmethod
    def _plain(cls, arguments: list[str]) -> list[str]:
        if not arguments[0] or any("\0" in argument for argument in arguments):
            raise ValueError("expected a program and its arguments")
        return arguments


TAGS = {"jobs": "<jobs>", "job_file": "<job file>", "replay": "<replay>", "command": "<command>"}


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    return next((tag for key, tag in TAGS.items() if key in keys), "<job>")


Workload = Annotated[  # A table below [workloads]
    Annotated[Job, pydantic.Tag("<job>")]
    | Annotated[Jobs, pydantic.Tag("<jobs>")]
    | Annotated[JobFile, pydantic.Tag("<job file>")]
    | Annotated[Replay, pydantic.Tag("<replay>")]
    | Annotated[Command, pydantic.Tag("<command>")],
    pydantic.Discriminator(_kind),
]
