"""Targets named on the command line: `--target raid1=/mnt/raid1`, `--target /srv`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from blklab.errors import UsageError
from blklab.spec.fields import NAME
from blklab.spec.load import ExperimentSource


def placed(source: ExperimentSource, texts: Sequence[str]) -> ExperimentSource:
    """Returns the experiment with these targets; they replace its own of the same name.

    A path without a name is for the only stack or target of the experiment. Raises UsageError.
    """
    targets = source.raw.get("targets", {})
    if not texts or not isinstance(targets, dict):
        return source
    by_stack: dict[str, Any] = dict(targets)
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or NAME.fullmatch(name) is None:
            name, path = _only(source, text), text
        if not path:
            raise UsageError(f"--target {text!r}: expected STACK=PATH, such as raid1=/mnt/raid1")
        where = Path(path).expanduser().absolute()
        kind = "device" if where.is_block_device() else "directory"
        before = by_stack.get(name, {})
        kept = {key: before[key] for key in ("size", "cache") if key in before}
        if kind == "device":
            kept.pop("size", None)
        by_stack[name] = {**kept, kind: str(where)}
    return replace(source, raw={**source.raw, "targets": by_stack})


def _only(source: ExperimentSource, text: str) -> str:
    """Returns the name of the only stack or target. Raises UsageError."""
    names = {
        name: None
        for section in ("targets", "stacks")
        if isinstance(tables := source.raw.get(section), dict)
        for name in tables
    }
    if len(names) > 1:
        listed = ", ".join(names)
        raise UsageError(f"--target {text!r}: choose one of {listed}, and write STACK={text}")
    return next(iter(names), "here")
