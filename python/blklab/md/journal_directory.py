"""Where repairs are written down until they are done: a file an array in the state directory."""

from pathlib import Path

from blklab.system.roots import Roots, entries

PREFIX = "md-fix-"


def path_of(uuid: str, roots: Roots) -> Path:
    """Returns where the repair of an array is written down."""
    return roots.state / f"{PREFIX}{uuid.replace('/', '!')}.json"


def left(roots: Roots) -> list[Path]:
    """Returns what repairs are unfinished: running ones, and those of the dead."""
    names = entries(roots.state)
    return [name for name in names if name.name.startswith(PREFIX) and name.suffix == ".json"]
