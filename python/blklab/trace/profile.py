"""Characterisation of a trace: what the workload is, as numbers."""

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

    `tick` is called now and then with the bytes read so far. Raises UsageError or BlklabError.
    """
    threads = len(os.sched_getaffinity(0))
    text = _core.characterise(paths, selection, format=format_name, threads=threads, tick=tick)
    profile: Profile = json.loads(text)
    return profile
