"""Characterise a trace: the workload in figures."""

import json
import os
from collections.abc import Callable, Sequence

from blklab import _core
from blklab.documents.profile import Profile


def characterise(
    paths: Sequence[str],
    selection: _core.Filter,
    *,
    format_name: str | None = None,
    tick: Callable[[int], object] | None = None,
) -> Profile:
    """Reads the trace at `paths` (names, files, directories or `-`) and characterises it.

    `tick` is called regularly with the number of bytes read. Raises UsageError or BlklabError.
    """
    threads = len(os.sched_getaffinity(0))
    text = _core.characterise(paths, selection, format=format_name, threads=threads, tick=tick)
    profile: Profile = json.loads(text)
    return profile
