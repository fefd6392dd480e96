"""The Python types of documents are those of the Rust types: generated, and never edited."""

import importlib.util
from pathlib import Path

import pytest

from blklab import outcome
from blklab.documents import outcome as simulated

ROOT = Path(__file__).parents[1]


def test_the_types_are_as_they_are_generated() -> None:
    script = ROOT / "scripts/document_types.py"
    spec = importlib.util.spec_from_file_location("document_types", script)
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
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
def test_what_the_simulator_measures_is_an_outcome(name: str, simulated_name: str) -> None:
    ours = vars(outcome)[name].__annotations__
    theirs = vars(simulated)[simulated_name].__annotations__
    assert theirs.keys() <= ours.keys()
