"""Paths of the journals of unfinished repairs: one file per array in the state directory."""

import json
from dataclasses import replace
from pathlib import Path

from blklab.system.roots import Roots, entries

PREFIX = "md-fix-"


def journal_path(uuid: str, roots: Roots) -> Path:
    """Returns the path of an array's journal."""
    return roots.state / f"{PREFIX}{uuid.replace('/', '!')}.json"


def find_journals(roots: Roots) -> list[Path]:
    """Returns the journals of all unfinished repairs, running or interrupted."""
    return [path for path in entries(roots.state) if path.name.startswith(PREFIX) and path.suffix == ".json"]


def read_stop(uuid: str, roots: Roots) -> tuple[str, ...]:
    """Returns why the last run of an array's unfinished repair stopped, and commands for the user; empty if unknown."""
    for directory in (roots.state, roots.state_of_root):
        try:
            path = journal_path(uuid, replace(roots, state=directory))
            return tuple(str(line) for line in json.loads(path.read_bytes()).get("stopped", ()))
        except (OSError, ValueError, TypeError, AttributeError):
            continue
    return ()
