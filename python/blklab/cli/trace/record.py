"""`blklab trace record`: record a trace of live devices."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import SECONDS, SIZE, emit, json_option, notes, repeatable, warn
from blklab.errors import UsageError
from blklab.render.console import Console
from blklab.render.formatting import plural
from blklab.text.printing import printable
from blklab.units import format_duration, format_size

if TYPE_CHECKING:
    from blklab.trace.record import RecordingOptions, RecordingProgress, TraceRecording

LONGEST = (2**31 - 2) * 10**9  # ns; blktrace reads -w with atoi(3)


@click.command()
@click.argument("devices", metavar="DEVICE...", nargs=-1, required=True)
@click.option("-w", "duration", type=SECONDS, metavar="TIME", help="Length of the recording: 60, 5m.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="NAME",
    help="Write NAME.blktrace.N, or NAME/DEV.blktrace.N for several devices. Required.",
)
@repeatable(
    "--host",
    "hosts",
    metavar="HOST",
    help="Record on this host over ssh, to NAME/HOST, or on those of @FILE:GROUP (Ansible); repeatable.",
)
@click.option("--buffer-size", type=SIZE, default="512k", help="Size of each buffer (blktrace -b).")
@click.option("--buffers", type=click.IntRange(2, 1024), default=4, help="Buffers of each CPU (blktrace -n).")
@click.option("--overwrite", is_flag=True, help="Replace an existing trace.")
@json_option
def record(
    *,
    devices: tuple[str, ...],
    duration: int | None,
    output: Path | None,
    hosts: tuple[str, ...],
    buffer_size: int,
    buffers: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Record the I/O of DEVICE… with blktrace, as root.

    Ctrl-C ends the recording; the trace is complete up to that moment. Record an array together
    with its members to see how the I/O is distributed.

    With --host, all hosts record at the same time, and the traces are copied to NAME/HOST. A host
    needs sshd, Python 3.11 and blktrace; it keeps the trace in /dev/shm until then.

    blklab refuses to write the trace to a filesystem on a recorded device. It mounts debugfs if
    necessary. NAME.blklab.json (NAME/blklab.json) records the options and the number of events that
    were dropped because buffers were full.

    \b
      blklab trace record /dev/md4 -w 60 -o /dev/shm/md4
      blklab trace record /dev/md4 /dev/sd[a-d] -w 5m -o /dev/shm/array --buffer-size 2m
      blklab trace record /dev/md4 -w 60 -o traces --host root@web1 --host root@web2
    """
    from blklab.trace import record as recorder

    if output is None:
        name = printable(Path(devices[0]).name) or "trace"
        raise UsageError(f"say where the trace is written, not to a recorded disk: -o /dev/shm/{name}")
    if duration is not None and duration <= 0:
        raise UsageError("-w 0s: expected more than 0")
    if duration is not None and duration > LONGEST:
        raise UsageError(f"-w {format_duration(duration)}: expected at most 68 years")
    if buffer_size % 1024 or not 4096 <= buffer_size <= 1 << 30:
        raise UsageError("--buffer-size: expected whole KiB, from 4k to 1g")
    options = recorder.RecordingOptions(
        seconds=None if duration is None else duration / 1e9, buffer_size=buffer_size // 1024, buffers=buffers
    )
    if hosts:
        if overwrite:
            raise UsageError("--overwrite: not with --host; choose another -o")
        _record_on_hosts(hosts, devices, output, options, as_json=as_json)
        return
    with _live() as show:
        done = recorder.record(devices, output, options, overwrite=overwrite, tick=show, tell=_tell)
    if done.stopped_by == "user":
        notes().print(f"stopped after {done.seconds:.1f} s")
    elif done.stopped_by == "blktrace":
        warn(f"blktrace ended by itself after {done.seconds:.1f} s")
    if done.dropped:
        share = done.dropped / (done.dropped + done.events)
        warn(
            f"{plural(done.dropped, 'event')} ({100 * share:.1f} %) dropped for want of buffers; record again"
            f" with --buffer-size {options.buffer_size * 4}k --buffers {options.buffers * 2}"
        )
    emit(_as_dict(done), as_json, lambda console: _draw(console, done))


def _record_on_hosts(
    names: tuple[str, ...], devices: tuple[str, ...], output: Path, options: "RecordingOptions", *, as_json: bool
) -> None:
    from blklab.system.ansible_inventory import expand_hosts
    from blklab.trace.record.hosts import check_all_recorded, record_on_hosts

    host_results = record_on_hosts(expand_hosts(list(names), Path()), devices, output.absolute(), options, _tell)
    documents = [{"host": host.host, "failure": host.failure or None, "files": host.files} for host in host_results]

    def draw(console: Console) -> None:
        for host in host_results:
            if not host.failure:
                console.print(f"{printable(str(output / host.host))}: {len(host.files)} files")

    emit(documents, as_json, draw)
    check_all_recorded(host_results)


def _tell(message: str) -> None:
    notes().print(f"blklab: {printable(message)}")


@contextmanager
def _live() -> Iterator[Callable[["RecordingProgress"], None]]:
    """Shows a line on stderr while recording, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _progress: None
        return

    def show(progress: "RecordingProgress") -> None:
        remaining = progress.remaining
        remaining_text = "Ctrl-C ends it" if remaining is None else f"{format_duration(round(remaining) * 1e9)} left"
        elapsed = format_duration(int(progress.elapsed) * 1e9)
        status.update(f"recording: {elapsed}, {remaining_text}, {format_size(progress.bytes)} written")

    with notes().status("recording") as status:
        yield show


def _as_dict(done: "TraceRecording") -> dict[str, object]:
    sidecar: dict[str, object] = json.loads(done.sidecar.read_text())
    files = [str(path) for path in done.files]
    return {**sidecar, "files": files, "bytes": done.bytes, "sidecar": str(done.sidecar)}


def _draw(console: Console, done: "TraceRecording") -> None:
    name = shlex.quote(printable(str(done.name)))
    console.print(f"{name}: {plural(done.events, 'event')}, {format_size(done.bytes)}, {done.seconds:.1f} s")
    console.print(f"next: blklab trace report {name}")
