"""The document and the schema say what there is."""

import re
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from blklab.devices import device
from blklab.experiment import schema
from blklab.experiment.cells import plan

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "experiments.md"


def test_every_key_is_documented() -> None:
    text = re.sub(r"```.*?```", "", DOCUMENT.read_text(), flags=re.S)
    output = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    known = {key for table in schema.KNOWN_KEYS.values() for key in table}
    output |= {
        key
        for kind in device.KINDS.values()
        for key, value in schema.document()["$defs"][kind.__name__]["properties"].items()
        if "description" in value
    }
    assert (known | {*schema.ROOT, *schema.SOURCES}) - output == set()


def test_the_documents_example_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.S)
    path = tmp_path / "exp.toml"
    path.write_text(text)
    assert len(plan(path).cells) == 4


def test_the_schema_is_current() -> None:
    committed = (ROOT / "docs" / "reference" / "experiment.schema.json").read_text()
    assert committed == schema.format_schema(), "blklab run --schema > docs/reference/experiment.schema.json"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.stem)
def test_the_schema_takes_the_examples(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(schema.document())
    table = tomllib.loads(path.read_text())
    assert [error.message for error in validator.iter_errors(table)] == []
    section = "devices" if "devices" in table else "workloads"
    next(iter(table[section].values()))["modle"] = "x"
    assert not validator.is_valid(table)
