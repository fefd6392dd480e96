"""Read a trace for a command: with progress, warnings, and an error if it has no I/O."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from blklab import _core
from blklab.cli.common import progress, warn, warn_each
from blklab.errors import BlklabError
from blklab.text import printable

if TYPE_CHECKING:
    from blklab.report.view import ProfileView

MAX_NAMED: Final = 8  # How many devices and processes a message names


def read_view(
    paths: Sequence[str],
    selection: _core.Filter,
    format_name: str | None,
    *,
    exact: bool = False,
    files: str | None = None,
) -> "ProfileView":
    """Characterise a trace, print warnings about it on stderr, and return its view.

    `files` is a mount point or a device, whose files are counted. Raises BlklabError if the selection has no I/O.
    """
    from blklab.report.view import ProfileView
    from blklab.trace.profile import characterise

    mounted = None
    warnings: list[tuple[str, str]] = []
    if files is not None:
        from blklab.system.roots import Roots
        from blklab.trace.files import read_mounted_files

        with progress(f"examining the files of {printable(files)}") as tick:
            mounted, warnings = read_mounted_files(files, Roots(), tick)
    with progress("reading the trace") as tick:
        profile = characterise(paths, selection, format_name=format_name, exact=exact, files=mounted, tick=tick)
    view = ProfileView(profile)
    warn_each([f"{path}: {message}" for path, message in warnings])
    for warning in profile["trace"]["warnings"]:
        warn(f"{warning['path']}: {warning['message']}")
    if not any(device.active for device in view.devices):
        raise BlklabError(_nothing(view, paths))
    if mounted and not any(device.active and device.data["files"] for device in view.devices):
        wanted = " or ".join(mounted.devices[1::2])
        raise BlklabError(f"--files {files}: no I/O of {wanted} was selected{_named('only of', _active(view))}")
    return view


def _active(view: "ProfileView") -> list[str]:
    return [device.label for device in view.devices if device.active]


def _nothing(view: "ProfileView", paths: Sequence[str]) -> str:
    """Return the message for a selection without I/O: what was selected, and what the trace has."""
    from blklab.report import formatting
    from blklab.report.tables.trace import filters

    chosen = filters(view)
    profile = view.profile
    return (
        f"no I/O in {', '.join(paths)}{f' ({chosen})' if chosen else ''}: the trace has"
        f" {formatting.plural(profile['events'], 'event')}"
        f" between {formatting.duration(profile['first_ns'])}"
        f" and {formatting.duration(profile['last_ns'])}{_named('of', list(view.names.values()))}"
        f"{_named('by', [printable(name) for name in profile['process_names']])}"
    )


def _named(word: str, names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(names[:MAX_NAMED])
    left = len(names) - MAX_NAMED
    more = f" and {left:,} {'other' if left == 1 else 'others'}" if left > 0 else ""
    return f", {word} {listed}{more}"
