"""`blklab trace stat`: describe the workload in the terminal."""

import click

from blklab.cli.common import emit, json_option, store_option
from blklab.cli.trace.selection import TraceReading, TraceSource, reading_options, trace_options


@click.command()
@trace_options
@reading_options
@click.option("--all-devices", is_flag=True, help="Show every device in full, not only the main one.")
@click.option("--keep", metavar="NAME", help="Store the profile under this name, for `blklab serve`.")
@store_option
@json_option
def stat(
    *, source: TraceSource, reading: TraceReading, all_devices: bool, keep: str | None, store: str | None, as_json: bool
) -> None:
    """Describe the workload of TRACE in five sentences and in tables.

    Load: amount, kind and size of the I/O. Pattern: sequential or random, steady or bursty.
    Latency: latencies and I/Os in flight. Locality: amount of distinct data, and how often the
    hottest blocks are accessed. Origin: processes and source devices.

    The tables contain the figures. Times are named in btt's letters: Q queued, G request allocated, I inserted, D
    dispatched, C completed; Q2C is what the caller waits for, D2C what the device needs. Quantiles are exact for the
    first 4,096 I/Os of a kind; after that, --json states their largest error as relative_error.

    --files reads where the files of a mounted filesystem are now, which takes a while for millions of files. Files
    that were moved, rewritten or deleted since the recording are not recognised. Give a path in the filesystem, or its
    device. Trace the device itself, or the disk of the partition.

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
    from blklab.report import terminal

    view = read_view(source, reading)
    if keep is not None:
        from blklab.store import documents
        from blklab.store.campaigns import Store

        documents.keep(Store(store), "profile", keep, to_builtins(view.profile))
    document = to_builtins(view.profile) | ({} if view.shards is None else {"shards": view.shards})
    emit(document, as_json, lambda console: terminal.stat(console, view, all_devices=all_devices))
