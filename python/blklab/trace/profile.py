"""Characterise a trace: the workload in figures."""

import ctypes
import json
import os
from collections.abc import Callable, Sequence
from typing import Final

from blklab import _core
from blklab.documents.profile import Profile
from blklab.system.environment import memory
from blklab.system.roots import Roots
from blklab.trace.files import MountedFiles

BYTES_OF_BLOCK: Final = 80
"""Memory for the counts of one block: 16 bytes in a table that is between 5/16 and 5/8 full and doubles to grow."""


def own_names(profile: Profile) -> dict[str, str]:
    """Returns the names of devices that the format names instead of numbering, by `major,minor`."""
    return {f"{number >> 20},{number & 0xFFFFF}": name for number, name in profile["trace"]["device_names"]}


def characterise(
    paths: Sequence[str],
    selection: _core.Filter,
    *,
    format_name: str | None = None,
    exact: bool = False,
    files: MountedFiles | None = None,
    tick: Callable[[int], object] | None = None,
) -> Profile:
    """Reads the trace at `paths` (names, files, directories or `-`) and characterises it.

    With `exact`, all distinct blocks are counted that fit half of the free memory. `files` are those whose I/Os are
    counted. `tick` is called regularly with the number of bytes read. Raises UsageError or BlklabError.
    """
    threads = len(os.sched_getaffinity(0))
    blocks = memory(Roots()).get("MemAvailable", 0) // 2 // BYTES_OF_BLOCK if exact else None
    text = _core.characterise(
        paths, selection, format=format_name, exact_blocks=blocks, filesystem=files, threads=threads, tick=tick
    )
    # Traces of many devices leave hundreds of MiB free in the C heap, which Python does not use.
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    profile: Profile = json.loads(text)
    return profile
