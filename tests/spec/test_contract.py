"""Cells have the fields that the simulator declares (crates/documents/schema.json), no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from blklab.spec.cells import plan
from blklab.spec.overrides import parse_set

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "crates/documents/schema.json").read_text())["cell"]
TYPES = {**SCHEMA["$defs"], "Cell": SCHEMA}

CELL = plan(ROOT / "examples" / "unbalanced.toml", changes=[parse_set("settings.host.md_ns=1")]).cells[12]
SPINDLES = plan(ROOT / "examples" / "spindles.toml").cells[0]
REPLAY = plan(ROOT / "examples" / "replay.toml").cells[0]
MD = CELL.document["stack"]["md"]


def fields(type_: str) -> dict[str, bool]:
    """Returns the fields of a type, and whether each must be given."""
    kinds = {item["properties"]["kind"]["const"]: item for item in TYPES["Model"]["oneOf"]}
    schema = TYPES.get(type_) or kinds[type_]
    known = schema["properties"].keys() - {"kind"}
    return {name: name in schema.get("required", []) for name in known}


@pytest.mark.parametrize(
    ("type_", "document"),
    [
        ("Cell", CELL.document),
        ("Host", CELL.document["host"]),
        ("Device", CELL.document["devices"][0]),
        ("QueueSettings", CELL.document["devices"][0]["queue"]),
        ("nvme", CELL.document["devices"][0]["model"]),
        ("hdd", SPINDLES.document["devices"][0]["model"]),
        ("throttled", REPLAY.document["devices"][0]["model"]),
        ("Md", MD),
        ("Member", MD["members"][0]),
        ("Filesystem", CELL.document["filesystem"]),
        ("Job", CELL.document["jobs"][0]),
        ("Replay", REPLAY.document["replay"]),
    ],
)
def test_fields(type_: str, document: dict[str, Any]) -> None:
    declared = fields(type_)
    given = document.keys() - {"kind"}
    assert given - declared.keys() == set()
    assert {name for name, needed in declared.items() if needed} - given == set()
