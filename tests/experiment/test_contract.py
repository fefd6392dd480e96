"""Cells have the fields that the simulator declares, no others."""

from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from blklab.documents import cell
from blklab.experiment.cells import plan
from blklab.experiment.overrides import parse_set

ROOT = Path(__file__).parents[2]

CELL = plan(ROOT / "examples" / "unbalanced.toml", changes=[parse_set("settings.host.md_ns=1")]).cells[12]
REPLAY = plan(ROOT / "examples" / "replay.toml").cells[0]
MD = CELL.document["stack"]["md"]


def fields(type_: str) -> dict[str, bool]:
    """Returns the fields of a type, and whether each must be given."""
    hints = get_type_hints(vars(cell)[type_], include_extras=True)
    return {name: get_origin(hint) is not NotRequired for name, hint in hints.items() if name != "kind"}


@pytest.mark.parametrize(
    ("type_", "document"),
    [
        ("Cell", CELL.document),
        ("Host", CELL.document["host"]),
        ("Device", CELL.document["devices"][0]),
        ("QueueSettings", CELL.document["devices"][0]["queue"]),
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
