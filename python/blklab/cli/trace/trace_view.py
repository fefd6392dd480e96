"""Read a trace for a command: with progress, warnings, and an error if it has no I/O."""

from blklab.cli.common import computing, progress, warn, warn_each
from blklab.cli.trace.selection import TraceReading, TraceSource
from blklab.errors import BlklabError, UsageError
from blklab.printing import printable
from blklab.report import formatting
from blklab.report.tables.trace import filters
from blklab.report.view import ProfileView
from blklab.suggestions import similar
from blklab.system.roots import Roots
from blklab.trace.profile import characterise, read_mounted_files
from blklab.trace.shards.listing import are_shards, list_shards

MAX_NAMED = 8  # How many devices and processes a message names


def read_view(
    source: TraceSource,
    reading: TraceReading = TraceReading(),  # noqa: B008
    in_full: tuple[int, int] | None = None,
) -> ProfileView:
    """Characterise a trace, print warnings about it on stderr, and return its view.

    `in_full` is that of `_core.characterise`, for traces that are not spread.
    Raises BlklabError if the selection has no I/O.
    """
    if reading.is_spread or are_shards(source.paths):
        if reading.exact or reading.files is not None:
            raise UsageError("--exact and --files need a trace on this machine, without --cluster")
        return _checked(_read_spread(source, reading), source)
    mounted = None
    warnings: list[tuple[str, str]] = []
    if reading.files is not None:
        with progress(f"examining the files of {printable(reading.files)}") as tick:
            mounted, warnings = read_mounted_files(reading.files, Roots(), tick)
    with progress("reading the trace") as tick:
        profile = characterise(
            source.paths,
            source.selection,
            format_name=source.format_name,
            exact=reading.exact,
            files=mounted,
            tick=tick,
            in_full=in_full,
        )
    warn_each([f"{path}: {message}" for path, message in warnings])
    view = _checked(ProfileView(profile), source)
    if mounted and not any(device.active and device.data.files for device in view.devices):
        wanted = " or ".join(mounted.devices[1::2])
        active = [device.label for device in view.devices if device.active]
        raise BlklabError(f"--files {reading.files}: no I/O of {wanted} was selected{_named('only of', active)}")
    return view


def _read_spread(source: TraceSource, reading: TraceReading) -> ProfileView:
    """Characterise shards; print a warning about each shard that is left out."""
    from blklab.trace.shards.merging import characterise_shards
    from blklab.trace.shards.task import TraceOptions

    options = TraceOptions(source.selection, source.format_name)
    if not are_shards(source.paths):
        option = "--skip-broken" if reading.skip_broken else "--cluster"
        raise UsageError(f"{option}: this is one trace, not shards; quote patterns ('host-*/*.zst')")
    listed = list_shards(source.paths)
    with computing(reading.cluster) as parallel, progress("reading shards", total=len(listed), unit="shards") as tick:
        profiles = characterise_shards(listed, options, parallel, skip_broken=reading.skip_broken, tick=tick)
    for broken in profiles.summary["broken"]:
        warn(f"left out: {broken['shard']}: {broken['reason']}")
    return ProfileView(profiles.profile, profiles.summary)


def _checked(view: ProfileView, source: TraceSource) -> ProfileView:
    """Print the trace's warnings; return the view. Raises BlklabError if nothing was selected."""
    paths: dict[str, list[str]] = {}
    for warning in view.trace.warnings:
        paths.setdefault(warning.message, []).append(warning.path)
    for message, named in paths.items():
        others = f" and {formatting.plural(len(named) - 1, 'other')}" if len(named) > 1 else ""
        warn(f"{named[0]}{others}: {message}")
    if not any(device.active for device in view.devices):
        raise BlklabError(_nothing(view, source))
    return view


def _nothing(view: ProfileView, source: TraceSource) -> str:
    """Return the message for a selection without I/O: what was selected, and what the trace has."""
    selection = filters(view)
    selected = f" ({selection})" if selection else ""
    profile = view.profile
    return (
        f"no I/O in {', '.join(source.paths)}{selected}: the trace has"
        f" {formatting.plural(profile.events, 'event')}"
        f" between {formatting.duration(profile.first_ns)}"
        f" and {formatting.duration(profile.last_ns)}{_named('of', list(view.names.values()))}"
        f"{_named('by', [printable(name) for name in profile.process_names])}{_guess(view)}"
    )


def _guess(view: ProfileView) -> str:
    """Return a name of the trace that resembles one of the selection; empty if there is none."""
    profile = view.profile
    names_by_kind = ((profile.filter.devices, view.names.values()), (profile.filter.processes, profile.process_names))
    for selected, names in names_by_kind:
        for name in selected:
            if name not in names and (guess := similar(name, names)):
                return guess
    return ""


def _named(word: str, names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(names[:MAX_NAMED])
    left = len(names) - MAX_NAMED
    if left > 0:
        others = "other" if left == 1 else "others"
        listed += f" and {left:,} {others}"
    return f", {word} {listed}"
