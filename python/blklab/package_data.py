"""Reads TOML files of packages."""

import pkgutil
import tomllib
from typing import Any


def toml_file(package: str, name: str) -> Any:
    """Returns the content of a TOML file in a package."""
    return tomllib.loads((pkgutil.get_data(package, name) or b"").decode())
