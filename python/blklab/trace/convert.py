"""Conversion of traces between formats."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from blklab import _core
from blklab.errors import UsageError


def convert(
    paths: Sequence[str],
    output: str,
    selection: _core.Filter,
    *,
    to: str | None = None,
    format_name: str | None = None,
    overwrite: bool = False,
    tick: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Writes the trace at `paths` to `output` in the form `to`, else the one that its suffix names.

    Returns {"to", "report": {"files", "bytes", "taken", "written"}, "trace"}. An existing file is
    left as it is unless `overwrite`. Raises UsageError or BlklabError; then nothing was written.
    """
    if not overwrite and output != "-" and os.path.lexists(output):
        raise UsageError(f"{output}: exists already; --overwrite replaces it")
    text = _core.convert(
        paths, output, selection, to=to, format=format_name, overwrite=overwrite, tick=tick
    )
    document: dict[str, Any] = json.loads(text)
    return document
