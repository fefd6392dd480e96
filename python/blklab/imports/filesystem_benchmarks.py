"""The tables of IOzone (`-a`) and bonnie++ (1.97 to 2.00: its CSV line, otherwise its table).

Each figure is a test, and becomes a run. Both programs print KiB per second; I/Os are the bytes
divided by the record of IOzone, or the chunk of bonnie++: 8 KiB unless the size is printed as
`64G:64k` (bonnie++(8)). bonnie++'s tests of characters measure the processor, and its tests of file
creation are no I/O of blocks: both are left out, as are tests that were too short (`+++++`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from blklab.errors import BlklabError
from blklab.imports.base import ImportedRun, ImportFile, ImportResult, ImportSource, direction_result, outcome
from blklab.text import printable
from blklab.units import parse_size

IOZONE = (  # The tests in the order of the table's columns, and fio's rw
    *(("write", "write"), ("rewrite", "write"), ("read", "read"), ("reread", "read")),
    *(("random-read", "randread"), ("random-write", "randwrite"), ("backward-read", "read")),
    *(("record-rewrite", "write"), ("stride-read", "read"), ("fwrite", "write")),
    *(("frewrite", "write"), ("fread", "read"), ("freread", "read")),
)

BONNIE = (("write", "write"), ("rewrite", "rw"), ("read", "read"), ("seeks", "randread"))
"""The tests, and fio's rw. A rewrite reads each chunk and writes it again."""

_HEAD = re.compile(r"\s{0,99}kB\s{1,20}reclen\s{1,20}write\b", re.I)
_ROW = re.compile(r"\s{0,99}\d{1,15}\s{1,30}\d{1,9}\s{1,30}\d[\d.\s]{0,900}")
_COMMAND = re.compile(r"\biozone((?:\s{1,20}[^\s`|>]{1,200}){1,60})")
_UNIT = re.compile(r"Output is in (?!kBytes/sec)(.{1,40})", re.I)
_TABLE = re.compile(r"\s{0,9}Version\s{1,9}[@#]?\d\.\d{1,2}\w?\s{1,20}-{2,9}Sequential Output")
_CSV = re.compile(r"\s{0,9}1\.9\d,[12]\.\d{1,2}\w?,[^,]{1,99},\d{1,6},\d{0,12},\d{1,12}[KMG]?,.{30,900}")
_SIZE = re.compile(r"(\d{1,15}[KMGT]?)(?::(\d{1,9}[kKmM]?))?")
_FIGURE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kKmM]?)|\+{3,9}|")
_TIME = re.compile(r"(\d{1,12})(us|ms|s)")
_SCALES = {"us": 1e3, "ms": 1e6, "s": 1e9}


def matches_iozone(file: ImportFile) -> bool:
    """Returns whether there is a table of IOzone's in a text."""
    return any(_HEAD.match(line) for line in file.text.split("\n"))


def matches_bonnie(file: ImportFile) -> bool:
    """Returns whether there is a result of bonnie++ in a text."""
    return any(_TABLE.match(line) or _CSV.fullmatch(line) for line in file.text.split("\n"))


def read_iozone(given: ImportSource) -> ImportResult:
    """Returns a run for each figure of IOzone's tables."""
    return ImportResult([run for file in given.files for run in _checked(file, _iozone(file))])


def read_bonnie(given: ImportSource) -> ImportResult:
    """Returns a run for each test of bonnie++."""
    return ImportResult([run for file in given.files for run in _checked(file, _bonnie(file))])


def _checked(file: ImportFile, runs: Iterator[ImportedRun]) -> list[ImportedRun]:
    if not (own := list(runs)):
        raise BlklabError(f"{file.where}: the table has no figures: expected numbers")
    return own


def _run(
    where: str,
    test: tuple[str, str],
    rate: float,
    block: int,
    size: int,
    known: Mapping[str, str],
    latency: Mapping[str, float] | None = None,
) -> ImportedRun:
    """Returns the run of a test that moved `size` bytes at `rate` bytes per second."""
    workload, rw = test
    runtime = max(1, round(size / rate * 1e9))
    done = [rw not in {"write", "randwrite"}, rw in {"write", "randwrite", "rw"}]
    directions = [direction_result(max(1, size // block) * moves, size * moves, runtime, latency) for moves in done]
    options = {"rw": rw, "bs": str(block), "iodepth": "1", "numjobs": "1"}
    result = outcome(workload, runtime, directions)
    labels = {"heading": known["heading"]} if "heading" in known else {}
    return ImportedRun(where, workload, {**options, **known}, result, labels=labels)


def _iozone(file: ImportFile) -> Iterator[ImportedRun]:
    known: dict[str, str] = {}
    ends: list[int] = []
    for at, whole in enumerate(file.text.split("\n"), 1):
        line, where = whole[:2000].expandtabs().rstrip(), f"{file.where}:{at}"
        words = list(re.finditer(r"\S+", line))
        if _HEAD.match(line):
            ends = [word.end() for word in words[2:]]
        elif ends and _ROW.fullmatch(line):
            size, block = int(words[0][0]) * 1024, int(words[1][0]) * 1024
            own = {**known, "size": str(size)}
            # With a test left out (-i), its column is blank.
            gap = re.search(r"\d {14,}\d", line) and len(words) - 2 < len(ends)
            for place, word in enumerate(words[2 : 2 + len(ends)]):
                nearest = min(range(len(ends)), key=lambda end: abs(ends[end] - word.end()))
                test = IOZONE[min(nearest if gap else place, len(IOZONE) - 1)]
                if block and size and re.fullmatch(r"\d{1,15}", word[0]) and int(word[0]):
                    yield _run(where, test, int(word[0]) * 1024, block, size, own)
        elif unit := _UNIT.search(line):
            raise BlklabError(f"{where}: found {printable(unit[1])!r}, expected kBytes/sec")
        elif command := _COMMAND.search(line):
            flags = command[1].split()
            known = {"direct": str(int("-I" in flags)), "sync": str(int("-o" in flags))}
            if "-f" in flags[:-1]:
                known["filename"] = printable(flags[flags.index("-f") + 1])
        elif re.match(r"#{1,6} \w", line):
            known = {**known, "heading": printable(line.strip("# ")[:60])}


def _bonnie(file: ImportFile) -> Iterator[ImportedRun]:
    lines = [line[:2000].strip() for line in file.text.split("\n")]
    csv = [(at, line.split(",")) for at, line in enumerate(lines, 1) if _CSV.fullmatch(line)]
    for at, words in csv or _bonnie_tables(lines):
        # Format 1.98 also has the bytes of a seek, and the number of processes that seek.
        first = 9 if words[0] >= "1.98" else 7
        figures = [_FIGURE.fullmatch(word) for word in words[first + 2 : first + 12 : 2]]
        size = _SIZE.fullmatch(words[5] + (f":{words[6]}" if words[6] else ""))
        if len(figures) < 5 or size is None or not all(figures):
            raise BlklabError(f"{file.where}:{at}: truncated: expected sizes, K/sec and %CP")
        if not words[6] and (printed := re.search(rf"\b{words[5]}:(\d{{1,9}}[kKmM])\b", file.text)):
            size = _SIZE.fullmatch(printed[0]) or size  # the CSV line can lack the chunk
        # Without a unit, the size is in MiB.
        amount = parse_size(size[1] + "M" * size[1].isdigit())
        chunk = parse_size(size[2]) if size[2] else 8192
        known = {"numjobs": words[3], "size": str(amount), "hostname": printable(words[2])}
        longest = words[-11:-6] if len(words) > 40 else [""] * 5
        for test, place in zip(BONNIE, (0, 1, 3, 4), strict=True):
            figure, time = figures[place], _TIME.fullmatch(longest[place])
            if figure is None or not figure[1] or not float(figure[1]) or not chunk or not amount:
                continue
            rate = float(figure[1]) * (1024 if figure[2] in {"m", "M"} else 1)
            seeks = test[0] == "seeks"
            yield _run(
                f"{file.where}:{at}", test, rate * (chunk if seeks else 1024), chunk,
                # The number of seeks is not printed: a second of them.
                round(rate) * chunk if seeks else amount, known,
                {"max": float(time[1]) * _SCALES[time[2]]} if time else None,
            )  # fmt: skip


def _bonnie_tables(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of tables in the form of the CSV line of format 1.97."""
    inside, jobs = False, "1"
    for at, line in enumerate(lines, 1):
        words = line.split()[:20]
        if _TABLE.match(line):
            inside, jobs = True, "1"
        elif words[:1] == ["Concurrency"] and len(words) > 1 and words[1].isdigit():
            jobs = words[1]
        elif inside and len(words) in {10, 14} and (size := _SIZE.fullmatch(words[1])):
            inside = False
            figures = [""] * (14 - len(words)) + words[2:]
            if len(words) == 10:  # without the tests of characters (-f)
                figures = ["", "", *words[2:6], "", "", *words[6:]]
            times = lines[at].split()[1:] if lines[at : at + 1] and "Latency" in lines[at] else []
            rest = [""] * 30 + (times if len(times) == 6 else [""] * 6) + [""] * 6
            yield at, ["1.97", "", words[0], jobs, "", size[1], size[2] or "", *figures, *rest]
