"""Controllers that blklab knows by name."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "controllers.toml"


@dataclass(frozen=True)
class KnownController:
    """A controller, and where its figures come from."""

    name: str
    product: str
    keys: Mapping[str, int]  # Of a table [controllers]
    source: str
    judge: str  # The measurements that judge the figures; empty if none do


@cache
def read_controllers() -> Mapping[str, KnownController]:
    """Returns the controllers by name."""
    controllers = {}
    for name, table in tomllib.loads(FILE.read_text(encoding="utf-8")).items():
        keys = {key: value for key, value in table.items() if isinstance(value, int)}
        controllers[name] = KnownController(name, table["product"], keys, table["source"], table["judge"])
    return controllers
