"""Cells have the fields that the simulator declares in crates/sim/src/cell, no others."""

import re
from pathlib import Path
from typing import Any

import pytest

from blklab.spec.cells import plan
from blklab.spec.overrides import parse_set

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "crates" / "sim" / "src" / "cell").glob("*.rs"))
RUST = "\n".join(path.read_text() for path in FILES)

CELL = plan(
    ROOT / "examples" / "unbalanced.toml", changes=[parse_set("settings.host.md_ns=1")]
).cells[12]
SPINDLES = plan(ROOT / "examples" / "spindles.toml").cells[0]
REPLAY = plan(ROOT / "examples" / "replay.toml").cells[0]
MD = CELL.document["stack"]["md"]


def fields(struct: str) -> dict[str, bool]:
    """Returns the fields of a struct, and whether each must be given."""
    found = re.search(rf"((?:#\[.*\]\n)*)pub struct {struct} \{{\n(.*?)\n\}}", RUST, re.S)
    assert found, struct
    whole, body = found.groups()
    pattern = r"((?:^ +#\[.*\]\n)*)^ +pub (\w+):"
    return {
        name: "default" not in attributes and not re.search(r"serde\(.*\bdefault", whole)
        for attributes, name in re.findall(pattern, body, re.M)
    }


@pytest.mark.parametrize(
    ("struct", "document"),
    [
        ("Cell", CELL.document),
        ("Host", CELL.document["host"]),
        ("Device", CELL.document["devices"][0]),
        ("Queue", CELL.document["devices"][0]["queue"]),
        ("Flash", CELL.document["devices"][0]["model"]),
        ("Hdd", SPINDLES.document["devices"][0]["model"]),
        ("Throttled", REPLAY.document["devices"][0]["model"]),
        ("Md", MD),
        ("Member", MD["members"][0]),
        ("Filesystem", CELL.document["filesystem"]),
        ("Job", CELL.document["jobs"][0]),
        ("Replay", REPLAY.document["replay"]),
    ],
)
def test_fields(struct: str, document: dict[str, Any]) -> None:
    declared = fields(struct)
    given = document.keys() - {"kind"}
    assert given - declared.keys() == set()
    assert {name for name, needed in declared.items() if needed} - given == set()
