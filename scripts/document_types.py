"""Writes python/blklab/documents from the schemas that crates/documents prints: `make types` calls it."""

import builtins
import json
import os
import re
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "python/blklab/documents"
PLAIN = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}
PLAIN["object"] = "dict[str, object]"
WIDTH = 120
STRUCTS = {"profile", "superblock"}
"""The documents that are msgspec's classes."""

ELSEWHERE = {"Outcome", "Direction", "DiskStats", "Group", "Latency", "Syncs"}
"""Types of outcomes that are classes of blklab.outcome, which every runner fills; a test compares their fields."""

DEVICES = "device_parameters"
"""The schema that is no document: it becomes tables of experiment files."""

BOUNDS = {2**53: "fields.EXACT", 2**63 - 1: "fields.LARGEST"}

Schema = dict[str, Any]


class Module:
    """The types of one document: a class for an object (msgspec's, or a TypedDict), an alias for a choice."""

    def __init__(self, root: Schema, *, structs: bool) -> None:
        self.object = self.struct if structs else self.typed_dict
        self.classes: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        schemas = {**root.get("$defs", {}), root["title"]: root}
        for name, schema in schemas.items():
            if name not in ELSEWHERE:
                self.define(name, schema)

    def define(self, name: str, schema: Schema) -> None:
        """Writes the type of a named schema."""
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices and all(item.get("type") == "object" for item in choices):
            if any("const" in item for item in choices[0]["properties"].values()):
                self.tagged(name, choices)
            else:  # one key says which it is
                keys = {key: of for item in choices for key, of in item["properties"].items()}
                self.classes[name] = self.typed_dict(name, {"properties": keys}, total=False)
        elif "properties" in schema:
            self.classes[name] = self.object(name, schema)
        else:
            self.aliases[name] = self.of(schema)

    def tagged(self, name: str, choices: list[Schema]) -> None:
        """Writes a class for each variant, which a constant tells, and their union."""
        names = []
        for item in choices:
            (tag,) = (str(of["const"]) for of in item["properties"].values() if "const" in of)
            version = tag.replace(".", "")
            variant = f"{name}V{version}" if version.isdigit() else tag.capitalize() + name
            self.classes[variant] = self.typed_dict(variant, item)
            names.append(variant)
        self.aliases[name] = " | ".join(names)

    def struct(self, name: str, schema: Schema) -> str:
        """Returns the class of an object whose keys are all there, with its fields in the order of Rust."""
        lines = [f"class {name}(Struct, kw_only=True, gc=False):", *docstring(schema.get("description"))]
        if optional := schema["properties"].keys() - set(schema["required"]):
            raise ValueError(f"{name}: {sorted(optional)} can be missing, which no class here has yet")
        for key in schema["required"]:
            field = schema["properties"][key]
            lines += [f"    {key}: {self.of(field)}", *docstring(field.get("description"))]
        return "\n".join(lines) + "\n\n"

    def typed_dict(self, name: str, schema: Schema, *, total: bool = True) -> str:
        """Returns the class of an object."""
        base = schema["$ref"].rpartition("/")[2] if "$ref" in schema else "TypedDict"
        required = schema.get("required", [] if total else schema["properties"])
        types = {key: self.of(of) for key, of in schema["properties"].items()}
        types = {key: of if key in required else f"NotRequired[{of}]" for key, of in types.items()}
        if base != "TypedDict":  # only a class can extend another one
            return "\n".join([f"class {name}({base}):", *(f"    {key}: {of}" for key, of in types.items())]) + "\n\n"
        words = [f'"{key}": {quoted(of)}' for key, of in types.items()]
        line = f'{name} = TypedDict("{name}", {{{", ".join(words)}}}{"" if total else ", total=False"})\n'
        if len(line) <= WIDTH:
            return line
        fields = filled(words)
        return f'{name} = TypedDict("{name}", {{\n{fields}\n}}{"" if total else ", total=False"})\n'

    def of(self, schema: Any) -> str:
        match schema:
            case {"$ref": ref}:
                return str(ref).rpartition("/")[2]
            case {"const": value}:
                return f"Literal[{json.dumps(value)}]"
            case {"enum": values}:
                return f"Literal[{', '.join(map(json.dumps, values))}]"
            case {"anyOf": choices} | {"oneOf": choices}:
                return either(self.of(item) for item in choices)
            case {"type": list(kinds)}:
                return either(self.of({**schema, "type": kind}) for kind in kinds)
            case {"type": "array", "prefixItems": items}:
                return f"tuple[{', '.join(map(self.of, items))}]"
            case {"type": "array", "items": items}:
                return f"list[{self.of(items)}]"
            case {"type": "object", "additionalProperties": dict(values)}:
                return f"dict[str, {self.of(values)}]"
            case {"type": "object", "patternProperties": dict(values)}:
                return f"dict[str, {self.of(*values.values())}]"
            case {"type": kind}:
                return PLAIN[kind]
        raise ValueError(f"no Python type for {schema}")

    def text(self, name: str) -> str:
        # mypy takes the name of a builtin, such as Warning, for the builtin until it is defined.
        ordered = sorted(
            self.classes.items(), key=lambda named: ("class " in named[1], not hasattr(builtins, named[0]))
        )
        aliases = [f"{name} = {output}\n" for name, output in self.aliases.items()]
        body = "".join([*(text for _, text in ordered), *aliases])
        used = [name for name in ("Literal", "NotRequired", "TypedDict") if re.search(rf"\b{name}\b", body)]
        head = f'"""The document `{name}` as Rust has it. `make types` writes this file."""'
        imports = f"from __future__ import annotations\n\nfrom typing import {', '.join(used)}"
        if "(Struct" in body:
            imports += "\n\nfrom msgspec import Struct\n"
        return f"{head}\n\n{imports}\n\n{body}"


def either(kinds: Any) -> str:
    """Returns a union, None last."""
    result = dict.fromkeys(kinds)
    if "None" in result:
        result = {**{kind: None for kind in result if kind != "None"}, "None": None}
    literals = [kind[8:-1] for kind in result if kind.startswith("Literal[")]
    rest = [kind for kind in result if not kind.startswith("Literal[")]
    return " | ".join([f"Literal[{', '.join(literals)}]", *rest] if literals else rest)


def docstring(text: str | None) -> list[str]:
    """Returns the lines of a field's meaning."""
    if not text:
        return []
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - 10)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def filled(words: list[str]) -> str:
    """Returns the fields of an object in lines."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > WIDTH - 6:
            lines.append("")
        lines[-1] += f"{word}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)


def quoted(kind: str) -> str:
    """Returns a type as text if it names a type that comes later."""
    return json.dumps(kind) if re.search(r"\b[A-Z]", re.sub(r"Literal|NotRequired|None|\".*?\"", "", kind)) else kind


class TomlTables:
    """The tables of experiment files that Rust describes: pydantic's classes, whose keys are parameters of devices.

    A parameter's `toml` in Rust has what its key in a file has besides: `false`, none, because it is a key of every
    disk; its name there (`key`), its type in blklab.toml_files.fields (`type`), its `range` and its `default`. A
    cell lacks a parameter that has its default, so that a new parameter changes no cell; except with `always`.
    """

    def __init__(self, root: Schema) -> None:
        self.definitions: dict[str, Schema] = root["$defs"]

    def text(self) -> str:
        """Returns the text of the module."""
        tables = {name: of for name, of in self.definitions.items() if "properties" in of}
        body = "\n\n".join(self.table(name, schema) for name, schema in tables.items())
        head = '"""The parameters of devices as keys of an experiment file. `make types` writes this file from Rust."""'
        imports = (
            "from operator import not_\nfrom typing import Annotated, Literal\n\nfrom pydantic import Field\n\n"
            "from blklab.toml_files import fields"
        )
        return f"{head}\n\n{imports}\n\n\n{body}"

    def table(self, name: str, schema: Schema) -> str:
        """Returns the class of a table, required keys first."""
        required = schema.get("required", [])
        keys = [*required, *(key for key in schema["properties"] if key not in required)]
        lines = [f"class {name}(fields.ExperimentTable):", *docstring(schema["description"]), ""]
        for key in keys:
            parameter = schema["properties"][key]
            toml = parameter.get("toml", {})
            if toml is False or "anyOf" in parameter:  # not a key of this table, or a table itself
                continue
            always = toml.get("always", schema.get("toml", {}).get("always", key in required))
            lines += [f"    {self.key(key, parameter, toml, always=always)}", *docstring(parameter["description"])]
        return "\n".join(lines) + "\n"

    def key(self, name: str, parameter: Schema, toml: Schema, *, always: bool) -> str:
        """Returns the declaration of a key."""
        default, options = toml.get("default", parameter.get("default")), []
        if "key" in toml:
            options.append(f'serialization_alias="{name}"')
        if not always:
            if default:
                raise ValueError(f"{name}: a cell lacks it if it has its default, which must be 0 then")
            options.append("exclude_if=not_")
        kind = f"{toml.get('key', name)}: {self.of(name, parameter, toml)}"
        if default is None and not options:
            return kind
        value = repr(int(default) if isinstance(default, float) and default.is_integer() else default)
        value = value.replace("'", '"')
        return f"{kind} = Field({', '.join([value, *options])})" if options else f"{kind} = {value}"

    def of(self, name: str, parameter: Schema, toml: Schema) -> str:
        """Returns the type of a key: the end of its name says the unit."""
        if "$ref" in parameter:
            values = self.definitions[parameter["$ref"].rpartition("/")[2]]["oneOf"]
            return f"Literal[{', '.join(json.dumps(value['const']) for value in values)}]"
        units = {"_ns": "Nanoseconds", "bandwidth": "PerSecond", "_bytes": "Size"}
        kind = next((f"fields.{unit}" for end, unit in units.items() if name.endswith(end)), PLAIN[parameter["type"]])
        kind = "fields.Rate" if re.match("(iops|bps)(_|$)", name) else toml.get("type", kind)
        if "range" not in toml:
            return "fields.Count" if kind == "int" else kind
        least, most = toml["range"]
        number = ", fields.NUMBER" if kind in {"int", "float"} else ""
        return f"Annotated[{kind}, Field(ge={least}, le={BOUNDS.get(most, most)}){number}]"


@cache
def printed() -> dict[str, Schema]:
    """Returns all schemas by name, as the Rust types have them now."""
    # With the options of `make test`, and one of its tests: so cargo chooses the same features of the libraries, and
    # neither compiles the crates again.
    options = "--config crates/tests.toml --release --locked --quiet --workspace --bin blklab-documents --test meanings"
    subprocess.run(["scripts/cargo", "build", *options.split()], cwd=ROOT, check=True)
    program = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/blklab-documents"
    return dict(json.loads(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout))


def schemas() -> dict[str, Schema]:
    """Returns the schema of every document by its name."""
    return {name: schema for name, schema in printed().items() if name != DEVICES}


def without_models(schema: Schema) -> Schema:
    """Returns the schema of a document in which devices and controllers are tables: the other module has their keys."""
    types = {name: of for name, of in schema.get("$defs", {}).items() if name not in printed()[DEVICES]["$defs"]}
    tables = {name: {"type": "object"} for name in ("ControllerSpec", "Model") if name in schema.get("$defs", {})}
    return {**schema, "$defs": {**types, **tables}}


def modules() -> dict[Path, str]:
    """Returns the text of every module by its path."""
    documents = {
        TARGET / f"{name}.py": Module(without_models(schema), structs=name in STRUCTS).text(name)
        for name, schema in schemas().items()
    }
    return {**documents, ROOT / f"python/blklab/devices/{DEVICES}.py": TomlTables(printed()[DEVICES]).text()}


if __name__ == "__main__":
    for path, text in modules().items():
        path.write_text(text)
