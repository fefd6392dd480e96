"""The registry: every rule has a unique, documented name, and none fails on nothing."""

import ast
from pathlib import Path

import blklab.md.audit
from blklab.diagnostic import SEVERITIES
from blklab.md.audit import RULES
from blklab.md.model import Array, ArrayMember

DIRECTORY = Path(str(blklab.md.audit.__file__)).parent
MANUAL = Path(__file__).parents[3] / "docs" / "howto" / "audit.md"


def names() -> set[str]:
    result = set()
    for path in DIRECTORY.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in {"array_finding", "_disk_finding", "Diagnostic"}:
                at = 0 if called == "Diagnostic" else 2
                if len(node.args) > at and isinstance(node.args[at], ast.Constant):
                    result.add(str(ast.literal_eval(node.args[at])))
    return result


def test_every_rule_is_in_the_manual() -> None:
    text = MANUAL.read_text()
    assert len(names()) > 30
    assert not {name for name in names() if f"`{name}`" not in text}


def test_an_array_of_which_nothing_is_known() -> None:
    for live in (True, False):
        for members in ((), (ArrayMember("sda", "/dev/sda"),)):
            array = Array(
                name="md0", path="/dev/md0", uuid="", level="", layout=0, chunk=0, raid_disks=0,
                metadata="", live=live, members=members,
            )  # fmt: skip
            for rule in RULES:
                assert all(item.severity in SEVERITIES for item in rule(array, None))
