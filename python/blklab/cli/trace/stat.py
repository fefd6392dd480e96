"""`blklab trace stat`: describe the workload in the terminal."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import csv_option, emit, json_option, store_option, warn_each
from blklab.cli.trace.report import selection_words
from blklab.cli.trace.selection import TraceReading, TraceSource, reading_options, trace_options
from blklab.errors import BlklabError, UsageError
from blklab.render.console import Console
from blklab.text.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.trace.view import DeviceView, ProfileView

MANY = 64  # Devices from which on --json describes only the busiest in full
DETAILED = 8  # How many devices --json describes in full then
MOST_WORDS = 8  # Words of a command that is printed


@click.command()
@trace_options
@reading_options
@click.option("--full", is_flag=True, help="All sentences, tables and diagnostics of the main device.")
@click.option(
    "--all-devices",
    is_flag=True,
    help="Show every device in full, not only the main one; with --json, not only the 8 busiest of more than 64.",
)
@click.option("--keep", metavar="NAME", help="Store the profile under this name, for `blklab serve`.")
@store_option
@json_option
@csv_option
def stat(
    *,
    source: TraceSource,
    reading: TraceReading,
    full: bool,
    all_devices: bool,
    keep: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Describe the workload of TRACE, and say what limits the storage.

    The first screen has the causes that blklab finds, with how much of the waiting of programs they explain (without a
    cause: who waits, and the longest stall), one line for each property of the workload, and the devices. --full has
    everything, as have --files and shards:

    Load: amount, kind and size of the I/O. Pattern: sequential or random, steady or bursty.
    Latency: latencies and I/Os in flight. Locality: amount of distinct data, and how often the
    hottest blocks are accessed. Origin: processes and source devices.

    The tables contain the figures. Times are named in btt's letters: Q queued, G request allocated, I inserted, D
    dispatched, C completed; Q2C is what the caller waits for, D2C what the device needs. Quantiles are exact for the
    first 4,096 I/Os of a kind; after that, --json states their largest error as relative_error.

    --files reads where the files of a mounted filesystem are now, which takes a while for millions of files. Files
    that were moved, rewritten or deleted since the recording are not recognised. Give a path in the filesystem, or its
    device. Trace the device itself, or the disk of the partition.

    Several directories are several recordings: each has a row, with its main device and its largest cause.

    If the trace has several devices, all are listed. The device that the whole workload passes
    through (an array, not its members) is shown in full. Select others with --device, or all with
    --all-devices.

    TRACE can be a URL (s3, gs, http, sftp …) or a quoted pattern. Each match is a shard, which is read on its own,
    here or on the workers of --cluster; per-CPU files of a recording are one shard. The last wildcard stands for the
    shard, what the others match for its host. A table shows all hosts. Devices of several hosts are added up as
    one, without those that get their I/O from other devices of the trace.

    \b
    Examples:
      blklab trace stat md127                        the files md127.blktrace.0, .1 ...
      blklab trace stat traces/                      all files in a directory, as one trace
      blktrace -d /dev/sda -o - -w 10 | blklab trace stat -
      blklab trace stat before/ after/               a row for each recording
      blklab trace stat md127 --exact                hot blocks counted, not sampled
      blklab trace stat md127 --files /srv           also the busiest files of this filesystem
      blklab trace stat md127 --since 10s --until 20s --op write
      blklab trace stat md127 --process postgres --json | jq .devices[0].life.read.latency_ns.q2c
      blklab trace stat --cluster 10.0.0.5:8786 's3://traces/host-*/2026-11-*'

    \b
    Exit status: 0 success; 1 no I/O in the selection, or the trace cannot be read; 2 wrong usage.
    """
    from msgspec import to_builtins

    from blklab.cli.trace.trace_view import read_view

    recordings = source.paths if len(source.paths) > 1 and all(Path(path).is_dir() for path in source.paths) else ()
    if recordings:
        if keep is not None:
            raise UsageError("--keep: expected one recording")
        views = dict(_readable(source, reading))
        recording_documents = (
            {"recording": path, **_document(view, all_devices=all_devices)} for path, view in views.items()
        )
        from blklab.trace import terminal as trace_terminal

        emit(
            {"recordings": list(recording_documents) if as_json else []},
            as_json,
            lambda to: trace_terminal.recordings(to, views),
        )
        return
    is_brief = as_json and not all_devices and keep is None
    view = read_view(source, reading, in_full=(MANY, DETAILED) if is_brief else None)
    if keep is not None:
        from blklab.store import documents
        from blklab.store.campaigns import Store

        documents.keep(Store(store), "profile", keep, to_builtins(view.profile))
    arguments = [*source.paths, *selection_words(source.format_name, view.profile)]
    if len(arguments) > MOST_WORDS:
        arguments = ["…"]
    command = printable(shlex.join(["blklab", "trace", "stat", *arguments]))

    def draw(console: Console) -> None:
        from blklab.trace import terminal as trace_terminal

        if full or all_devices or reading.files is not None or view.shards is not None:
            trace_terminal.stat(console, view, all_devices=all_devices)
        else:
            trace_terminal.first_screen(console, view, command)

    emit(_document(view, all_devices=all_devices) if as_json else None, as_json, draw)


def _readable(source: TraceSource, reading: TraceReading) -> "Iterator[tuple[str, ProfileView]]":
    """Yield each recording by its directory, name those that cannot be read. Raises BlklabError if none can."""
    from blklab.cli.trace.trace_view import read_view

    failures = []
    for path in dict.fromkeys(source.paths):
        try:
            yield path, read_view(replace(source, paths=(path,)), reading)
        except BlklabError as error:
            failures.append(error)
    if len(failures) == len(set(source.paths)):
        raise failures[0]
    warn_each([str(failure) for failure in failures])


def _document(view: "ProfileView", *, all_devices: bool) -> dict[str, object]:
    """Returns the profile with the causes or the facts, and with the figures of hosts if there are shards.

    If there are many devices, only the busiest are described in full.
    """
    from msgspec import structs, to_builtins

    from blklab.render import diagnostics
    from blklab.trace.causes import causes
    from blklab.trace.causes.facts import facts
    from blklab.trace.causes.waiting import Waiting

    devices = sorted(view.devices, key=lambda device: -device.ios)
    omitted_numbers = {
        device.number for device in (devices[DETAILED:] if len(devices) > MANY and not all_devices else ())
    }
    device_profiles = [
        device_profile for device_profile in view.profile.devices if device_profile.device not in omitted_numbers
    ]
    document: dict[str, object] = to_builtins(structs.replace(view.profile, devices=device_profiles))
    cause_list = causes(view)
    document["causes"] = [diagnostics.as_dict(cause) | {"share": cause.weight} for cause in cause_list]
    if not cause_list:
        document["facts"] = [sentence._asdict() for sentence in facts(Waiting(view))]
    if view.shards is not None:
        document["shards"] = view.shards
    if omitted_numbers:
        document["other_devices"] = [_figures(device) for device in view.devices if device.number in omitted_numbers]
    return document


def _figures(device: "DeviceView") -> dict[str, object]:
    """Returns the key figures of a device that is not described in full."""
    quantiles = {}
    for op in ("read", "write"):
        response = device.response(op)
        if response:
            for key in ("p50", "p99"):
                quantiles[f"{op}_{key}_ns"] = getattr(response[1], key)
    return {
        "device": device.number,
        "name": device.data.name,
        "ios": device.ios,
        "bytes": device.bytes,
        **quantiles,
        "in_flight": device.data.in_flight.mean,
    }
