"""The JSON Schema of experiment files, for completion and checks in editors."""

import json
from typing import Any, Final

from blklab.spec.device import KINDS
from blklab.spec.experiment import Experiment

ADDRESS: Final = "https://json-schema.org/draft/2020-12/schema"


def document() -> dict[str, Any]:
    """Returns the schema (JSON Schema 2020-12).

    It describes keys and types of values. Errors between keys, such as a member used twice, are
    found by `blklab run --dry-run`.
    """
    schema = Experiment.model_json_schema(by_alias=False)
    definitions = schema["$defs"]
    known: dict[str, Any] = {}
    for model in KINDS.values():
        known |= definitions[model.__name__]["properties"]
    del known["kind"]
    for name, key, value in (
        ("StockDevice", "model", {"type": "string"}),
        ("CalibratedDevice", "calibrated", {"type": "string"}),
    ):
        definitions[name] = {
            "description": f"A device with the parameters of `{key}`; keys here replace them.",
            "type": "object",
            "properties": {key: value, **known},
            "required": [key],
            "additionalProperties": False,
        }
    names = ["StockDevice", "CalibratedDevice", *(model.__name__ for model in KINDS.values())]
    devices = schema["properties"]["devices"]
    devices["additionalProperties"] = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    return {"$schema": ADDRESS, "title": "blklab experiment", **_cleaned(schema)}


def text() -> str:
    """Returns the schema as the text of its file, docs/reference/experiment.schema.json."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _cleaned(value: Any, *, properties: bool = False) -> Any:
    """Removes OpenAPI's `discriminator`, which JSON Schema lacks, and the titles that pydantic makes from names.

    A property may also be named `title`.
    """
    match value:
        case dict():
            return {
                key: _cleaned(inner, properties=key in {"properties", "$defs"})
                for key, inner in value.items()
                if properties or key not in {"title", "discriminator"}
            }
        case list():
            return [_cleaned(inner) for inner in value]
    return value
