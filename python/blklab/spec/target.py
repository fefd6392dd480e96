"""Where a stack is on this host, and how it is measured there: [targets.NAME] and [host]."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, field_validator, model_validator

from blklab.spec.fields import NUMBER, ExperimentTable, Seconds, Sectors, Share, Size, shown
from blklab.spec.stack import KeyedError

PLACES = ("directory", "filesystem", "device")
"""The places a target can be, exactly one of them: files in a directory, a mounted filesystem, a raw device."""


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"found {shown(value)}, expected a path")
    return value


def _stable(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"found {shown(value)}, expected the stable name of a device")
    return value


Path = Annotated[str, BeforeValidator(_path), WithJsonSchema({"type": "string", "minLength": 1})]


class Target(ExperimentTable):
    """A stack as it is on this host."""

    directory: Path | None = None  # blklab measures in a file, in a new directory below this one
    filesystem: Path | None = None  # The same, and a filesystem must be mounted there
    device: Path | None = None  # A raw device, without a filesystem
    size: Annotated[Sectors, Field(gt=0)] | None = None  # Bytes of the file; percentages of the stack refer to it
    cache: Size = 0  # Bytes of caches that blklab cannot see, such as a RAID controller's

    @model_validator(mode="after")
    def _one_place(self) -> "Target":
        given = [key for key in PLACES if getattr(self, key) is not None]
        if not given:
            raise ValueError(f"expected one of {', '.join(PLACES)}: where the stack is on this host")
        if len(given) > 1:
            raise KeyedError(given[1], f"{given[0]} is given as well: use one of the two")
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


def _steady(value: Any) -> str:
    return "<table>" if isinstance(value, dict | Steady) else "<switch>"


class HostRun(ExperimentTable):
    """How cells are measured on this host."""

    drop_caches: bool = True
    precondition: Literal["none", "fill", "random"] = "none"
    wait: Seconds = 0  # Time to wait before a cell until other programs leave the devices and the CPUs idle

    steady: Annotated[Annotated[bool, Tag("<switch>")] | Annotated[Steady, Tag("<table>")], Discriminator(_steady)] = (
        False
    )

    @property
    def steadiness(self) -> Steady | None:
        """The steady-state criteria; None if blklab does not wait for a steady state."""
        if isinstance(self.steady, Steady):
            return self.steady
        return Steady() if self.steady else None


def _host(value: Any) -> str:
    if not isinstance(value, str) or not value or value.startswith("-") or not value.isprintable() or " " in value:
        raise ValueError(f"found {shown(value)}, expected HOST, USER@HOST, ssh://… or @INVENTORY")
    return value


def _python(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch(r"[\w./+-]+", value, re.A) is None or value.startswith("-"):
        raise ValueError(f"found {shown(value)}, expected the name or the path of Python on the hosts")
    return value


HostName = Annotated[str, BeforeValidator(_host), WithJsonSchema({"type": "string", "minLength": 1})]


class Fleet(ExperimentTable):
    """The hosts that are measured at the same time, over ssh."""

    hosts: list[HostName] = Field(default_factory=list)  # As you name them for ssh, or `@INVENTORY:GROUP`

    python: Annotated[str, BeforeValidator(_python), WithJsonSchema({"type": "string"})] = "python3"
    """Python 3.11 or newer on the hosts."""

    @field_validator("hosts")
    @classmethod
    def _once(cls, hosts: list[str]) -> list[str]:
        for name in hosts:
            if hosts.count(name) > 1:
                raise ValueError(f"found {shown(name)} twice")
        return hosts


StableId = Annotated[str, BeforeValidator(_stable), WithJsonSchema({"type": "string", "minLength": 1})]
"""A stable name of a device: by-id name, serial, WWN."""
