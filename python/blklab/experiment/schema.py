"""The keys of each table of an experiment file: for messages, and as a JSON Schema for editors."""

import ast
import inspect
import json
from itertools import pairwise
from typing import Any, cast

from blklab.devices import device, device_parameters
from blklab.experiment import stack, sweep, workload
from blklab.experiment import tables as experiment
from blklab.toml_files.fields import ExperimentTable

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
SOURCES = ("model", "calibrated", "kind")  # Keys that select a device's model; exactly one must be given


def _of(*tables: type[ExperimentTable]) -> list[str]:
    return list(dict.fromkeys(key for table in tables for key in table.model_fields))


DEVICE = list(dict.fromkeys([*SOURCES, *_of(*device.KINDS.values())]))  # Keys of a device of any kind

KNOWN_KEYS: dict[tuple[str, ...], list[str]] = {
    ("settings", "host"): _of(experiment.Host),
    ("settings", "filesystem", "<table>"): _of(experiment.Filesystem),
    ("settings",): _of(experiment.Settings),
    ("controllers", "*"): _of(device_parameters.ControllerSpec),
    **{("devices", "*", kind): _of(table) for kind, table in device.KINDS.items()},
    ("stacks", "*", "<bare>"): _of(stack.Bare),
    ("stacks", "*", "<md>", "fail", "*"): _of(stack.Failure),
    ("stacks", "*", "<md>"): ["device", "kind", *_of(stack.Md)],
    **{("stacks", "*", f"<{kind}>"): _of(table) for kind, table in stack.VOLUMES.items()},
    ("workloads", "*", "<jobs>", "jobs", "*"): _of(workload.Job),
    ("workloads", "*", "<jobs>"): _of(workload.Jobs),
    ("workloads", "*", "<job file>"): _of(workload.JobFile),
    ("workloads", "*", "<replay>"): _of(workload.Replay),
    ("workloads", "*", "<command>"): _of(workload.Command),
    ("workloads", "*", "<job>"): [*_of(workload.Job), *workload.TAGS],
    ("targets", "*"): _of(experiment.Target),
    ("host", "steady", "<table>"): _of(experiment.Steady),
    ("host",): _of(experiment.HostRun),
    ("fleet",): _of(experiment.Fleet),
    ("cells", "*"): _of(experiment.CellPairs),
    ("measured", "*"): _of(experiment.MeasuredFigures),
    ("lab",): _of(experiment.Lab),
    ("sweep",): [sweep.MODE, *sweep.QUEUE, *sweep.MD],
}
"""The keys of a table, by its path as pydantic gives it; `*` is any name."""

ROOT = _of(experiment.Experiment)  # Keys of the file itself
STACK = _of(stack.Bare, stack.Md, *stack.VOLUMES.values())  # Keys of a stack of any kind
WORKLOAD = _of(workload.Job, workload.Replay)  # Keys of a workload that a matrix may vary in all workloads


def document() -> dict[str, Any]:
    """Returns the schema (JSON Schema 2020-12).

    It describes keys and types of values. Errors between keys, such as a member used twice, are
    found by `blklab run --dry-run`.
    """
    schema = experiment.Experiment.model_json_schema(by_alias=False)
    definitions = schema["$defs"]
    device_properties: dict[str, Any] = {}
    for model in device.KINDS.values():
        _add_meanings(definitions[model.__name__]["properties"], model)
        device_properties |= definitions[model.__name__]["properties"]
    del device_properties["kind"]
    for name, key in (("StockDevice", "model"), ("CalibratedDevice", "calibrated")):
        definitions[name] = {
            "description": f"A device with the parameters of `{key}`; keys here replace them.",
            "type": "object",
            "properties": {key: {"type": "string"}, **device_properties},
            "required": [key],
            "additionalProperties": False,
        }
    names = ["StockDevice", "CalibratedDevice", *(model.__name__ for model in device.KINDS.values())]
    devices = schema["properties"]["devices"]
    devices["additionalProperties"] = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    return {"$schema": ADDRESS, "title": "blklab experiment", **_remove_titles(schema)}


def _add_meanings(properties: dict[str, Any], table: type[ExperimentTable]) -> None:
    """Makes the docstrings of a table's fields their descriptions."""
    for base in table.__mro__[: table.__mro__.index(ExperimentTable)]:
        (definition,) = ast.parse(inspect.getsource(base)).body
        for pair in pairwise(cast(ast.ClassDef, definition).body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(meaning))):
                    properties[key]["description"] = " ".join(meaning.split())


def format_schema() -> str:
    """Returns the schema as the text of its file, docs/reference/experiment.schema.json."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _remove_titles(value: Any, *, properties: bool = False) -> Any:
    """Removes OpenAPI's `discriminator`, which JSON Schema lacks, and the titles that pydantic makes from names.

    A property may also be named `title`.
    """
    match value:
        case dict():
            return {
                key: _remove_titles(inner, properties=key in {"properties", "$defs"})
                for key, inner in value.items()
                if properties or key not in {"title", "discriminator"}
            }
        case list():
            return [_remove_titles(inner) for inner in value]
    return value
