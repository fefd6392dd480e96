"""Convert traces between formats."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blklab import _core
from blklab.errors import UsageError
from blklab.output import STDOUT, is_stream

SUFFIXES = (".parquet", ".iolog", ".bin")  # Suffixes that select a format (crates/trace/src/export/mod.rs)


def convert(
    paths: Sequence[str],
    output: str,
    selection: _core.Filter,
    *,
    to: str | None,
    format_name: str | None,
    overwrite: bool,
) -> dict[str, Any]:
    """Writes the trace at `paths` to `output` in the format `to`, default: from the suffix.

    Returns {"to", "report": {"files", "bytes", "taken", "written"}, "trace"}. An existing file is
    kept unless `overwrite`. Raises UsageError or BlklabError; then nothing was written.
    """
    if to is None:
        _check_suffix(output)
    if not overwrite and os.path.lexists(output) and not is_stream(output):
        raise UsageError(f"{output}: exists; use --overwrite to replace it")
    target = "-" if output in STDOUT else output
    text = _core.convert(paths, target, selection, to=to, format=format_name, overwrite=overwrite)
    document: dict[str, Any] = json.loads(text)
    return document


def _check_suffix(output: str) -> None:
    """Refuses a mistyped suffix such as `x.paruqet`, instead of writing `x.paruqet.blktrace.0`."""
    suffix = Path(output).suffix
    if is_stream(output) or output.endswith(SUFFIXES) or not re.match(r"\.[A-Za-z]", suffix):
        return
    forms = ", ".join(name for name, _ in _core.trace_targets())
    suffixes = ", ".join(SUFFIXES)
    raise UsageError(
        f"{output}: no format has the suffix {suffix}: expected {suffixes}; or select the format with --to: {forms}"
    )
