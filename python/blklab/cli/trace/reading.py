"""Reading a trace for a command: with progress, warnings, and a word if there is no I/O in it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blklab import _core
from blklab.cli.common import progress, warn
from blklab.errors import BlklabError

if TYPE_CHECKING:
    from blklab.report.view import View
    from blklab.trace.profile import Profile


def read(paths: Sequence[str], selection: _core.Filter, format_name: str | None) -> "View":
    """Characterises a trace, prints what is doubtful about it on stderr, and returns its view.

    Raises BlklabError when there is no I/O in what was selected.
    """
    from blklab.report.view import View
    from blklab.trace.profile import characterise

    with progress("reading the trace") as tick:
        profile = characterise(paths, selection, format_name=format_name, tick=tick)
    view = View(profile)
    for warning in profile["trace"]["warnings"]:
        warn(f"{warning['path']}: {warning['message']}")
    if not any(device.active for device in view.devices):
        raise BlklabError(_nothing(view, paths, format_name))
    return view


def _nothing(view: "View", paths: Sequence[str], format_name: str | None) -> str:
    """Says what was looked for and what there is instead; reads the trace again for that."""
    from blklab.report import words
    from blklab.report.tables.trace import filters
    from blklab.report.view import View
    from blklab.trace.profile import characterise

    where = ", ".join(paths)
    chosen = filters(view)
    if not chosen or "-" in paths:
        events = words.plural(view.profile["events"], "event")
        return f"no I/O in {where}{f' ({chosen})' if chosen else ''}: the trace has {events}"
    whole: Profile = characterise(paths, _core.Filter(), format_name=format_name)
    all_ = View(whole)
    first, last = all_.span_ns()
    devices = ", ".join(device.label for device in all_.devices if device.active) or "no device"
    return (
        f"no I/O in {where} ({chosen}): the trace has {words.plural(whole['events'], 'event')}"
        f" between {words.duration(first)} and {words.duration(last)}, I/O on {devices}"
    )
