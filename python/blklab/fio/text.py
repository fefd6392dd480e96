"""fio's normal output, versions 2.0 to 3.x: any number of runs in a text.

fio prints rounded figures: `IOPS=30.2k`, `io=7078MiB`. If it also prints the exact count (`issued`), rates are this
count over the runtime, by fio's formula (show_ddir_status in stat.c), and bytes are the count times the block size. If
the rounded figures contradict this, they are used instead. Percentiles are as printed: whole numbers in the unit of the
table. Since 3.0 `KiB` is 1024 bytes and `kB` 1000; before, `KB` and `K` are 1024.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from blklab.errors import BlklabError
from blklab.fio import latency, output
from blklab.fio.command_line import CommandLine, parse_command_lines
from blklab.fio.latency import LatencySummary
from blklab.fio.node import FioDocument
from blklab.fio.output import FioDirection, FioJobResult
from blklab.outcome import Outcome
from blklab.text.printing import printable

MOST_JOBS = 100_000  # Maximum number of jobs in a text
MIXED = ("rw", "readwrite", "randrw")  # Words that read and write; fio prints only directions with I/O
UNITS = {"nsec": 1, "usec": 1000, "msec": 10**6}

_NAME = r"\S.{0,200}?"
NAME = f"(?P<name>{_NAME})"  # Characters of a job name
_HEADER = re.compile(NAME + r": \(g=(?P<group>\d{1,9})\):\s{0,9}rw=(?P<rw>\w+),(?P<rest>.*)")
_SIZES = re.compile(r"(?P<low>[\d.]{1,20})(?P<low_unit>[kKMG]?)(?:i?B)?-(?P<high>[\d.]{1,20})(?P<high_unit>[kKMG]?)")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{0,9})?) ?([kKMGTP]?)(i?)([Bb]?)")
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_JOB = re.compile(
    NAME + r": \(groupid=(?P<group>\d{1,9}),\s{0,9}jobs=(?P<jobs>\d{1,9})\)"
    r"(?::\s{0,9}err=\s{0,9}(?P<error>\d{1,9})(?P<why>[^)]{0,300}\))?)?"
)
_PID = re.compile(r"\bpid=(\d{1,10})")
_NUMBER = r"(\d{1,18}(?:\.\d{0,9})?)"
_WAY = re.compile(
    r"(?P<way>\w+)\s{0,3}:\s{0,3}io=\s{0,9}(?P<io>[\d.]{1,20} ?\w{0,4})\s?,\s{0,9}"
    r"bw=\s{0,9}(?P<bw>[\d.]{1,20} ?\w{0,4})(?:/s(?:ec)?)?\s?,\s{0,9}"
    r"iops=\s{0,9}(?P<iops>[\d.]{1,20}[kKMG]?)\s{0,9},\s{0,9}runt=\s{0,9}(?P<runtime>\d{1,18})\s?msec"
)
_WAY_3 = re.compile(
    r"(?P<way>\w+)\s{0,3}:\s{0,3}IOPS=\s{0,9}(?P<iops>[\d.]{1,20}[kKMG]?),\s{0,9}"
    r"BW=\s{0,9}(?P<bw>[\d.]{1,20}\w{0,4})/s\s{0,9}(?:\([^)]{0,40}\))?\s{0,9}"
    r"\((?P<io>[\d.]{1,20}\w{0,4})\s?/\s?(?P<runtime>\d{1,18})msec\)"
)
_LATENCY = re.compile(
    r"(?:clat|sync) \((?P<unit>\w+)\)\s{0,9}:\s{0,9}"
    r"min=\s{0,20}(?P<min>[\d.]{1,20}[kKMG]?)\s{0,9},\s{0,9}"
    r"max=\s{0,20}(?P<max>[\d.]{1,20}[kKMG]?)\s{0,9},\s{0,9}avg=\s{0,20}(?P<mean>[\d.]{1,20}[kKMG]?)"
    r"\s{0,9},\s{0,9}stdev=\s{0,20}(?P<stddev>[\d.]{1,20}[kKMG]?)"
)
_TABLE = re.compile(r"(?:clat|sync) percentiles \((\w+)\)")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,6})th=\[\s{0,20}>?=?(\d{1,18})\s{0,9}\]")
_CPU = re.compile(rf"usr=\s{{0,9}}{_NUMBER}%,\s{{0,9}}sys=\s{{0,9}}{_NUMBER}%,\s{{0,9}}ctx=\s{{0,9}}(\d{{1,18}})")
_ISSUED = re.compile(
    r"total=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})(?:[,/](?:[dt]=)?(\d{1,18}))?(?:,(\d{1,18}))?"
    r"(?: short=(\d{1,18}))?"
)
_STARTING = re.compile(r"(\d{1,9}) (?:process|thread)")
_DISK = re.compile(r"([^\s:,]{1,100}): (.*)")
_PAIR = re.compile(r"\b(\w{2,20})=\s{0,9}(\d{1,18}(?:\.\d{1,9})?)(?:/(\d{1,18}))?")


LONGEST = 4000  # Maximum characters of a line that are read; fio's lines are shorter
WIDTH = 79  # Characters: a line of this length may have been wrapped in the middle of a word
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B]|[=>])")
_ETA = re.compile(r"Jobs: \d{1,9} \(f=.{0,3000}?\[eta [\w:-]{0,40}\]?")
_QUOTED = re.compile(r"(?:[ \t]{0,3}>){1,20} ?")
JOINED = 300  # Characters: a longer line with a job's results has lost its line ends

# Where lines begin that were joined to one
_BREAKS = re.compile(
    "|".join(
        (
            r"\S{1,200}: \((?:g=|groupid=)\d{1,9}",
            r"\bfio-\d{1,3}\.\d[\w.+-]{0,60}",
            r"\bStarting \d",
            r"\b(?:read|write|trim|mixed)\s{0,3}:\s{0,3}(?:io|IOPS)\s{0,3}=",
            r"\b(?:slat|clat|lat|sync)(?: percentiles)? \([num]sec\)",
            r"\| {1,3}\d{1,2}\.\d{1,6}th=",
            r"\bbw \(\s{0,4}[KMG]i?B",
            r"\biops\s{1,12}:",
            r"\bcpu\s{1,20}:",
            r"\bIO depths\b",
            r"\b(?:submit|complete)\s{1,12}:",
            r"\bissued(?: rwts?)?\s{0,9}:",
            r"\blatency\s{1,9}: target",
            r"\bRun status group \d",
            r"\b(?:READ|WRITE|TRIM|MIXED): bw",
            r"\bDisk stats \(",
            r"[^\s:,]{1,100}: ios=\d",
        )
    )
)

_BEGINNINGS = {  # The beginning of a line, by kind; NAME is that of a job
    "header": r"NAME: \(g=\d{1,9}\):",
    "job": r"NAME: \(groupid=\d{1,9},",
    "version": r"(?:fio[ -]\d{1,3}\.\d[\w.+-]{0,60}|[12]\.\d{1,2}(?:\.\d{1,2})?)$",
    "way": r"(?:read|write|trim|mixed)\s{0,3}:\s{0,3}(?:io|IOPS)\s{0,3}=",
    "latency": r"(?:slat|clat|lat|sync)\s{1,3}\([num]sec\)\s{0,9}:\s{0,3}min=",
    "percentiles": r"\w[\w/ .()%]{0,60}? percentiles \([num]sec\)",
    "row": r"\|",
    "cpu": r"cpu\s{1,20}:\s{0,3}usr=",
    "issued": r"issued(?: rwts?)?\s{0,9}:\s{0,3}total=",
    "status": r"Run status group \d",
    "disks": r"Disk stats \(read/write\)",
    "disk": r"[^\s:,]{1,100}: ios=\d",
    "said": r"(?:note|fio|warning|Warning|verify|client)\b.{0,60}?:",
    "starting": r"Starting \d",
    "other": (
        r"(?:bw|iops|lat|IO depths|submit|complete|latency|READ|WRITE|TRIM|MIXED|"
        r"steadystate)\s{0,12}(?:\([^)]{0,12}\))?\s{0,9}:|Jobs: |fsync/|\.\.\.$|Laying out |"
        r"All clients"
    ),
}
_START = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in _BEGINNINGS.items()).replace("NAME", _NAME))

_END = {  # The end of a complete line, by kind; lines of other kinds are not read
    "header": re.compile(r"iodepth=\d+$"),
    "job": re.compile(r"pid=\d+(?::.{0,60}\d{4})?$"),
    "way": re.compile(r"msec\)?(?:; \d+ zone resets)?$"),
    "latency": re.compile(r"stdev=\s{0,9}[\d.]+[kKMG]?$"),
    "row": re.compile(r"\],?$"),
    "cpu": re.compile(r"minf=\d+$"),
    "issued": re.compile(r"\d$"),
    "disk": re.compile(r"util=\s{0,9}[\d.]+%$"),
}
_REST = re.compile(r"[\w.,%/:=)\]]{1,30}")  # The end that a wrapped line can lose although it looks complete


class TextLine(NamedTuple):
    """A line as fio wrote it, stripped."""

    number: int  # The line number, from 1
    kind: str
    text: str


def lines(text: str) -> Iterator[TextLine]:
    """Yields fio's lines, restored."""
    line: TextLine | None = None
    length = 0
    for number, piece in _pieces(text):
        bare = piece.strip()
        match = _START.match(bare)
        if match is None and line is not None and bare and _goes_on(line, length, bare):
            glue = "" if length >= WIDTH or line.text.endswith(",") else " "
            # A wrapped line keeps the space at the start of the next line.
            continuation = piece.rstrip() if length >= WIDTH else bare
            line = TextLine(line.number, line.kind, (line.text + glue + continuation)[:LONGEST])
            length = len(piece)
            continue
        if line is not None:
            yield line
        line = None
        length = len(piece)
        if match is not None and match.lastgroup is not None:
            line = TextLine(number, match.lastgroup, bare)
    if line is not None:
        yield line


def _goes_on(line: TextLine, length: int, continuation: str) -> bool:
    end = _END.get(line.kind)
    if end is None or len(line.text) >= LONGEST:
        return False
    if end.search(line.text):
        return length == WIDTH + 1 and _REST.fullmatch(continuation) is not None
    return length >= WIDTH // 2


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yields the text between line ends and carriage returns, with line numbers."""
    for number, line in enumerate(text.split("\n"), 1):
        plain = _ANSI.sub("", line) if "\x1b" in line else line
        if len(plain) > JOINED and "groupid=" in plain and _BREAKS.search(plain):
            plain = _BREAKS.sub(r"\r\g<0>", plain)
        if "Jobs: " in plain:
            plain = _ETA.sub("\r", plain)
        for piece in plain.split("\r"):
            shown = piece[:LONGEST].expandtabs()
            quote = _QUOTED.match(shown)
            yield number, shown[quote.end() :] if quote else shown


@dataclass
class TextHeader:
    """The options of a job that fio prints."""

    name: str
    group: int
    options: dict[str, str]  # Options in the form of `job options` in fio's JSON
    sizes: tuple[int | None, int | None]  # Bytes of a read and of a write; None if they vary


@dataclass(frozen=True)
class TextRun:
    """The output of one fio run."""

    line: int  # Its first line
    jobs: Sequence[FioJobResult]
    document: FioDocument  # The parts of the JSON document without jobs: `fio version`, `disk_util`, `notes`
    error: str | None = None  # The error and its line; such a run has no outcomes

    def outcomes(self) -> list[Outcome]:
        """Returns one outcome for each group, like `blklab.fio.output.outcomes`. Raises BlklabError."""
        if self.error is not None:
            raise BlklabError(self.error)
        return output.group_outcomes(self.document, self.jobs)


@dataclass
class _TextDirection:
    """One direction of a job, as far as it has been read."""

    iops: float
    iops_step: float  # The value of the last digit before the point
    size: int
    size_step: float
    bandwidth: int
    runtime_ms: int
    times: Sequence[float] = ()  # Minimum, maximum, mean and standard deviation, ns
    percentiles: dict[float, int] = field(default_factory=dict)


@dataclass
class _TextJob:
    name: str
    group: int
    jobs: int
    pid: str
    directions: dict[str, _TextDirection] = field(default_factory=dict)
    issued_ios: tuple[int, int, int, int] | None = None  # Reads, writes, trims, syncs
    sync: _TextDirection | None = None
    cpu: tuple[float, float, int] = (0.0, 0.0, 0)


class _TextReader:
    def __init__(self, commands: Sequence[CommandLine]) -> None:
        self.runs: list[TextRun] = []
        self._commands = commands
        self._total = 0
        self._headers: list[TextHeader] = []
        self._pids: list[tuple[str, int, str]] = []
        self._begin(0)

    def _begin(self, line: int) -> None:
        self._line = line
        self._jobs: list[_TextJob] = []
        self._way: _TextDirection | None = None
        self._table: int | None = None
        self._ended = False
        self._expected = 0
        self._version = ""
        self._time = ""
        self._disks: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._failed: str | None = None

    def _next(self, line: TextLine, *, headers: bool) -> None:
        """Begins the next run if the current one has jobs; `headers` are the next run's headers."""
        if self._jobs:
            self.close()
            self._begin(line.number)
            if headers:
                self._headers = []
        self._line = self._line or line.number

    def read(self, line: TextLine) -> None:
        """Takes a line. Raises BlklabError for a truncated line."""
        read_kind = _READERS.get(line.kind)
        if read_kind is not None:
            read_kind(self, line)

    def _wrong(self, line: TextLine, expected: str) -> BlklabError:
        return BlklabError(f"line {line.number}: found {printable(line.text[:60])!r}, expected {expected}")

    def _read_header(self, line: TextLine) -> None:
        self._next(line, headers=True)
        header = _header(line.text)
        if header is None:
            raise self._wrong(line, "a job's rw=…, bs=…, iodepth=…")
        if header not in self._headers and len(self._headers) < MOST_JOBS:
            self._headers.append(header)

    def _read_version(self, line: TextLine) -> None:
        self._next(line, headers=True)
        self._version = printable(line.text)

    def _read_starting(self, line: TextLine) -> None:
        self._expected = sum(map(int, _STARTING.findall(line.text)))

    def _read_job(self, line: TextLine) -> None:
        if self._ended:
            self._next(line, headers=False)
        self._line = self._line or line.number
        match = _JOB.match(line.text)
        if match is None:
            raise self._wrong(line, "NAME: (groupid=…, jobs=…): err=…")
        pid = _PID.search(line.text)
        self._time = line.text[pid.end() :].lstrip(": ") if pid else ""
        name = printable(match["name"])
        self._jobs.append(_TextJob(name, int(match["group"]), int(match["jobs"]), pid[1] if pid else ""))
        self._total += 1
        if self._total > MOST_JOBS:
            raise BlklabError(f"line {line.number}: more than {MOST_JOBS:,} jobs")
        if int(match["error"] or 0):
            why = printable((match["why"] or "").strip())
            message = f"line {line.number}: job {name!r} failed: err={match['error']}{why and ' ' + why}"
            self._failed = self._failed or message
        self._way = self._table = None

    def _read_way(self, line: TextLine) -> None:
        if not self._jobs or self._ended:
            return
        if line.text.startswith("mixed") and self._jobs[-1].directions:
            self._way = self._table = None  # the sum of the directions before it
            return
        old = _WAY.match(line.text)
        match = old or _WAY_3.match(line.text)
        if match is None:
            raise self._wrong(line, "IOPS, bandwidth, size and runtime")
        job = self._jobs[-1]
        name = match["way"]
        kilo = 1024 if old else 1000
        self._way = _TextDirection(
            _parse_scaled_number(match["iops"]),
            _unit_of(match["iops"]),
            _in_bytes(match["io"], kilo),
            _unit_of(match["io"], kilo),
            _in_bytes(match["bw"], kilo),
            int(match["runtime"]),
        )
        self._table = None
        job.directions[name] = self._way

    def _read_latency(self, line: TextLine) -> None:
        self._table = None
        if line.text.startswith("sync") and self._jobs:
            self._way = self._jobs[-1].sync = _TextDirection(0.0, 0.0, 0, 0.0, 0, 0)
        if self._way is not None and line.text.startswith(("clat", "sync")):
            match = _LATENCY.match(line.text)
            if match is None:
                raise self._wrong(line, "min, max, avg and stdev")
            unit = UNITS[match["unit"]]
            self._way.times = [_parse_scaled_number(match[key]) * unit for key in ("min", "max", "mean", "stddev")]

    def _read_percentiles(self, line: TextLine) -> None:
        match = _TABLE.match(line.text)
        # Other latencies are of submission or of one priority.
        self._table = UNITS[match[1]] if match else None
        self._read_row(line)

    def _read_row(self, line: TextLine) -> None:
        if self._way is None or self._table is None:
            return
        for percentage, value in _PERCENTILE.findall(line.text):
            self._way.percentiles[float(percentage)] = int(value) * self._table

    def _read_cpu(self, line: TextLine) -> None:
        match = _CPU.search(line.text)
        if match and self._jobs:
            jobs = self._jobs[-1].jobs  # The percentages are their mean
            self._jobs[-1].cpu = jobs * float(match[1]), jobs * float(match[2]), int(match[3])
        self._way = self._table = None

    def _read_issued(self, line: TextLine) -> None:
        match = _ISSUED.search(line.text)
        if match and self._jobs and not self._ended:
            counts = [int(count or 0) for count in match.groups()]
            # fio 3.33 prints the number of syncs in the wrong place.
            self._jobs[-1].issued_ios = counts[0], counts[1], counts[2], counts[3] or counts[4]

    def _read_status(self, _: TextLine) -> None:
        self._ended = True

    def _read_disk(self, line: TextLine) -> None:
        match = _DISK.match(line.text)
        if match is None or not self._jobs:
            return
        self._ended = True
        pairs = {name: (first, two) for name, first, two in _PAIR.findall(match[2])}
        missing = {"ios", "merge", "ticks", "in_queue", "util"} - pairs.keys()
        if missing:
            raise self._wrong(line, f"{min(missing)}=…")
        disk: dict[str, Any] = {"name": match[1]}
        for word, key in _DISK_WORDS.items():
            if word in pairs:
                disk |= {f"{direction}_{key}": int(float(pairs[word][index] or 0))
                         for index, direction in enumerate(output.WAYS)}  # fmt: skip
        disk["in_queue"] = int(float(pairs["in_queue"][0]))
        disk["util"] = float(pairs["util"][0])
        if "aggrutil" in pairs:
            disk["aggr_util"] = float(pairs["aggrutil"][0])
        if len(self._disks) < MOST_JOBS:
            self._disks.append(disk)

    def _read_said(self, line: TextLine) -> None:
        if len(self._notes) < output.MOST_NOTES:
            self._notes.append(printable(line.text))

    def _cut(self, *, last: bool) -> str | None:
        """Returns what is missing of a truncated run; None if it is complete."""
        for job in self._jobs:
            header = _header_of(self._headers, job.name, job.group)
            is_mixed = header is not None and header.options["rw"] in MIXED
            for index, direction in enumerate(output.WAYS):
                due = job.issued_ios[index] > 0 if job.issued_ios else is_mixed
                if due and "mixed" not in job.directions and direction not in job.directions:
                    return f"the line about what job {job.name!r} {_DID[direction]} is missing"
        if not last or self._ended:
            return None
        if self._jobs[-1].issued_ios is None:
            return f"the line about what job {self._jobs[-1].name!r} issued is missing"
        count = sum(job.jobs for job in self._jobs)
        groups = {header.group for header in self._headers} - {job.group for job in self._jobs}
        if count < self._expected or groups:
            return f"{count} of {max(count + len(groups), self._expected)} jobs exist"
        return None

    def close(self, *, last: bool = False) -> None:
        """Ends a run, which may be truncated."""
        if not self._jobs:
            return
        if missing := self._cut(last=last):
            self._failed = self._failed or f"line {self._line}: {missing}: the text is truncated"
            self.runs.append(TextRun(self._line, [], {}, self._failed))
            return
        pids = [(job.name, job.group, job.pid) for job in self._jobs]
        if self.runs and pids == self._pids and all(pid for *_, pid in pids):
            # --status-interval prints the same processes several times: the last one counts.
            self.runs.pop()
        self._pids = pids
        command = self._command()
        document = {
            "fio version": self._version or "unknown",
            "time": self._time,
            "disk_util": self._disks,
            "notes": self._notes,
        }
        if command is not None:
            document["command"] = list(command.words)
        jobs: list[FioJobResult] = []
        try:
            jobs = [self._make_job_result(job, command) for job in self._jobs]
        except BlklabError as error:
            self._failed = self._failed or f"line {self._line}: {error}"
        self.runs.append(TextRun(self._line, jobs, document, self._failed))

    def _command(self) -> CommandLine | None:
        """Returns the last command above the run that defines its jobs."""
        names = {job.name for job in self._jobs}
        for command in reversed(self._commands):
            if command.line <= self._line and names <= command.jobs.keys():
                return command
        return None

    def _make_job_result(self, job: _TextJob, command: CommandLine | None) -> FioJobResult:
        header = _header_of(self._headers, job.name, job.group)
        options = dict(header.options) if header else {}
        if command is not None:
            if "bssplit" in command.jobs[job.name]:
                options = {key: value for key, value in options.items() if key not in {"bs", "bsrange"}}
            options = {**command.jobs[job.name], **options}
        clones = [other_job for other_job in self._jobs if (other_job.name, other_job.group) == (job.name, job.group)]
        options["numjobs"] = str(sum(clone.jobs for clone in clones))
        sizes = header.sizes if header else (None, None)
        read, write = (
            _make_direction(job.directions.get(direction), job.issued_ios and job.issued_ios[index], sizes[index])
            for index, direction in enumerate(output.WAYS)
        )
        doubts: list[str] = []
        if "mixed" in job.directions and not job.directions.keys() & {*output.WAYS}:
            # All I/Os are then issued as reads.
            size = sizes[0] if sizes[0] == sizes[1] else None
            mixed_direction = _make_direction(job.directions["mixed"], job.issued_ios and sum(job.issued_ios[:2]), size)
            if options.get("rw") in MIXED:
                options.pop("rw")  # the text does not have the shares of a mix
            (read, write), doubts = output.divide(mixed_direction, options, job.name)
        trims = job.issued_ios[2] if job.issued_ios else int("trim" in job.directions)
        syncs = job.issued_ios[3] if job.issued_ios else 0
        sync = latency.NOTHING if job.sync is None else _times(job.sync, syncs)
        return FioJobResult(job.name, job.group, (read, write), sync, trims, *job.cpu, options, doubts)


_READERS: dict[str, Callable[[_TextReader, TextLine], None]] = {
    "header": _TextReader._read_header,
    "version": _TextReader._read_version,
    "starting": _TextReader._read_starting,
    "job": _TextReader._read_job,
    "way": _TextReader._read_way,
    "latency": _TextReader._read_latency,
    "percentiles": _TextReader._read_percentiles,
    "row": _TextReader._read_row,
    "cpu": _TextReader._read_cpu,
    "issued": _TextReader._read_issued,
    "status": _TextReader._read_status,
    "disk": _TextReader._read_disk,
    "said": _TextReader._read_said,
}
"""What a line of each kind does; lines of other kinds are not read."""


_DID = {"read": "read", "write": "wrote"}
_DISK_WORDS = {"ios": "ios", "sectors": "sectors", "merge": "merges", "ticks": "ticks"}


def _make_direction(direction: _TextDirection | None, issued_ios: int | None, size: int | None) -> FioDirection:
    """Returns the result of a direction, exact where the text is."""
    if direction is None:
        return FioDirection()
    iops = direction.iops
    runtime = direction.runtime_ms
    total = round(iops * runtime / 1000)
    exact = issued_ios is not None
    if issued_ios is not None and runtime:
        exact_iops = issued_ios * 1000 / runtime
        exact = abs(exact_iops - iops) <= max(direction.iops_step, 0.01 * iops)
        if exact:
            iops = exact_iops
            total = issued_ios
    io_bytes = direction.size
    bandwidth = float(direction.bandwidth)
    if exact and size and abs(total * size - io_bytes) <= direction.size_step:
        io_bytes = total * size
        bandwidth = io_bytes * 1000 / runtime if runtime else bandwidth
    return FioDirection(total, io_bytes, iops, bandwidth, runtime, _times(direction, total))


def _times(direction: _TextDirection, total: int) -> LatencySummary:
    if not direction.times or not total:
        return latency.NOTHING
    low, high, mean, stddev = direction.times
    quantiles = {
        name: float(direction.percentiles[percentage])
        for name, percentage in latency.QUANTILES.items()
        if percentage in direction.percentiles
    }
    return LatencySummary(total, mean, stddev, low, high, None, quantiles)


def parse_runs(text: str) -> list[TextRun]:
    """Returns the runs of a text in order; none if it has no output of fio.

    Raises BlklabError with the line for a text that begins like fio's and then differs.
    """
    reader = _TextReader(parse_command_lines(_ANSI.sub("", text)))
    for line in lines(text):
        try:
            reader.read(line)
        except BlklabError as error:
            problem = str(error)
            prefix = "" if problem.startswith("line ") else f"line {line.number}: "
            raise BlklabError(prefix + problem) from None
    reader.close(last=True)
    return reader.runs


def _header(text: str) -> TextHeader | None:
    """Returns the options in the line before a job; None if it is unreadable. Raises BlklabError."""
    match = _HEADER.match(text)
    if match is None:
        return None
    options = {"rw": match["rw"]}
    ranges = [
        (_in_bytes(size["low"] + size["low_unit"]), _in_bytes(size["high"] + size["high_unit"]))
        for size in _SIZES.finditer(match["rest"].partition(", ioengine")[0])
    ][:2]
    if ranges:
        key = "bs"
        texts = [str(low) for low, _ in ranges]
        if any(low != high for low, high in ranges):
            key = "bsrange"
            texts = [f"{low}-{high}" for low, high in ranges]
        options[key] = ",".join(dict.fromkeys(texts))
    for word in ("ioengine", "iodepth"):
        if option_match := re.search(rf"\b{word}=([\w.-]{{1,60}})", match["rest"]):
            options[word] = option_match[1]
    options.setdefault("iodepth", "1")
    sizes = [low if low == high else None for low, high in ranges] or [None]
    return TextHeader(printable(match["name"]), int(match["group"]), options, (sizes[0], sizes[-1]))


def _header_of(headers: Sequence[TextHeader], name: str, group: int) -> TextHeader | None:
    """Returns the header of a job: its own, or that of an earlier job."""
    group_headers = [header for header in headers if header.group == group]
    name_matches = [header for header in group_headers if header.name == name]
    return next(iter(name_matches or [header for header in group_headers if header.name.endswith(name)]), None)


# Numbers as fio's num2str (lib/num2str.c) prints them. All functions raise BlklabError.


def _parse_scaled_number(text: str) -> float:
    """Returns a number that may end with k, M or G (powers of 1000)."""
    bare = text.rstrip("kKMG")
    return _float(bare) * _SCALES[text[len(bare) :][:1].lower()]


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BlklabError(f"found {text[:20]!r}, expected a number") from None


def _in_bytes(text: str, kilo: int = 1024) -> int:
    """Returns a size in bytes: `4K`, `4096B`, `7078MiB`; `kilo` is the value of K without an i."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BlklabError(f"found {printable(text[:20])!r}, expected a size")
    scale = math.pow(1024 if match[3] else kilo, " kmgtp".index(match[2].lower() or " "))
    return round(float(match[1]) * scale / (8 if match[4] == "b" else 1))


def _unit_of(text: str, kilo: int = 1024) -> float:
    """Returns the unit of a printed number: 2^20 for `7078MiB`, 1000 for `30.2k`.

    fio's num2str (lib/num2str.c) loses a carry, so 11.99 is printed as 11.0. A difference of less
    than a unit is no contradiction.
    """
    suffix = text.lstrip("0123456789. ")
    is_size = "b" in suffix.lower() or "i" in suffix
    return float(_in_bytes("1" + suffix, kilo)) if is_size else _parse_scaled_number("1" + suffix)
