"""Paths of the journals of unfinished repairs: one file per array in the state directory."""

from pathlib import Path

from blklab.system.roots import Roots, entries

PREFIX = "md-fix-"


def journal_path(uuid: str, roots: Roots) -> Path:
    """Returns the path of an array's journal."""
    return roots.state / f"{PREFIX}{uuid.replace('/', '!')}.json"


def find_journals(roots: Roots) -> list[Path]:
    """Returns the journals of all unfinished repairs, running or interrupted."""
    paths = entries(roots.state)
    return [path for path in paths if path.name.startswith(PREFIX) and path.suffix == ".json"]
