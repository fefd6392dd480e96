"""The lines of fio's normal output, restored.

A terminal or a mail may have wrapped, quoted or coloured them, or joined them with the line of
progress (`Jobs: 4 (f=4): …`) that fio overwrites with carriage returns.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

LONGEST: Final = 4000  # Maximum characters of a line that are read; fio's lines are shorter
WIDTH: Final = 79  # Characters: a line of this length may have been wrapped in the middle of a word
_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B]|[=>])")
_ETA: Final = re.compile(r"Jobs: \d{1,9} \(f=.{0,3000}?\[eta [\w:-]{0,40}\]?")
_QUOTED: Final = re.compile(r"(?:[ \t]{0,3}>){1,20} ?")
JOINED: Final = 300  # Characters: a longer line with a job's results has lost its line ends

_BREAKS: Final = re.compile(
    r"\S{1,200}: \((?:g=|groupid=)\d{1,9}|\bfio-\d{1,3}\.\d[\w.+-]{0,60}|\bStarting \d"
    r"|\b(?:read|write|trim|mixed)\s{0,3}:\s{0,3}(?:io|IOPS)\s{0,3}="
    r"|\b(?:slat|clat|lat|sync)(?: percentiles)? \([num]sec\)|\| {1,3}\d{1,2}\.\d{1,6}th="
    r"|\bbw \(\s{0,4}[KMG]i?B|\biops\s{1,12}:|\bcpu\s{1,20}:|\bIO depths\b"
    r"|\b(?:submit|complete)\s{1,12}:|\bissued(?: rwts?)?\s{0,9}:|\blatency\s{1,9}: target"
    r"|\bRun status group \d|\b(?:READ|WRITE|TRIM|MIXED): bw|\bDisk stats \(|[^\s:,]{1,100}: ios=\d"
)

_NAME: Final = r"\S.{0,200}?"
NAME: Final = f"(?P<name>{_NAME})"  # Characters of a job name

_KINDS: Final = {
    "header": _NAME + r": \(g=\d{1,9}\):",
    "job": _NAME + r": \(groupid=\d{1,9},",
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
        r"(?:bw|iops|lat|IO depths|submit|complete|latency|READ|WRITE|TRIM|MIXED|steadystate)"
        r"\s{0,12}(?:\([^)]{0,12}\))?\s{0,9}:"
        r"|Jobs: |fsync/|\.\.\.$|Laying out |All clients"
    ),
}

_START: Final = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in _KINDS.items()))

_END: Final = {  # The end of a complete line, by kind; lines of other kinds are not read
    "header": re.compile(r"iodepth=\d+$"),
    "job": re.compile(r"pid=\d+(?::.{0,60}\d{4})?$"),
    "way": re.compile(r"msec\)?(?:; \d+ zone resets)?$"),
    "latency": re.compile(r"stdev=\s{0,9}[\d.]+[kKMG]?$"),
    "row": re.compile(r"\],?$"),
    "cpu": re.compile(r"minf=\d+$"),
    "issued": re.compile(r"\d$"),
    "disk": re.compile(r"util=\s{0,9}[\d.]+%$"),
}

_REST: Final = re.compile(r"[\w.,%/:=)\]]{1,30}")  # The end that a wrapped line can lose although it looks complete


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
            rest = piece.rstrip() if length >= WIDTH else bare
            line = TextLine(line.number, line.kind, (line.text + glue + rest)[:LONGEST])
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


def _goes_on(line: TextLine, length: int, rest: str) -> bool:
    end = _END.get(line.kind)
    if end is None or len(line.text) >= LONGEST:
        return False
    if end.search(line.text):
        return length == WIDTH + 1 and _REST.fullmatch(rest) is not None
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
