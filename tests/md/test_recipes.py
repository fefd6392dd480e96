"""Commands for users have one source, which the proof in tests/md/guest executes."""

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import blklab
from blklab.md import command_lines
from blklab.md.command_lines import COMMANDS

PACKAGE = Path(str(blklab.__file__)).parent
SOURCES = [*(PACKAGE / "md").rglob("*.py"), *(PACKAGE / "cli/md").rglob("*.py")]


def example(command: Callable[..., str], word: str) -> tuple[str, int]:
    """Returns the line of a command with `word` for each of its words, and how many these are."""
    values: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if parameter.annotation is str:
            values[name] = word
        elif parameter.annotation is int:
            values[name] = 8
        elif parameter.annotation is bool:
            values[name] = True
        else:
            values[name] = [word, word]
    return command(**values), repr(values).count(repr(word))


PROGRAMS = "|".join(sorted({example(command, "x")[0].split()[0] for command in COMMANDS}))
# A program with its options and a device, not a mention of the program.
WRITTEN_COMMAND = re.compile(
    rf"\b({PROGRAMS})( -\S+)+ (/|\{{)|\bmdadm (/|\{{\}} --)|\bdd if=|\becho \S+ >|\bblklab md fix|\bsystemctl \w+ \w"
)


def literals(path: Path) -> Iterator[str]:
    """Yields the strings of a module, without docstrings; values in f-strings are {}."""
    tree = ast.parse(path.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def test_commands_are_built_in_one_place() -> None:
    written = {
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in SOURCES
        if path.name != "command_lines.py"
        for text in literals(path)
        if WRITTEN_COMMAND.search(text) and not (path.name == "recipes.py" and text.startswith("#"))
    }
    assert not written


def test_the_proof_knows_every_command_and_can_record_it() -> None:
    public = {
        name: function
        for name, function in inspect.getmembers(command_lines, inspect.isfunction)
        if function.__module__ == command_lines.__name__ and not name.startswith("_")
    }
    assert public == {command.__name__: command for command in COMMANDS}
    # A module that imports a function itself does not call the one that records.
    assert not [path for path in SOURCES if "from blklab.md.command_lines import" in path.read_text()]


def test_words_are_quoted_for_a_shell() -> None:
    assert command_lines.stop_array("/dev/$(reboot) x") == "mdadm --stop '/dev/$(reboot) x'"
    line = command_lines.assemble_by_force("/dev/md0", ["/dev/a b", "/dev/c"])
    assert line == "mdadm --assemble --force --run /dev/md0 '/dev/a b' /dev/c"
    assert command_lines.resume_writes("md_d0;x") == "echo 0 > /sys/block/'md_d0;x'/md/suspend_hi"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.__name__))
def test_every_command_quotes_all_its_words(command: Callable[..., str]) -> None:
    hostile = "a;$(reboot) 'b"
    line, count = example(command, hostile)
    assert sum(word.count(hostile) for word in shlex.split(line)) == count
    assert hostile not in line
    line, count = example(command, "a\x1b[31m")
    assert line.startswith("# Not a command") == (count > 0)
    assert line.isprintable()
