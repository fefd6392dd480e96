"""Commands for users have one source, which the proof in tests/md/guest executes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import blklab
from blklab.md import recipes

PACKAGE = Path(str(blklab.__file__)).parent
SOURCES = [
    *(PACKAGE / "md").rglob("*.py"), PACKAGE / "report/repair.py", PACKAGE / "report/arrays.py",
    *(PACKAGE / "cli/md").rglob("*.py"),
]  # fmt: skip
PROGRAMS = "|".join(sorted({line.split()[0] for line in recipes.COMMANDS.values()}))
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
        if path.name != "recipes.py"
        for text in literals(path)
        if WRITTEN_COMMAND.search(text)
    }
    assert not written


def test_words_are_quoted_for_a_shell() -> None:
    assert recipes.command("stop", array="/dev/$(reboot) x") == "mdadm --stop '/dev/$(reboot) x'"
    line = recipes.command("assemble-force", array="/dev/md0", disks=["/dev/a b", "/dev/c"])
    assert line == "mdadm --assemble --force --run /dev/md0 '/dev/a b' /dev/c"
    assert recipes.command("resume-writes", name="md_d0;x") == "echo 0 > /sys/block/'md_d0;x'/md/suspend_hi"
