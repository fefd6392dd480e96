"""Where a stack is on this host, and how it is measured there: [targets.NAME] and [host]."""

from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from blklab.spec.fields import NUMBER, SECTOR, ExperimentTable, Seconds, Share, Size, shown
from blklab.spec.stack import KeyedError

PLACES: Final = ("directory", "filesystem", "device")
"""What a target is, one of them: files in a directory, a mounted filesystem, a raw device."""


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"found {shown(value)}, a path is wanted")
    return value


def _stable(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"found {shown(value)}, the stable name of a device is wanted")
    return value


Path = Annotated[str, BeforeValidator(_path), WithJsonSchema({"type": "string", "minLength": 1})]


class Target(ExperimentTable):
    """A stack as it is on this host."""

    directory: Path | None = None
    """Measured in a file that blklab makes in a directory of its own below it."""

    filesystem: Path | None = None
    """The same, and it must be where a filesystem is mounted."""

    device: Path | None = None
    """Measured as it is, without a filesystem."""

    size: Annotated[Size, Field(gt=0)] | None = None
    """Bytes of the file; what percentages of the stack are of."""

    cache: Size = 0
    """Bytes of caches that blklab cannot see: a RAID controller's."""

    @field_validator("size")
    @classmethod
    def _whole_sectors(cls, value: int | None) -> int | None:
        if value is not None and value % SECTOR:
            raise ValueError(f"{value} B is no multiple of 512 B, a sector")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> "Target":
        given = [key for key in PLACES if getattr(self, key) is not None]
        if not given:
            raise ValueError(f"one of {', '.join(PLACES)} is wanted: where it is on this host")
        if len(given) > 1:
            raise KeyedError(given[1], f"{given[0]} is given as well: one of the two is allowed")
        if self.size is not None and self.device is not None:
            raise KeyedError("size", "a device has the size that it has: directory can have one")
        return self


class Steady(ExperimentTable):
    """Rounds of the workload until it is steady, as SNIA's test specification defines that."""

    round: Annotated[Seconds, Field(gt=0)] = 60 * 10**9
    rounds: Annotated[int, Field(ge=3, le=100), NUMBER] = 5
    """Rounds that are looked at."""

    range: Share = 0.2
    """Largest less smallest of them, over their mean, at most."""

    slope: Share = 0.1
    """Rise of the straight line through them, over their mean, at most."""

    limit: Annotated[Seconds, Field(gt=0)] = 3600 * 10**9
    """When to give up and measure all the same."""


def _steady(value: Any) -> str:
    return "<table>" if isinstance(value, dict | Steady) else "<switch>"


class HostRun(ExperimentTable):
    """How cells are measured on this host."""

    drop_caches: bool = True
    precondition: Literal["none", "fill", "random"] = "none"
    steady: Annotated[
        Annotated[bool, Tag("<switch>")] | Annotated[Steady, Tag("<table>")],
        Discriminator(_steady),
    ] = False

    @property
    def steadiness(self) -> Steady | None:
        """How steadiness is found; None if it is not waited for."""
        if isinstance(self.steady, Steady):
            return self.steady
        return Steady() if self.steady else None


StableId = Annotated[
    str, BeforeValidator(_stable), WithJsonSchema({"type": "string", "minLength": 1})
]
"""What a device is called wherever it is plugged in: by-id name, serial, WWN."""
