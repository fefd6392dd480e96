"""An experiment: devices, stacks, workloads, settings, where stacks are on a host, and what is varied."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, field_validator, model_validator

from blklab import kernels
from blklab.devices.device import Device, QueueKeys
from blklab.devices.device_parameters import ControllerSpec
from blklab.experiment.placement import Placement
from blklab.experiment.stack import MISSING, Stack
from blklab.experiment.sweep import Sweep
from blklab.experiment.workload import Workload
from blklab.toml_files import fields
from blklab.toml_files.fields import (
    NAME,
    NUMBER,
    ExperimentTable,
    Nanoseconds,
    Seconds,
    Sectors,
    Share,
    Size,
    show_value,
)
from blklab.toml_files.problems import KeyedError

PLACES = ("directory", "filesystem", "device")
"""The places a target can be, exactly one of them: files in a directory, a mounted filesystem, a raw device."""


def _text(is_valid: Callable[[str], object], expectation: str) -> BeforeValidator:
    """Returns a validator for text."""

    def check_text(value: Any) -> str:
        if not isinstance(value, str) or not is_valid(value):
            raise ValueError(f"found {show_value(value)}, expected {expectation}")
        return value

    return BeforeValidator(check_text)


NON_EMPTY = WithJsonSchema({"type": "string", "minLength": 1})
Path = Annotated[str, _text(lambda path: path and "\0" not in path, "a path"), NON_EMPTY]


class Target(ExperimentTable):
    """A stack as it is on this host."""

    directory: Path | None = None  # blklab measures in a file, in a new directory below this one
    filesystem: Path | None = None  # The same, and a filesystem must be mounted there
    device: Path | None = None  # A raw device, without a filesystem
    size: Annotated[Sectors, Field(gt=0)] | None = None  # Bytes of the file; percentages of the stack refer to it
    cache: Size = 0  # Bytes of caches that blklab cannot see, such as a RAID controller's

    @model_validator(mode="after")
    def _one_place(self) -> "Target":
        places = [key for key in PLACES if getattr(self, key) is not None]
        if not places:
            raise ValueError(f"expected one of {', '.join(PLACES)}: where the stack is on this host")
        if len(places) > 1:
            raise KeyedError(places[1], f"{places[0]} is given as well: use one of the two")
        if self.size is not None and self.device is not None:
            raise KeyedError("size", "not allowed with device, which has its own size: remove it, or use directory")
        return self


class Steady(ExperimentTable):
    """Rounds until the workload is steady, as in SNIA's test specification."""

    round: Annotated[Seconds, Field(gt=0)] = 60 * 10**9
    rounds: Annotated[int, Field(ge=3, le=100), NUMBER] = 5  # Number of rounds in the window
    range: Share = 0.2  # Most difference between the largest and the smallest round, over their mean
    slope: Share = 0.1  # Most rise of the fitted straight line in the window, over the mean
    limit: Annotated[Seconds, Field(gt=0)] = 3600 * 10**9  # Time after which blklab measures without a steady state


def _form(value: Any) -> str:
    return "<table>" if isinstance(value, dict | ExperimentTable) else "<word>"


class HostRun(ExperimentTable):
    """How cells are measured on this host."""

    drop_caches: bool = True
    precondition: Literal["none", "fill", "random"] = "none"
    wait: Seconds = 0  # Time to wait before a cell until other programs leave the devices and the CPUs idle

    steady: Annotated[Annotated[bool, Tag("<word>")] | Annotated[Steady, Tag("<table>")], Discriminator(_form)] = False

    @property
    def steadiness(self) -> Steady | None:
        """The steady-state criteria; None if blklab does not wait for a steady state."""
        if isinstance(self.steady, Steady):
            return self.steady
        return Steady() if self.steady else None


_IS_HOST = _text(
    lambda name: name.isprintable() and re.fullmatch(r"(?!-)[^ ]+", name), "HOST, USER@HOST, ssh://… or @INVENTORY"
)
HostName = Annotated[str, _IS_HOST, NON_EMPTY]
_IS_PYTHON = _text(
    lambda path: re.fullmatch(r"(?!-)[\w./+-]+", path, re.A), "the name or the path of Python on the hosts"
)


class Fleet(ExperimentTable):
    """The hosts that are measured at the same time, over ssh."""

    hosts: list[HostName] = Field(default_factory=list)  # As you name them for ssh, or `@INVENTORY:GROUP`

    python: Annotated[str, _IS_PYTHON, WithJsonSchema({"type": "string"})] = "python3"
    """Python 3.11 or newer on the hosts."""

    @field_validator("hosts")
    @classmethod
    def _once(cls, hosts: list[str]) -> list[str]:
        for name in hosts:
            if hosts.count(name) > 1:
                raise ValueError(f"found {show_value(name)} twice")
        return hosts


_IS_STABLE = _text(lambda name: name.strip() and name.isprintable(), "the stable name of a device")
StableId = Annotated[str, _IS_STABLE, NON_EMPTY]
"""A stable name of a device: by-id name, serial, WWN."""


COMMITS = {"ext3": 5 * 10**9, "ext4": 5 * 10**9, "xfs": 30 * 10**9}
"""ns between journal commits: ext4's `commit=5` (ext4(5)); XFS's `fs.xfs.xfssyncd_centisecs`."""

NO_FILESYSTEM: Literal["none"] = "none"

AUTO: Literal["auto"] = "auto"


def _kernel(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f'found {show_value(value)}: write it in quotes, such as "4.19"')
    kernels.parse(value)
    return value


Kernel = Annotated[
    str,
    BeforeValidator(_kernel),
    WithJsonSchema({"type": "string", "description": f"A kernel generation: {kernels.ALLOWED}."}),
]


Names = Annotated[  # Names, or one name
    list[str],
    Field(min_length=1),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


INTERNAL = "internal"  # Value of `journal`: the journal is on the stack itself
JournalPlace = Annotated[str, _text(NAME.fullmatch, "'internal', or the name of a device or a stack"), NON_EMPTY]


class Filesystem(ExperimentTable):
    """A filesystem with the time between its journal's commits, and where its journal is."""

    type: Literal["ext3", "ext4", "xfs"]
    commit: Annotated[Seconds, Field(gt=0)] | None = None
    journal: JournalPlace | None = None
    """`internal`, or the device or stack with the external journal (ext4) or the log (XFS). Then each fsync commits."""


class Host(ExperimentTable):
    """Cores and processor time per I/O; by default those of the simulator's server of 2018."""

    submit_ns: Nanoseconds | None = None
    reap_ns: Nanoseconds | None = None
    wake_ns: Nanoseconds | None = None
    switch_ns: Nanoseconds | None = None
    page_ns: Nanoseconds | None = None
    scsi_ns: Nanoseconds | None = None
    file_write_ns: Nanoseconds | None = None
    md_ns: Nanoseconds | None = None
    member_ns: Nanoseconds | None = None
    pass_ns: Nanoseconds | None = None
    copy_ns: Nanoseconds | None = None
    xor_rate: fields.PerSecond | None = None
    syndrome_rate: fields.PerSecond | None = None
    lock_ns: Nanoseconds | None = None
    atomic_ns: Nanoseconds | None = None
    cores: fields.Number | None = None
    calibrated: str | None = None  # File with a [host] table; keys here replace its own


class Settings(QueueKeys):
    """Defaults for all devices and workloads."""

    kernel: Kernel = "6.1"
    filesystem: Annotated[
        Annotated[Literal["none", "ext3", "ext4", "xfs"], Tag("<word>")] | Annotated[Filesystem, Tag("<table>")],
        Discriminator(_form),
    ] = NO_FILESYSTEM
    placement: Placement | None = None
    """Where the data of jobs lie on rotating disks: on their outermost part, which is the fastest, or spread over all
    of them. By default files of a filesystem are spread, and data of raw devices begin at their outer edge."""

    runtime: Annotated[Seconds, Field(gt=0)] | None = None
    ramp_time: Seconds = 0
    max_ios: Annotated[int, Field(ge=1, lt=2**63), NUMBER] | None = None
    series: Seconds = 0
    latency_ns: Nanoseconds | None = None  # Of throttled devices
    read_ahead: Annotated[int, Field(ge=0, le=4_194_303), NUMBER] | None = None
    """KiB. Acts on buffered reads (`direct = false`)."""

    dirty_bytes: Annotated[Size, Field(ge=1 << 20)] | None = None
    """Acts on buffered writes (`direct = false`), like the next key."""

    dirty_background_bytes: Annotated[Size, Field(ge=1)] | None = None

    host: Host = Host()

    @property
    def filesystem_type(self) -> str | None:
        """The filesystem's type; None without one."""
        kind = getattr(self.filesystem, "type", self.filesystem)
        return None if kind == NO_FILESYSTEM else str(kind)

    @property
    def commit_ns(self) -> int | None:
        """The time between the filesystem's commits, ns; None without one."""
        match self.filesystem:
            case Filesystem(type=kind, commit=commit):
                return commit or COMMITS[kind]
            case kind:
                return COMMITS.get(kind)

    @property
    def journal(self) -> str | None:
        """Where the journal is: a device or a stack, or `internal`. None if the experiment does not say it."""
        return self.filesystem.journal if isinstance(self.filesystem, Filesystem) else None

    @property
    def external_journal(self) -> str | None:
        """The device or stack that has the journal; None if the journal is on the stack itself."""
        return None if self.journal == INTERNAL else self.journal


class Lab(ExperimentTable):
    """The guest that the lab boots, and how its devices' rates are scaled."""

    scale: Annotated[
        float | Literal["auto"],
        BeforeValidator(lambda value: float(value) if isinstance(value, str) and value != AUTO else value),
        WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1}, {"const": AUTO}]}),
    ] = AUTO
    """Divisor of all rates; `auto` brings them within the reach of emulation."""

    cpus: Annotated[int, Field(ge=1, le=64), NUMBER] = 2
    memory: Annotated[Size, Field(ge=512 << 20, le=1 << 40)] = 1 << 30

    @field_validator("scale")
    @classmethod
    def _at_least_one(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not 1 <= value <= 1e9:
            raise ValueError(f"found {value:g}, expected 1 or more, or 'auto'")
        return value


class CellPairs(ExperimentTable):
    """Stacks that run with workloads, each with each."""

    stack: Names
    workload: Names


class MeasuredFigures(ExperimentTable):
    """What was measured for a cell elsewhere, such as in an article: it is compared with the prediction."""

    cell: dict[str, int | str]  # Labels, such as stack and workload; it may leave out those that do not matter
    read_iops: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    write_iops: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    read_mean_ns: Nanoseconds | None = None  # The mean latency
    write_mean_ns: Nanoseconds | None = None
    device_ios: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """The I/Os that each device served; only their shares matter."""

    fitted: bool = False  # Whether the models of the devices were fitted to it: then it is no test of the prediction
    doubts: list[str] = Field(default_factory=list)  # Why the measurement may differ from what is simulated
    source: str = ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether it is of the cell with these labels."""
        return all(labels.get(label) == str(value) for label, value in self.cell.items())

    @model_validator(mode="after")
    def _has_figures(self) -> "MeasuredFigures":
        if not self.read_iops + self.write_iops:
            raise ValueError("found neither read_iops nor write_iops: expected one of them")
        return self


class Experiment(ExperimentTable):
    """A complete experiment file, with stock models, calibrated files and job files read."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63), NUMBER] = 1
    repeats: Annotated[int, Field(ge=1, le=10_000), NUMBER] = 1
    order: Literal["interleaved", "random"] = "interleaved"
    """Order of the cells in each repeat on a host and in the lab: as numbered, or shuffled by
    the seed. All cells are measured once before one is measured again.
    """

    destroy: list[StableId] = Field(default_factory=list)  # Devices of this host that may be written to
    devices: dict[str, Device] = Field(default_factory=dict)
    controllers: dict[str, ControllerSpec] = Field(default_factory=dict)  # What several devices share
    stacks: dict[str, Stack] = Field(default_factory=dict)
    targets: dict[str, Target] = Field(default_factory=dict)
    workloads: Annotated[dict[str, Workload], Field(min_length=1)]
    settings: Settings = Settings()
    host: HostRun = HostRun()
    fleet: Fleet = Fleet()
    lab: Lab = Lab()
    cells: list[CellPairs] = Field(default_factory=list)  # What to run; by default each stack with each workload
    measured: list[MeasuredFigures] = Field(default_factory=list)
    sweep: Sweep = Field(default_factory=dict)
    matrix: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)

    @field_validator("devices", "controllers", "stacks", "targets")
    @classmethod
    def _names(cls, tables: dict[str, Any]) -> dict[str, Any]:
        for name in tables:
            if NAME.fullmatch(name) is None or name == MISSING:
                raise ValueError(f"invalid name {show_value(name)}: use letters, digits, _ and -, but not 'missing'")
        return tables
