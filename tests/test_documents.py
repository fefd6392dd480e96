"""The Python types of documents are those of the Rust types: generated, and never edited."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from blklab import outcome

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generator() -> Any:
    script = ROOT / "scripts/document_types.py"
    spec = importlib.util.spec_from_file_location("document_types", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_are_as_they_are_generated(generator: Any) -> None:
    modules = generator.modules()
    directory = ROOT / "python/blklab/documents"
    assert {path for path in directory.glob("*.py") if path.stem != "__init__"} <= modules.keys()
    assert {path: path.read_text() for path in modules} == modules, "run `make types`"


@pytest.mark.parametrize(
    ("name", "simulated_name"),
    [
        ("Outcome", "Outcome"),
        ("GroupResult", "Group"),
        ("DirectionResult", "Direction"),
        ("LatencyResult", "Latency"),
        ("SyncResult", "Syncs"),
        ("DeviceResult", "DiskStats"),
    ],
)
def test_what_the_simulator_measures_is_an_outcome(generator: Any, name: str, simulated_name: str) -> None:
    schema = generator.schemas()["outcome"]
    theirs = {"Outcome": schema, **schema["$defs"]}[simulated_name]["properties"]
    assert theirs.keys() <= vars(outcome)[name].__annotations__.keys()
