"""Stock models, one TOML file each in `devices/`, and calibrated models."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

from blklab.errors import UsageError
from blklab.spec import problems
from blklab.spec.files import read_toml

DIRECTORY: Final = Path(__file__).parent / "devices"
TABLE: Final = "device"  # The table of a calibrated file


def names() -> list[str]:
    """Returns the names of the stock models."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


@cache
def _text(name: str) -> str:
    return (DIRECTORY / f"{name}.toml").read_text(encoding="utf-8")


def stock(name: str) -> dict[str, Any]:
    """Returns a stock model's table. Raises ValueError if there is none of this name."""
    if name not in names():
        hint = problems.near(name, names())
        raise ValueError(f"there is no stock model {name!r}; {hint}")
    return tomllib.loads(_text(name))


def calibrated(path: Path) -> dict[str, Any]:
    """Returns the [device] table of a file that `blklab calibrate` wrote. Raises UsageError."""
    table = read_toml(path).get(TABLE)
    if not isinstance(table, dict):
        raise UsageError(f"{path}: no table [{TABLE}]: expected a file that `blklab calibrate` wrote")
    return table
