"""Read a trace for a command: with progress, warnings, and an error if it has no I/O."""

from collections.abc import Sequence

from blklab import _core
from blklab.cli.common import computing, progress, warn, warn_each
from blklab.cli.trace.selection import TraceSpread
from blklab.errors import BlklabError, UsageError
from blklab.report import formatting
from blklab.report.tables.trace import filters
from blklab.report.view import ProfileView
from blklab.system.roots import Roots
from blklab.text import printable
from blklab.trace import shards as sharding
from blklab.trace.profile import characterise, read_mounted_files

MAX_NAMED = 8  # How many devices and processes a message names


def read_view(
    paths: Sequence[str],
    selection: _core.Filter,
    format_name: str | None,
    *,
    exact: bool = False,
    files: str | None = None,
    spread: TraceSpread = TraceSpread(),  # noqa: B008  # frozen
) -> ProfileView:
    """Characterise a trace, print warnings about it on stderr, and return its view.

    `files` is a mount point or a device, whose files are counted. Raises BlklabError if the selection has no I/O.
    """
    if spread != TraceSpread() or sharding.are_shards(paths):
        if exact or files is not None:
            raise UsageError("--exact and --files need a trace on this machine, without --cluster and --split")
        view = _read_spread(paths, selection, format_name, spread)
        return _checked(view, paths)
    mounted = None
    warnings: list[tuple[str, str]] = []
    if files is not None:
        with progress(f"examining the files of {printable(files)}") as tick:
            mounted, warnings = read_mounted_files(files, Roots(), tick)
    with progress("reading the trace") as tick:
        profile = characterise(paths, selection, format_name=format_name, exact=exact, files=mounted, tick=tick)
    warn_each([f"{path}: {message}" for path, message in warnings])
    view = _checked(ProfileView(profile), paths)
    if mounted and not any(device.active and device.data.files for device in view.devices):
        wanted = " or ".join(mounted.devices[1::2])
        active = [device.label for device in view.devices if device.active]
        raise BlklabError(f"--files {files}: no I/O of {wanted} was selected{_named('only of', active)}")
    return view


def _read_spread(
    paths: Sequence[str], selection: _core.Filter, format_name: str | None, spread: TraceSpread
) -> ProfileView:
    """Characterise shards, or the pieces of a trace; print a warning about each shard that is left out."""
    options = sharding.TraceOptions(selection, format_name)
    if not sharding.are_shards(paths):
        if spread.skip_broken:
            raise UsageError("--skip-broken: this is one trace, not shards; quote patterns ('host-*/*.zst')")
        with computing(spread.cluster) as parallel, progress("reading the trace"):
            return ProfileView(sharding.characterise_pieces(tuple(paths), options, spread.split, parallel))
    if spread.split is not None:
        raise UsageError("--split: for a trace at a local path; a shard is read in one piece")
    listed = sharding.list_shards(paths)
    with computing(spread.cluster) as parallel, progress("reading shards", total=len(listed), unit="shards") as tick:
        profiles = sharding.characterise_shards(listed, options, parallel, skip_broken=spread.skip_broken, tick=tick)
    for broken in profiles.summary["broken"]:
        warn(f"left out: {broken['shard']}: {broken['reason']}")
    return ProfileView(profiles.profile, profiles.summary)


def _checked(view: ProfileView, paths: Sequence[str]) -> ProfileView:
    """Print the trace's warnings; return the view. Raises BlklabError if nothing was selected."""
    for warning in view.trace.warnings:
        warn(f"{warning.path}: {warning.message}")
    if not any(device.active for device in view.devices):
        raise BlklabError(_nothing(view, paths))
    return view


def _nothing(view: ProfileView, paths: Sequence[str]) -> str:
    """Return the message for a selection without I/O: what was selected, and what the trace has."""
    chosen = filters(view)
    profile = view.profile
    return (
        f"no I/O in {', '.join(paths)}{f' ({chosen})' if chosen else ''}: the trace has"
        f" {formatting.plural(profile.events, 'event')}"
        f" between {formatting.duration(profile.first_ns)}"
        f" and {formatting.duration(profile.last_ns)}{_named('of', list(view.names.values()))}"
        f"{_named('by', [printable(name) for name in profile.process_names])}"
    )


def _named(word: str, names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(names[:MAX_NAMED])
    left = len(names) - MAX_NAMED
    more = f" and {left:,} {'other' if left == 1 else 'others'}" if left > 0 else ""
    return f", {word} {listed}{more}"
