"""Command lines of fio in a text, such as `$ fio --name=seq --rw=read` above its output: the options of each job.

fio takes options with one or two dashes, and values behind `=` or a space (fio(1), getopt_long_only in init.c).
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from blklab.fio.known_options import ALIASES
from blklab.text.printing import printable

LONGEST = 20_000  # Characters of a command that are read
TERMINAL_WIDTH = 80  # Characters of a line that a terminal has wrapped
_COMMAND = re.compile(
    r"(?:.{0,200}[$#>:`] ?)??(?:(?:sudo|time|doas) (?:-\S{1,20} )?){0,3}(?:[\w./-]{0,200}/)?fio (?=.*-)"
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,60}(?:=.*)?", re.S)


@dataclass(frozen=True)
class CommandLine:
    """A command of fio in a text."""

    line: int  # Its first line, from 1
    words: Sequence[str]
    jobs: Mapping[str, Mapping[str, str]]  # The options of each job that it defines


def parse_command_lines(text: str) -> list[CommandLine]:
    """Returns the commands of fio in a text that define jobs, in order."""
    commands = []
    for line, command in _commands(text):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.replace("'", "").replace('"', "").split()
        jobs = _parse_jobs(words[1:])
        if jobs:
            commands.append(CommandLine(line, [printable(word) for word in words], jobs))
    return commands


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Yields the first line's number and the text of each command, with the lines on which it goes on.

    A line goes on after a backslash, and before a line that begins with a dash: mails wrap long lines. A terminal
    wraps them in the middle of a word.
    """
    begin = 0
    command = ""
    length = 0
    for number, raw in enumerate(text.split("\n"), 1):
        piece = raw.rstrip("\r")
        line = piece.lstrip("> \t")
        is_folded = length == TERMINAL_WIDTH
        length = len(piece)
        if command and is_folded and len(command) < LONGEST:
            command += piece
            continue
        if command and (command.rstrip().endswith("\\") or line.startswith("-")) and len(command) < LONGEST:
            command = command.rstrip().removesuffix("\\") + " " + line
            continue
        if command:
            yield begin, command
        command = ""
        match = _COMMAND.match(line[:LONGEST])
        if match is not None:
            begin = number
            command = "fio " + line[match.end() : LONGEST].strip("`")
    if command:
        yield begin, command


def _parse_jobs(words: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns the options of each job; those before the first `--name` are of all jobs."""
    common: dict[str, str] = {}
    jobs: dict[str, dict[str, str]] = {}
    options = common
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if _OPTION.fullmatch(word) is None:
            continue
        key, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = "1"
            if index < len(words) and not words[index].startswith("-"):
                value = words[index]
                index += 1
        if key == "name":
            options = jobs.setdefault(printable(value), dict(common))
        else:
            options[ALIASES.get(key, key)] = printable(value)
    return jobs
