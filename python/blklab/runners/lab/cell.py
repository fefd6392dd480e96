"""Measures one cell in the guest: a new stack on fresh disks, and a load with its statistics."""

import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, SystemErrors
from blklab.fio import output
from blklab.fio.latency import parse_latency
from blklab.fio.node import JsonNode
from blklab.outcome import DeviceResult, GuestFacts, IoCost
from blklab.runners.counter_deltas import CounterDeltas, Reading
from blklab.runners.fio import jobfile
from blklab.runners.fio.cell import figures
from blklab.runners.fio.process import PATIENCE, FioExit, FioMessages, FioProgress, Progress, complaint
from blklab.runners.fio.target_preparation import BLOCK, DEPTH
from blklab.runners.lab.agent import ExportedFile, FileSample, GuestGone
from blklab.runners.lab.machine.boot import GuestMachine
from blklab.runners.lab.machine.qemu import RESULTS, VirtualDisk, VirtualDiskShape
from blklab.runners.lab.rates import DiskRates, rates
from blklab.runners.lab.stacks import bcache, lvm, md
from blklab.runners.lab.stacks.build import apply_settings, build
from blklab.runners.lab.stacks.filesystem import MOUNT
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack
from blklab.spec import documents
from blklab.spec.documents import LabCellDocument, latency_ns
from blklab.store.series import FinishedRun, SeriesPoint, packed
from blklab.system import diskstats
from blklab.system.roots import Roots, opened, text
from blklab.text import printable
from blklab.units import format_duration, format_size

MOST_FETCHED = 256 << 20  # Bytes of files that are held in memory
_NAME = re.compile(r"[\w-][\w.-]{0,120}", re.A)  # Valid names of files from the guest, which is not trusted
_PART = 16 << 20


def fetch(machine: GuestMachine, paths: Sequence[str]) -> dict[str, str]:
    """Returns files of the guest, by path; a path may have `*`. Raises BlklabError."""
    exported = _exported(machine, paths)
    total = sum(file.bytes for file in exported)
    if total > MOST_FETCHED:
        raise BlklabError(
            f"the guest's {paths[0]} and others have {format_size(total)}, expected at most {format_size(MOST_FETCHED)}"
        )
    return {file.path: machine.results.read(file.offset, file.bytes).decode(errors="replace") for file in exported}


def save(machine: GuestMachine, pattern: str, directory: Path, *, old: re.Pattern[str]) -> list[Path]:
    """Writes files of the guest into a directory, by their own names. Raises BlklabError.

    Files there that match `old` are of an earlier run, and are removed. No link is followed.
    """
    with SystemErrors(BlklabError, directory):
        directory.mkdir(parents=True, exist_ok=True)
        with opened(directory, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY) as into:
            with os.scandir(into) as there:
                names = [entry.name for entry in there if old.fullmatch(entry.name)]
            for name in names:
                os.unlink(name, dir_fd=into)
            return [directory / name for name in _written(machine, pattern, into)]


def results_device(machine: GuestMachine) -> str:
    """Returns the path of the disk for results in the guest. Raises BlklabError."""
    serials = machine.agent.read(["/sys/block/vd*/serial"])
    device = next((path.split("/")[3] for path, serial in serials.items() if serial == RESULTS), None)
    if device is None:
        raise BlklabError("the guest has no disk for results")
    return f"/dev/{device}"


def _written(machine: GuestMachine, pattern: str, into: int) -> Iterator[str]:
    for file in _exported(machine, [pattern]):
        name = file.path.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise BlklabError(f"invalid file name from the guest: {file.path!r}")
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=into)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o666, dir_fd=into), "wb") as opened:
            for at in range(0, file.bytes, _PART):
                opened.write(machine.results.read(file.offset + at, min(_PART, file.bytes - at)))
        yield name


def _exported(machine: GuestMachine, paths: Sequence[str]) -> Sequence[ExportedFile]:
    """Makes the guest put files on the disk for results; returns their positions, in order.

    Raises BlklabError if a file is not within the disk, or overlaps another.
    """
    disk = machine.results
    disk.clear()
    end = 0
    exported = machine.agent.export(paths, results_device(machine))
    for file in exported:
        if file.offset < end or file.bytes < 0 or file.offset + file.bytes > disk.shape.bytes:
            raise BlklabError(
                f"the guest reports {printable(file.path[:200])} at offset {file.offset} of the disk for "
                f"results, with {file.bytes} B: expected it after {end} and within the disk"
            )
        end = file.offset + file.bytes
    return exported


DISKSTATS = "/proc/diskstats"
STAT = "/proc/stat"


@dataclass(frozen=True)
class LayerActivity:
    devices: list[DeviceResult]
    points: list[SeriesPoint]
    cpu: dict[str, float]
    watched_ns: int
    problems: list[str]


def watched(guest: GuestStack, samples: Sequence[FileSample], document: LabCellDocument) -> LayerActivity:
    """Returns the activity of each layer of a stack during the load, without its ramp.

    The load is the time when the stack's top had I/O: fio takes seconds to start in an emulated
    guest. Raises BlklabError for statistics that cannot be read.
    """
    readings = [(sample.t_ns, _reading(sample)) for sample in samples]
    times = [time_ns for time_ns, _ in readings]
    if len(times) < 2 or times != sorted(times):
        raise BlklabError("expected at least two readings of the guest's statistics, in order")
    first, last = _span_of_load(readings, guest.layers[-1].kernel)
    begin_ns = readings[first][0] + int(document["ramp_ns"])
    start = next((at for at in range(first, last) if readings[at][0] >= begin_ns), None)
    problems = []
    if start is None:
        problems.append("the load ended before ramp_time: the figures below cover all of it")
        start = first
    names = [layer.kernel for layer in guest.layers]
    tally = CounterDeltas(names, readings[start][1], readings[start][0], 64)
    interval_ns = int(document["interval_ns"])
    due = tally.began_ns + interval_ns
    for now_ns, reading in readings[start + 1 : last + 1]:
        tally.take(reading, now_ns)
        if now_ns >= due or now_ns == readings[last][0]:
            tally.emit()
            due += interval_ns * max(1, -((due - now_ns - 1) // interval_ns))
    called = {layer.kernel: layer.name for layer in guest.layers}
    devices = [
        DeviceResult(
            layer.name,
            kind=layer.kind,
            above=layer.above,
            leaf=layer.kind == "disk",
            id=layer.serial,
            **tally.total[layer.kernel].counts(),
        )
        for layer in guest.layers
        if layer.kernel in tally.total
    ]
    points = [replace(point, source=called[point.source]) for point in tally.points]
    stats = (samples[at].files.get(STAT) or "" for at in (start, last))
    before, after = (diskstats.parse_cpu(stat, f"the guest's {STAT}") for stat in stats)
    problems += tally.problems
    return LayerActivity(devices, points, before.shares(after), tally.watched_ns, problems)


def _reading(sample: FileSample) -> Reading:
    text = sample.files.get(DISKSTATS)
    if text is None:
        raise BlklabError(f"cannot read the guest's {DISKSTATS}")
    return diskstats.parse(text, f"the guest's {DISKSTATS}")


def _span_of_load(readings: Sequence[tuple[int, Reading]], top: str) -> tuple[int, int]:
    """Returns the readings just before the first I/O of a device and just after its last one."""
    counts = [_count(diskstats.of(reading, top)) for _, reading in readings]
    moved = [at for at in range(1, len(counts)) if counts[at] != counts[at - 1]]
    return (moved[0] - 1, moved[-1]) if moved else (0, len(counts) - 1)


def _count(counters: diskstats.DeviceCounters) -> tuple[int, int, int]:
    return counters.reads, counters.writes, counters.in_flight


def waited_us(roots: Roots) -> int | None:
    """Returns how long a task has waited for a CPU since boot, µs.

    None before 4.20 and where it is switched off. Documentation/accounting/psi.rst: the total of
    the line `some` of /proc/pressure/cpu.
    """
    match = re.match(r"some .*?\btotal=(\d{1,20})", text(roots.proc / "pressure/cpu") or "", re.A)
    return int(match[1]) if match else None


class PressureMeter:
    """Measures the share of the time since its creation in which a task waited for a processor of this machine."""

    def __init__(self) -> None:
        self._roots = Roots()
        self._began = time.monotonic()
        self._before = waited_us(self._roots)

    def share(self) -> float | None:
        """Returns the share so far, 0 to 1; None if the kernel does not report it."""
        after = waited_us(self._roots)
        seconds = time.monotonic() - self._began
        if self._before is None or after is None or seconds <= 0:
            return None
        return min(1.0, (after - self._before) / 1e6 / seconds)


QUEUE = ("scheduler", "nr_requests", "rotational", "max_sectors_kb", "wbt_lat_usec")
"""Attributes of each layer's queue that are kept with a result."""


def _describe_layer(layer: GuestLayer, answers: Mapping[str, str | None]) -> dict[str, Any]:
    """Returns the kernel's name of a layer, and the attributes of its queue that the kernel has."""
    queue = {}
    for key in QUEUE:
        text = answers[f"/sys/block/{layer.kernel}/queue/{key}"]
        if text is not None:
            queue[key] = text.strip()
    return {"kernel_name": layer.kernel, "queue": queue}


def describe_guest(
    machine: GuestMachine, guest: GuestStack, document: LabCellDocument, wanted: DiskRates, waited: float | None
) -> GuestFacts:
    """Returns the environment of a measurement in this guest, which `waited` for this share of the time."""
    names = [layer.kernel for layer in guest.layers]
    answers = machine.agent.read([f"/sys/block/{name}/queue/{key}" for name in names for key in QUEUE])
    return GuestFacts(
        machine.accel,
        machine.hello.kernel,
        wanted.scale,
        {device["name"]: limits for device, limits in zip(document["devices"], wanted.limits, strict=True)},
        machine.io_cost,
        {layer.name: _describe_layer(layer, answers) for layer in guest.layers},
        guest.run("lsblk", "-J", "-o", "NAME,TYPE,SIZE,ROTA,FSTYPE", check=False).stdout,
        waited,
    )


BUSY = 0.9  # Share of busy time from which the guest's processors, not the disks, may limit the rates


def check(document: LabCellDocument, wanted: DiskRates, cpu: Mapping[str, float]) -> Iterator[Diagnostic]:
    """Yields what a result does not show, or may show wrongly."""
    if wanted.scale != 1:
        yield Diagnostic(
            "scaled-rates",
            "warning",
            "",
            f"all devices' rates are divided by {wanted.scale:g}, within the guest's reach: "
            "use shares, ratios and orderings, not absolute rates",
        )
    yield from wanted.doubts
    for device in document["devices"]:
        if latency := latency_ns(device["model"]):
            yield Diagnostic(
                "coarse-latency",
                "warning",
                f"device {device['name']}",
                f"dm-delay adds its latency of {latency / 1e6:g} ms, "
                "in whole ms and by the guest's timer: an I/O takes longer than that, "
                "by 4 ms and more before Linux 6.7",
            )
    busy = cpu["user"] + cpu["system"] + cpu["irq"] + cpu["steal"]
    if busy >= BUSY:
        yield Diagnostic(
            "cpus",
            "warning",
            "",
            f"the guest's processors were busy for {100 * busy:.0f} % of the time: "
            "the rates may be those of the processors, not of the disks",
            ("compare with a larger lab.scale, or with more lab.cpus",),
        )


ALONE = "--rw=randread --bs=4k --size=16m --iodepth=1 --direct=1 --ioengine=libaio --time_based --runtime=1s"
"""One I/O at a time: where disks are limited, jobs sleep between their I/Os."""

CALM_SPAN_MS = 50  # A busy host delays I/Os of a guest, never the reverse: of such spans the first quartile counts


def measure_io_cost(machine: GuestMachine) -> IoCost:
    """Measures the cost of an I/O on the disk for results, which no cell uses and nothing limits.

    The kernel counts the disk's own time (block/blk-mq.c, `blk_account_io_done`), and fio (io_u.c,
    ioengines.c) the time of a submission, and from there to the completion. Raises BlklabError.
    """
    device = results_device(machine)
    options = ["--output-format=json", "--name=alone", f"--filename={device}", *ALONE.split(), "--thread"]
    with machine.agent.sampling(CALM_SPAN_MS, [DISKSTATS]) as samples:
        ran = machine.agent.run(["fio", *options], timeout=PATIENCE)
    counted = [
        (sample.t_ns, diskstats.of(diskstats.parse(sample.files.get(DISKSTATS) or ""), device.removeprefix("/dev/")))
        for sample in samples
    ]
    spans = []
    for (start_ns, before), (end_ns, after) in pairwise(counted):
        reads = after.reads - before.reads
        if reads > 0:
            busy_ns = (after.read_ticks - before.read_ticks) * diskstats.MS
            spans.append(((end_ns - start_ns) / reads, busy_ns / reads))
    document = output.parse_document(ran.stdout)
    iops = output.outcome(document).read.iops
    if not spans or not iops:
        raise BlklabError("cannot measure the cost of an I/O: fio in the guest did not read")
    interval_ns, latency_ns = sorted(spans)[len(spans) // 4]
    fio_read = next(JsonNode(document, "").parts("jobs")).part("read") or JsonNode({}, "")
    # fio has only means: the same share of this interval.
    shares = [parse_latency(fio_read, 1, key).mean * iops / 1e9 for key in ("slat_ns", "clat_ns")]
    return IoCost(
        latency_ns=max(0, round(latency_ns)),
        submit_ns=round(interval_ns * shares[0]),
        reap_ns=max(0, round(interval_ns * (1 - sum(shares)))),
        wake_ns=max(0, round(interval_ns - latency_ns)),
    )


EVERY = "all"  # Selects every layer for tracing
SPAN_MS = 250  # ms between two readings of the devices' statistics: the precision of the load's start and end
SLOW_MS = 1_000  # The same if the duration of the load is unknown
READINGS = 15_000  # Most samples in a run, of the 20,000 that the agent keeps (crates/agent/src/files.rs)
TRACES = "/run/blklab-trace"
TRACE = re.compile(r"[\w!.-]+\.blktrace\.\d+", re.A)
"""Names of blktrace's files: one for each device and processor."""


POLL = 0.05  # Seconds between two checks whether the load has begun
Event = tuple[int, Callable[[GuestStack, str, str], None], str, str]
"""Time in ns from the start of the load; the action, with the array and the member's path."""


DIRECTORY = "/run/blklab"  # fio's working directory in the guest


def play(
    machine: GuestMachine,
    document: documents.FioCellDocument,
    target: str,
    progress: Progress,
    *,
    runtime_ns: int | None = None,
    log_ms: int | None = None,
    phase: str = "measure",
    alongside: AbstractContextManager[object] | None = None,
) -> FioExit:
    """Runs a cell's jobs on a device or a file of the guest, within `alongside`. Raises BlklabError."""
    agent = machine.agent
    text = jobfile.render(document, Path(target), runtime_ns=runtime_ns, log_ms=log_ms)
    agent.run(["rm", "-rf", DIRECTORY])
    agent.run(["mkdir", "-p", DIRECTORY])
    agent.write(f"{DIRECTORY}/job.fio", text)
    if (replay := document.get("replay")) is not None:
        agent.write(str(Path(DIRECTORY).parent / jobfile.REPLAY), _replay_log(replay))
    seconds = jobfile.seconds(document, runtime_ns)
    options = ["--output-format=json+"]
    messages = FioMessages()
    lines_shown = 0

    def heard(_stream: str, chunk: str) -> None:
        nonlocal lines_shown
        lines = messages.take(chunk)
        for at in range(lines_shown + 1, lines_shown + lines + 1):  # one a second
            progress(FioProgress(float(at), seconds, *messages.rates, phase=phase))
        lines_shown += lines

    with alongside or nullcontext():
        ran = agent.run(
            ["fio", *options, "--output=job.json", "--eta=always", "job.fio"],
            cwd=DIRECTORY,
            timeout=None if seconds is None else seconds + PATIENCE,
            stream=heard,
            check=False,
        )
    written = fetch(machine, [f"{DIRECTORY}/job.json", f"{DIRECTORY}/*.log"])
    result = written.pop(f"{DIRECTORY}/job.json", "")
    if ran.status:
        words = complaint(messages.text + ran.stderr + result.partition("{\n")[0], ran.status)
        raise BlklabError(f"fio failed in the guest: {printable(words)}")
    logs = {path.rpartition("/")[2]: content for path, content in written.items()}
    return FioExit(result, messages.text, logs, ["fio", *options, "job.fio"])


MOST_LOG = 12 << 20  # Bytes of a log, which is one message to the guest (crates/agent/src/frame.rs)


def _replay_log(replay: documents.ReplayDocument) -> str:
    """Returns the log that fio replays. Raises BlklabError if it is too large for the guest."""
    with tempfile.TemporaryDirectory(prefix="blklab-") as directory:
        path = Path(directory) / jobfile.REPLAY
        jobfile.write_replay(replay, path)
        if (size := path.stat().st_size) > MOST_LOG:
            raise BlklabError(
                f"{replay['path']}: its {replay['ios']:,} I/Os are {format_size(size)} of fio's log, "
                f"expected at most {format_size(MOST_LOG)}: replay a shorter trace (blklab trace convert --until)"
            )
        return path.read_text()


WARM_NS = 20 * 10**9  # Duration of the load that fills a warm cache
JUNK = f"{MOUNT}/junk"  # The file that fills a cache below a filesystem with data that the load does not use
READ = 64 << 10  # Bytes of a read that fills a bcache; a bucket holds several
BUCKETS_A_SECOND = 150  # Rate at which an emulated guest's allocator was observed to prepare buckets
UNUSED = 5  # Per cent of a bcache's buckets that may stay unused
PASSES = 5  # Most attempts to fill a bcache
Fill = Callable[[str, Mapping[str, str]], None]  # Runs fio on a file or a device with some options


def prepare(
    machine: GuestMachine, guest: GuestStack, document: documents.LabCellDocument, target: str, progress: Progress
) -> None:
    """Writes the file, and brings caches into their state, before the disks are throttled. Raises BlklabError."""

    def fill(path: str, options: Mapping[str, str]) -> None:
        words = {"ioengine": "libaio", "direct": "1", "iodepth": str(DEPTH), "fallocate": "none"}
        job: documents.FioJobDocument = {"name": "fill", "options": {**words, "end_fsync": "1", **options}}
        play(machine, documents.bare_cell(document["seed"], job), path, progress, phase="fill")

    if document["filesystem"] is not None:
        _write(fill, target, 0, documents.extent(document))
    for kind, table in documents.built_nodes(document["stack"]):
        state = table.get("state")  # only caches have one
        if state == "warm":
            play(machine, document, target, progress, runtime_ns=WARM_NS, phase="warm")
        elif state == "layout" and document["filesystem"] is None:
            _write(fill, target, 0, documents.extent(document))
        elif state in {"junk", "junk-dirty"}:
            _junk(fill, guest, document, target, kind, table)
    guest.write("/proc/sys/vm/drop_caches", "3")


def _junk(
    fill: Fill, guest: GuestStack, document: documents.LabCellDocument, target: str, kind: str, table: Mapping[str, Any]
) -> None:
    """Fills a cache with blocks after those that the jobs use: clean ones, or dirty ones of lvmcache.

    Raises BlklabError if there is no space after the jobs' data.
    """
    many = _room(document, table)
    if not many:
        raise BlklabError(
            f"{table['name']}: no space is left after the jobs' data to fill its cache with: "
            "give the jobs a smaller size"
        )
    begin = documents.extent(document)
    if document["filesystem"] is not None:
        target = JUNK
        begin = 0
        _write(fill, target, begin, many)
    region = {"offset": str(begin), "size": str(many)}
    if kind == "lvmcache":
        # dm-cache takes a block in at once when all of it is written, as long as it has free ones,
        # if its mode is writeback (dm-cache-target.c, `optimisable_bio`).
        lvm.mode(guest, table["name"], "writeback")
        if table["state"] == "junk-dirty":
            lvm.never_idle(guest, table["name"])
        options = {"rw": "write", "bs": str(table["chunk"]), **region}
        fill(target, options)
        if table["state"] == "junk":
            lvm.mode(guest, table["name"], "writethrough")  # which writes all dirty blocks back
        lvm.mode(guest, table["name"], table["mode"])
        return
    # bcache takes in what is read and missed, unless it is bypassed (bcache/request.c,
    # `check_should_bypass`), or its allocator has no bucket ready at that moment.
    size = min(table["bucket"], READ)
    pace = {"iodepth": "1", "rate_iops": str(BUCKETS_A_SECOND * table["bucket"] // size)}
    options = {"rw": "randread", "bs": str(size), **region, **pace}
    with bcache.unbypassed(guest, table):
        for _ in range(PASSES):
            fill(target, options)
            if bcache.buckets(guest, table["name"]).get("unused_percent", 0) <= UNUSED:
                break


def _room(document: documents.LabCellDocument, table: Mapping[str, Any]) -> int:
    """Returns the space after the jobs' data, at most the cache's size; bytes."""
    cache = table["cache"]
    size = int(document["devices"][cache["device"]]["bytes"]) if "device" in cache else None
    free = int(document["room"]) - documents.extent(document)
    return max(0, min(free, size or free) // BLOCK * BLOCK)


def _write(fill: Fill, target: str, begin: int, many: int) -> None:
    size = -(-many // BLOCK) * BLOCK
    fill(target, {"rw": "write", "bs": str(BLOCK), "offset": str(begin), "size": str(size)})


class FaultSchedule:
    """Runs a cell's events during the block, which must be fio's whole time.

    Times count from the first I/O of the stack's top, or from when fio first reports I/O: an
    emulated guest takes seconds to start it. A sync that does not begin raises BlklabError at
    the block's end. Other failures, and events for which there was no time, are `problems`.
    """

    def __init__(self, guest: GuestStack, document: documents.LabCellDocument) -> None:
        """Raises BlklabError if a member that must fail does not exist."""
        self._guest = guest
        self._events = _events(guest, document)
        self.problems: list[str] = []  # What failed or did not happen; complete after the block
        self._error: Exception | None = None
        self._started = False
        self._told = threading.Event()
        self._stop = threading.Event()
        self._before: str | None = None
        self._thread = threading.Thread(target=self._run, name="blklab-during", daemon=True)

    def listening(self, progress: Progress) -> Progress:
        """Wraps `progress` to notice fio's first I/O: with buffered I/O, devices are idle for long."""

        def heard(live: FioProgress) -> None:
            if (live.read_iops or 0) + (live.write_iops or 0) > 0:
                self._told.set()
            progress(live)

        return heard

    def __enter__(self) -> Self:
        if self._events or self._guest.starting:
            self._before = self._count()
            self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop.set()
        if error is not None and not isinstance(error, Exception):
            return  # blklab is told to end, and the guest with it: nothing is waited for
        if self._thread.ident is not None:
            self._thread.join()
        if error is not None:
            return
        if self._error is not None:
            raise self._error
        if not self._started:
            self.problems += [
                f"{name}: the load ended before its {sync} began" for name, sync in self._guest.syncing.items()
            ]
        for at_ns, act, array, path in self._events:
            action = "failed" if act is md.fail else "could be re-added"
            member = self._guest.layer(path.removeprefix("/dev/")).name
            self.problems.append(
                f"{array}: the load ended before {member} {action}, {format_duration(at_ns)} after its start"
            )

    def _run(self) -> None:
        try:
            self._play()
        except GuestGone:
            return  # who waits for the load is told as well
        except Exception as error:  # raised again where it is seen
            self._error = error

    def _play(self) -> None:
        while not self._told.is_set() and self._count() == self._before:
            if self._stop.wait(POLL):
                return
        began = time.monotonic()
        self._started = True
        for start in self._guest.starting:
            start()
        while self._events:
            at_ns, act, array, path = self._events[0]
            if self._stop.wait(max(0.0, at_ns / 1e9 - (time.monotonic() - began))):
                return
            del self._events[0]
            try:
                act(self._guest, array, path)
            except GuestGone:
                raise
            except BlklabError as error:
                self.problems.append(f"{array}: {error}")

    def _count(self) -> str | None:
        return self._guest.read(f"/sys/block/{self._guest.layers[-1].kernel}/stat")


def _events(guest: GuestStack, document: documents.LabCellDocument) -> list[Event]:
    events: list[Event] = []
    for failure in document["failures"]:
        member = md.member(guest, failure["array"], failure["slot"])
        events.append((failure["at_ns"], md.fail, failure["array"], member))
        if failure["re_add_ns"] is not None:
            events.append((failure["re_add_ns"], md.re_add, failure["array"], member))
    return sorted(events, key=lambda event: event[0])


def shapes(document: documents.LabCellDocument) -> list[VirtualDiskShape]:
    """Returns the disk of each device of a cell."""
    taken = dict(_taken(document["stack"], document["devices"]))
    return [
        VirtualDiskShape(
            name=device["name"],
            bytes=device["bytes"] + taken.get(at, 0),
            logical_block_size=device["virtual"]["logical_block_size"],
            physical_block_size=device["virtual"]["physical_block_size"],
            queue_depth=device["virtual"].get("queue_depth"),
            discard=device["virtual"]["discard"],
            write_back=device["queue"]["write_back"],
        )
        for at, device in enumerate(document["devices"])
    ]


def layers(document: documents.LabCellDocument) -> set[str]:
    """Returns the names of a cell's devices, arrays and volumes."""
    return {device["name"] for device in document["devices"]} | {
        table["name"] for _, table in documents.built_nodes(document["stack"])
    }


def _taken(node: documents.Node, devices: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yields the bytes that each layer needs on a disk besides data.

    The layers then have their stated sizes. A cache is as large as its disk, including its metadata.
    """
    for _, table in documents.built_nodes(node):
        for key, child in documents.nodes_below(table):
            if "device" in child and key != "cache":
                # md leaves room for a reshape, by size (mdadm's super1.c, `choose_bm_space` and
                # `validate_geometry1`: a thousandth, 128 MiB at most); others take less than 8 MiB.
                size = devices[child["device"]]["bytes"]
                yield child["device"], min(256 << 20, (8 << 20) + (size // 512 >> 20 << 20))


def measure(
    machine: GuestMachine,
    document: documents.LabCellDocument,
    progress: Callable[[FioProgress], object],
    *,
    scale: float = 1,
    traced: Sequence[str] = (),
    traces: Path | None = None,
) -> FinishedRun:
    """Measures a cell, its devices' rates divided by `scale`. Raises BlklabError.

    Afterwards check whether the guest can serve another cell. `traced` are layers whose events
    are recorded, by name or EVERY, into `traces`.
    """
    began = time.monotonic()
    machine.io_cost = machine.io_cost or measure_io_cost(machine)
    disks = [machine.disk(shape) for shape in shapes(document)]
    wanted = rates(document, scale)
    document = _slowed(document, scale)
    guest = GuestStack(machine.agent)
    try:
        for disk in disks:
            machine.throttle(disk, {})
            disk.clear()
        with machine.paused_watch():
            target = build(guest, document, [disk.serial for disk in disks])
            apply_settings(guest, document["settings"])
            prepare(machine, guest, document, target, progress)
            for disk, limits in zip(disks, wanted.limits, strict=True):
                machine.throttle(disk, limits)
            finished = _load(machine, guest, document, target, progress, traced, traces, wanted)
    except BlklabError:  # if blklab is interrupted, the guest is thrown away as it is
        if machine.agent.connected:
            with suppress(BlklabError):
                _take_down(machine, guest, disks)
        raise
    try:
        _take_down(machine, guest, disks)
    except BlklabError as error:  # the result stays valid; the runner boots a new guest
        if not machine.agent.connected:
            raise
        finished.outcome.warnings = [*finished.outcome.warnings, f"after the load: {error}"]
    return FinishedRun(finished.outcome, time.monotonic() - began, finished.points, finished.raw)


def _take_down(machine: GuestMachine, guest: GuestStack, disks: Sequence[VirtualDisk]) -> None:
    """Removes everything of a cell from the guest. Raises BlklabError if something remains."""
    machine.spoilt = True  # until it is known to be as it was
    for disk in disks:
        machine.throttle(disk, {})
    problems = guest.undo()
    machine.spoilt = bool(problems)
    if problems:
        raise BlklabError(f"cannot remove the stack: {problems[0]}")


def _load(
    machine: GuestMachine,
    guest: GuestStack,
    document: documents.LabCellDocument,
    target: str,
    progress: Progress,
    traced: Sequence[str],
    traces: Path | None,
    wanted: DiskRates,
) -> FinishedRun:
    interval_ns = int(document["interval_ns"])
    log_ms = max(1, interval_ns // 10**6)
    span_ms = _span_ms(document, log_ms)
    recorded = [layer for layer in guest.layers if layer.name in traced or EVERY in traced]
    # A cache's counts take seconds to clear, in which a rebuild could be over.
    for ready in guest.readying:
        ready()
    with ExitStack() as stack_:
        traced_ill = stack_.enter_context(_tracing(machine, guest, recorded)) if recorded else []
        during = FaultSchedule(guest, document)
        waiting = PressureMeter()
        samples = stack_.enter_context(machine.agent.sampling(span_ms, [DISKSTATS, STAT]))
        ran = play(*(machine, document, target, during.listening(progress)), log_ms=log_ms, alongside=during)
        waited = waiting.share()
    fio_figures = figures(ran, interval_ns, log_ms, timed=document.get("replay", {}).get("timed", False))
    seen = watched(guest, samples, document)
    outcome = fio_figures.outcome
    outcome.devices = seen.devices
    outcome.watched_ns = seen.watched_ns
    outcome.cpu = seen.cpu
    outcome.targets = [report() for report in guest.reports]
    outcome.mdstat = guest.read("/proc/mdstat")
    outcome.lab = describe_guest(machine, guest, document, wanted, waited)
    outcome.warnings = [
        *map(str, check(document, wanted, seen.cpu)),
        *outcome.warnings,
        *seen.problems,
        *during.problems,
        *traced_ill,
    ]
    if recorded and traces is not None:
        save(machine, f"{TRACES}/*", traces, old=TRACE)
        (traces / "blklab.json").write_text(json.dumps({"stack": _recorded_stack(guest)}, indent=2) + "\n")
        guest.run("rm", "-rf", TRACES)  # out of the guest's memory
        outcome.lab.traces = str(traces)
    return FinishedRun(outcome, 0.0, [*fio_figures.series, *seen.points], packed(ran.output))


def _recorded_stack(guest: GuestStack) -> list[dict[str, object]]:
    """Returns the layers as `blklab trace record` does; the names are those of the experiment."""
    kernel = {layer.name: layer.kernel for layer in guest.layers}
    return [
        {
            "number": (guest.read(f"/sys/block/{layer.kernel}/dev") or "").strip(),
            "name": layer.kernel,
            "label": layer.kernel,
            "kind": layer.kind,
            "role": layer.role,
            "bytes": int(guest.read(f"/sys/block/{layer.kernel}/size") or 0) * 512 or None,
            "above": [kernel[name] for name in layer.above],
        }
        for layer in guest.layers
    ]


def _slowed(document: documents.LabCellDocument, scale: float) -> documents.LabCellDocument:
    """Returns a cell with its latencies scaled like its rates."""
    devices: list[documents.LabDeviceDocument] = []
    for device in document["devices"]:
        model = device["model"]
        if model["kind"] == "throttled" and (latency := int(documents.latency_ns(model) * scale)):
            model = {**model, "latency_ns": latency}
        devices.append({**device, "model": model})
    return {**document, "devices": devices}


def _span_ms(document: documents.LabCellDocument, log_ms: int) -> int:
    """Returns the time between two readings, so that their number stays below the agent's limit."""
    seconds = jobfile.seconds(document)
    if seconds is None:
        return max(SLOW_MS, min(SPAN_MS, log_ms))
    return max(min(SPAN_MS, log_ms), int((seconds + PATIENCE) * 1000 / READINGS) + 1)


@contextmanager
def _tracing(machine: GuestMachine, guest: GuestStack, layers: Sequence[GuestLayer]) -> Iterator[list[str]]:
    """Records the events of layers during the block, and yields the warnings, complete after it. Raises BlklabError."""
    problems: list[str] = []
    guest.run("rm", "-rf", TRACES)
    guest.run("mkdir", "-p", TRACES)
    devices = []
    for layer in layers:
        devices += ["-d", layer.path]
    with machine.agent.running(["blktrace", "-D", TRACES, *devices], cwd=TRACES) as exits:
        guest.until(lambda: len(guest.glob(f"{TRACES}/*")) >= len(layers), "blktrace records events")
        yield problems
    for ran in exits:
        problems += dropped(ran.stdout + ran.stderr)


def dropped(output: str) -> list[str]:
    """Returns a warning about events that blktrace has lost (blktrace.c, `show_stats`)."""
    lost = re.findall(r"have (\d{1,18}) .{0,20}dropped events", output, re.A)[:1]
    return [f"blktrace dropped {many} events: the guest was too slow to write the traces" for many in lost]
