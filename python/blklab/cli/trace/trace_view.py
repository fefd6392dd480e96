"""Read a trace for a command: with progress, warnings, and an error if it has no I/O."""

from blklab.cli.common import computing, progress, warn, warn_each
from blklab.cli.trace.selection import TraceReading, TraceSource
from blklab.errors import BlklabError, UsageError
from blklab.render import formatting
from blklab.system.roots import Roots
from blklab.text.printing import printable
from blklab.text.suggestions import similar
from blklab.trace.profile import characterise, read_mounted_files
from blklab.trace.shards.listing import are_shards, list_shards
from blklab.trace.tables.trace import filters
from blklab.trace.view import ProfileView

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
        return _check_view(_read_spread(source, reading), source)
    mounted_files = None
    warnings: list[tuple[str, str]] = []
    if reading.files is not None:
        with progress(f"examining the files of {printable(reading.files)}") as tick:
            mounted_files, warnings = read_mounted_files(reading.files, Roots(), tick)
    with progress("reading the trace") as tick:
        profile = characterise(
            source.paths,
            source.selection,
            format_name=source.format_name,
            exact=reading.exact,
            files=mounted_files,
            tick=tick,
            in_full=in_full,
        )
    warn_each([f"{path}: {message}" for path, message in warnings])
    view = _check_view(ProfileView(profile), source)
    if mounted_files and not any(device.active and device.data.files for device in view.devices):
        device_names = " or ".join(mounted_files.devices[1::2])
        active = [device.label for device in view.devices if device.active]
        raise BlklabError(
            f"--files {reading.files}: no I/O of {device_names} was selected{_list_names('only of', active)}"
        )
    return view


def _read_spread(source: TraceSource, reading: TraceReading) -> ProfileView:
    """Characterise shards; print a warning about each shard that is left out."""
    from blklab.trace.shards.merging import characterise_shards
    from blklab.trace.shards.task import TraceOptions

    options = TraceOptions(source.selection, source.format_name)
    if not are_shards(source.paths):
        option = "--skip-broken" if reading.skip_broken else "--cluster"
        raise UsageError(f"{option}: this is one trace, not shards; quote patterns ('host-*/*.zst')")
    shards = list_shards(source.paths)
    with computing(reading.cluster) as parallel, progress("reading shards", total=len(shards), unit="shards") as tick:
        profiles = characterise_shards(shards, options, parallel, skip_broken=reading.skip_broken, tick=tick)
    for broken in profiles.summary["broken"]:
        warn(f"left out: {broken['shard']}: {broken['reason']}")
    return ProfileView(profiles.profile, profiles.summary)


def _check_view(view: ProfileView, source: TraceSource) -> ProfileView:
    """Print the trace's warnings; return the view. Raises BlklabError if nothing was selected."""
    paths: dict[str, list[str]] = {}
    for warning in view.trace.warnings:
        paths.setdefault(warning.message, []).append(warning.path)
    for message, warning_paths in paths.items():
        suffix = f" and {formatting.plural(len(warning_paths) - 1, 'other')}" if len(warning_paths) > 1 else ""
        warn(f"{warning_paths[0]}{suffix}: {message}")
    if not any(device.active for device in view.devices):
        raise BlklabError(_describe_no_io(view, source))
    return view


def _describe_no_io(view: ProfileView, source: TraceSource) -> str:
    """Return the message for a selection without I/O: what was selected, and what the trace has."""
    selection = filters(view)
    selection_text = f" ({selection})" if selection else ""
    profile = view.profile
    return (
        f"no I/O in {', '.join(source.paths)}{selection_text}: the trace has"
        f" {formatting.plural(profile.events, 'event')}"
        f" between {formatting.duration(profile.first_ns)}"
        f" and {formatting.duration(profile.last_ns)}{_list_names('of', list(view.names.values()))}"
        f"{_list_names('by', [printable(name) for name in profile.process_names])}{_guess_name(view)}"
    )


def _guess_name(view: ProfileView) -> str:
    """Return a name of the trace that resembles one of the selection; empty if there is none."""
    profile = view.profile
    names_by_kind = ((profile.filter.devices, view.names.values()), (profile.filter.processes, profile.process_names))
    for selected_names, names in names_by_kind:
        for name in selected_names:
            if name not in names and (guess := similar(name, names)):
                return guess
    return ""


def _list_names(word: str, names: list[str]) -> str:
    if not names:
        return ""
    text = ", ".join(names[:MAX_NAMED])
    other_count = len(names) - MAX_NAMED
    if other_count > 0:
        noun = "other" if other_count == 1 else "others"
        text += f" and {other_count:,} {noun}"
    return f", {word} {text}"
