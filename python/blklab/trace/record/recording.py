"""A recording: checks, blktrace, and the sidecar file."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from blklab import __version__
from blklab.errors import UsageError
from blklab.output import replace
from blklab.system.environment import environment
from blklab.system.layers import layers
from blklab.system.roots import Roots, read_text
from blklab.trace.record import blktrace as recorder
from blklab.trace.record.checks import RecordedDevice, check_apart, check_writable, find_devices, ready_blktrace

SIDECAR_VERSION = 1


@dataclass(frozen=True)
class TraceOutput:
    name: Path
    single: bool

    @property
    def directory(self) -> Path:
        return self.name.parent if self.single else self.name

    @property
    def existing(self) -> Path:
        """The nearest existing directory of `directory`, with links resolved."""
        try:
            return (self.directory if self.directory.is_dir() else self.name.parent).resolve()
        except (OSError, RuntimeError) as error:  # a cycle of links
            raise UsageError(f"{self.name}: {error}") from error

    @property
    def sidecar(self) -> Path:
        """`NAME.blklab.json`, or `blklab.json` in the directory of several devices."""
        if self.single:
            return self.name.with_name(self.name.name + ".blklab.json")
        return self.name / "blklab.json"

    def files(self) -> list[Path]:
        """Returns the existing files of the trace, in order."""
        stem = re.escape(self.name.name) if self.single else r".+"
        pattern = re.compile(rf"{stem}\.blktrace\.\d+")
        with suppress(OSError):
            return sorted(path for path in self.directory.iterdir() if pattern.fullmatch(path.name))
        return []


@dataclass(frozen=True)
class TraceRecording:
    name: Path
    files: tuple[Path, ...]
    sidecar: Path
    seconds: float
    stopped_by: str
    bytes: int
    devices: tuple[tuple[RecordedDevice, recorder.BlktraceTotals | None], ...]
    options: recorder.RecordingOptions

    @property
    def events(self) -> int:
        """Events that blktrace counted on all devices."""
        return sum(tally.events for _, tally in self.devices if tally)

    @property
    def dropped(self) -> int | None:
        """Events that the kernel dropped because buffers were full; None if unknown."""
        drops = [tally.dropped_events for _, tally in self.devices if tally]
        return sum(drops) if drops else None


def record(
    paths: Sequence[str],
    name: Path,
    options: recorder.RecordingOptions,
    *,
    overwrite: bool = False,
    tick: Callable[[recorder.RecordingProgress], object] = lambda _progress: None,
    tell: Callable[[str], object] = lambda _message: None,
) -> TraceRecording:
    """Records the devices at `paths` to `NAME.blktrace.N`, or `NAME/DEV.blktrace.N` for several.

    Raises UsageError, EnvironmentLacks or BlklabError before anything is written. `tick` is called
    ten times per second, `tell` with notes for the user.
    """
    roots = Roots()
    if name.name in {"", "-", ".."}:
        raise UsageError(f"-o {name}: expected a file name")
    devices = find_devices(paths, roots)
    output = TraceOutput(name.absolute(), single=len(devices) == 1)
    check_writable(output.name.parent)
    notes = check_apart(devices, output.existing, roots)
    for note in notes:
        tell(note)
    with ready_blktrace(devices, roots) as (blktrace, debugfs):
        _make_directory(output)
        # Only now the location is certain: the directory could be a link or a mount point.
        for note in check_apart(devices, output.directory, roots):
            if note not in notes:
                tell(note)
        _make_way(output, overwrite)
        command = _command(blktrace, debugfs, devices, output, options)
        began = time.time_ns()
        with interrupt_on_signals():
            blktrace_exit = recorder.run(command, devices, options.seconds, output.files, tick)
    totals = recorder.tallies(blktrace_exit.output)
    recording = TraceRecording(
        name=name,
        files=tuple(output.files()),
        sidecar=output.sidecar,
        seconds=blktrace_exit.seconds,
        stopped_by=blktrace_exit.stopped_by,
        bytes=sum(path.stat().st_size for path in output.files()),
        devices=tuple((device, totals.get(device.name)) for device in devices),
        options=options,
    )
    if not recording.files:
        raise recorder.failure(blktrace_exit.output, 0, [])
    document = _sidecar(recording, command, began, recorder.version(blktrace), roots)
    replace(output.sidecar, (json.dumps(document, indent=2) + "\n").encode())
    return recording


def _command(
    blktrace: str,
    debugfs: str,
    devices: Sequence[RecordedDevice],
    output: TraceOutput,
    options: recorder.RecordingOptions,
) -> list[str]:
    command = [blktrace, "-r", debugfs, "-b", str(options.buffer_size), "-n", str(options.buffers)]
    if options.seconds is not None:
        # If blklab is killed, the recording still ends.
        command += ["-w", str(int(options.seconds) + 1)]
    command += ["-D", str(output.directory)]
    if output.single:
        command += ["-o", output.name.name]
    for device in devices:
        command += ["-d", device.path]
    return command


def _make_directory(output: TraceOutput) -> None:
    if output.single:
        if output.name.name.startswith("-"):
            raise UsageError(f"-o {output.name.name}: blktrace would read it as an option")
        return
    try:
        output.name.mkdir(exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{output.name}: is not a directory; several devices need one") from None
    check_writable(output.name)


def _make_way(output: TraceOutput, overwrite: bool) -> None:
    """Handles existing files: links among them are removed, not followed."""
    sidecar = [output.sidecar] if os.path.lexists(output.sidecar) else []
    existing = [*output.files(), *sidecar]
    if existing and not overwrite:
        raise UsageError(f"{existing[0]}: exists; use --overwrite to replace it")
    for path in existing:
        path.unlink()


def _sidecar(recording: TraceRecording, command: list[str], began: int, blktrace: str, roots: Roots) -> dict[str, Any]:
    devices = []
    for device, tally in recording.devices:
        major, minor = map(int, device.number.split(":"))
        devices.append(
            {
                "name": device.name,
                "path": device.path,
                "major": major,
                "minor": minor,
                "events": tally.events if tally else None,
                "dropped": tally.dropped_events if tally else None,
            }
        )
    return {
        "sidecar_version": SIDECAR_VERSION,
        "blklab_version": __version__,
        "blktrace_version": blktrace,
        "kernel": os.uname().release,
        "command": command,
        "start_unix_ns": began,
        "duration_ns": round(recording.seconds * 1e9),
        "stopped_by": recording.stopped_by,
        "buffer_kib": recording.options.buffer_size,
        "buffers": recording.options.buffers,
        "dropped": recording.dropped,
        "devices": devices,
        "stack": describe_stack([device.number for device, _ in recording.devices], roots),
        "environment": environment(layers([device.number for device, _ in recording.devices], roots), roots),
    }


def describe_stack(numbers: Sequence[str], roots: Roots) -> list[dict[str, object]]:
    """Returns the devices `major:minor` and all below them, with the names that users know."""
    stack: list[dict[str, object]] = []
    for layer in layers(numbers, roots):
        node = layer.node or Path("/nonexistent")
        role = "cache" if (node / "bcache/cache_replacement_policy").exists() else None
        role = "backing" if layer.kind != "bcache" and (node / "bcache/cache_mode").exists() else role
        dm_name = read_text(node / "dm/name") if layer.kind == "dm" else None
        is_volume = dm_name is not None and (read_text(node / "dm/uuid") or "").startswith("LVM-")
        for suffix, part in (("_corig", "backing"), ("_cdata", "cache"), ("_cvol", "cache")):
            role = part if dm_name and dm_name.endswith(suffix) else role
        stack.append(
            {
                "number": layer.number or "",
                "name": layer.name,
                "label": _volume_name(dm_name) if is_volume else dm_name or layer.name,
                "kind": layer.kind,
                "above": list(layer.above),
                "role": role,
                "bytes": int(read_text(node / "size") or 0) * 512 or None,
            }
        )
    return stack


def _volume_name(dm_name: str | None) -> str | None:
    """Returns `group/volume` of LVM for the name of a mapped device: there, `-` separates them, and `--` is a dash."""
    parts = re.split(r"(?<!-)-(?!-)", dm_name) if dm_name else []
    return "/".join(part.replace("--", "-") for part in parts) if len(parts) == 2 else dm_name


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP stop a recording like Ctrl-C.

    SIGINT too: a shell starts background processes with SIGINT ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {}
    with suppress(ValueError):  # Python handles signals in the main thread only
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
