"""Write the generated pages of docs/reference (`make reference`), or --check them."""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from document_types import schemas

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/reference"
SEVERITIES = ("critical", "warning", "note")
NOTICE = "<!-- `make reference` writes this page. -->"

Schema = dict[str, Any]


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def prose(text: str) -> str:
    """Return a paragraph of help as Markdown: escaped, wrapped, with links to other pages."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    pieces[::2] = [re.sub(r"([*_<>\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    linked = re.sub(r"docs/(\w+)/([\w-]+\.md)", r"[\2](../\1/\2)", "".join(pieces))
    linked = linked.replace("](../reference/", "](")
    return textwrap.fill(linked, 118, break_long_words=False, break_on_hyphens=False)


# --- commands ------------------------------------------------------------------------------------


def commands() -> str:
    """Return the page of all commands, from click."""
    from blklab.cli.root import blklab

    with click.Context(blklab, info_name="blklab", show_default=True) as ctx:
        parts = list(command_sections(blklab, ctx))
    return page("Commands", "Every command, as its `--help` describes it.", *parts)


def command_sections(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Give the section of a command, then those of its subcommands."""
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    yield f"## {ctx.command_path}"
    yield f"```text\n{usage}\n```"
    for paragraph in inspect.cleandoc(command.help or "").replace("\f\n", "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield "```text\n" + paragraph.removeprefix("\b").strip("\n") + "\n```"
        elif paragraph.strip():
            yield prose(paragraph)
    records = [parameter.get_help_record(ctx) for parameter in command.get_params(ctx)]
    rows = [(f"`{name}`", prose(text).replace("\n", " ")) for name, text in filter(None, records)]
    yield table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None and not inner.hidden:
                with click.Context(inner, info_name=name, parent=ctx) as below:
                    yield from command_sections(inner, below)


# --- schemas -------------------------------------------------------------------------------------


class Schemas:
    """Sections and types of one JSON Schema."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.definitions: dict[str, Schema] = root.get("$defs", {})

    def resolve(self, schema: Schema) -> Schema:
        """Return what a reference refers to, with what stands next to the reference."""
        if "$ref" not in schema:
            return schema
        return {**self.definitions[schema["$ref"].rpartition("/")[2]], **schema}

    def type_of(self, schema: Any) -> str:
        """Return the type of a value in words."""
        match schema:
            case {"$ref": ref} if self.is_simple(schema):
                return self.type_of(self.definitions[ref.rpartition("/")[2]])
            case {"$ref": ref}:
                return f"`{ref.rpartition('/')[2]}`"
            case {"const": value}:
                return f"`{json.dumps(value)}`"
            case {"enum": values}:
                return ", ".join(f"`{json.dumps(value)}`" for value in values)
            case {"anyOf": choices} | {"oneOf": choices}:
                return " or ".join(dict.fromkeys(self.type_of(choice) for choice in choices))
            case {"type": list(kinds)}:
                return " or ".join(kinds) + limits(schema)
            case {"type": "array", "prefixItems": items}:
                return f"list of {len(items)}: " + ", ".join(self.type_of(item) for item in items)
            case {"type": "array", "items": items}:
                return f"list of {self.type_of(items)}"
            case {"type": "object", "additionalProperties": dict(values)}:
                return f"table of {self.type_of(values)}"
            case {"type": "object", "patternProperties": dict(values)}:
                return " or ".join(f"table of {self.type_of(of)}" for of in values.values())
            case {"type": kind}:
                return str(kind) + limits(schema)
        return "any value"

    def is_simple(self, schema: Schema) -> bool:
        """Return whether a type is named in a table rather than described by a section."""
        choices = [self.resolve(choice) for choice in self.resolve(schema).get("oneOf", [schema])]
        return not any("properties" in choice for choice in choices)

    def section(self, title: str, schema: Schema) -> str:
        """Return the keys of an object, or of each variant of a choice."""
        parts = [f"### {title}", prose(schema.get("description", ""))]
        for variant in map(self.resolve, schema.get("oneOf", [schema])):
            required = variant.get("required", [])
            rows = []
            for key, value in variant.get("properties", {}).items():
                default = value.get("default", {})
                given = "–" if isinstance(default, dict) else f"`{json.dumps(default)}`"
                rows.append((f"`{key}`", self.type_of(value), "required" if key in required else given, meaning(value)))
            parts.append(table(("key", "type", "default", "meaning"), rows))
        return "\n\n".join(part for part in parts if part)

    def sections(self) -> Iterator[str]:
        """Give the section of the document, then one for each type."""
        yield self.section(self.root["title"], self.root)
        for name, schema in self.definitions.items():
            if not self.is_simple({"$ref": f"#/$defs/{name}"}):
                yield self.section(name, schema)


class Documents(Schemas):
    """Sections of one document between Rust and Python, where every key and value has its meaning."""

    def is_simple(self, schema: Schema) -> bool:
        """Return whether a type is named in a table; types whose values have meanings are not."""
        values = self.resolve(schema).get("oneOf", [])
        return super().is_simple(schema) and not any("const" in value for value in values)

    def type_of(self, schema: Any) -> str:
        """Return the type of a value in words, also of a list of fixed length."""
        match schema:
            case {"type": "array", "items": items, "minItems": least, "maxItems": most} if least == most:
                return f"list of {most}: " + ", ".join([self.type_of(items)] * most)
        return super().type_of(schema)

    def section(self, title: str, schema: Schema) -> str:
        """Return the keys of an object or of each variant, or the values."""
        parts = [f"### {title}", prose(schema.get("description", ""))]
        variants = schema.get("oneOf", [schema])
        values = [(self.type_of({"const": of["const"]}), meaning(of)) for of in variants if "const" in of]
        if values:
            parts.append(table(("value", "meaning"), values))
        for variant in variants:
            if "properties" in variant:
                parts.append(table(("key", "type", "always present", "meaning"), self.rows(variant)))
            if "properties" in variant and "$ref" in variant:
                parts.append(f"And the keys of `{variant['$ref'].rpartition('/')[2]}`.")
        return "\n\n".join(part for part in parts if part)

    def rows(self, variant: Schema) -> Iterator[tuple[str, str, str, str]]:
        """Give the keys of an object; first the key that says which variant it is."""
        keys = variant["properties"].items()
        for key, value in sorted(keys, key=lambda named: "const" not in named[1]):
            # A variant has the meaning of its only key, and of the key that says which variant it is.
            text = meaning(value) or meaning(variant)
            present = "yes" if key in variant.get("required", []) else "no"
            if "default" in value and not isinstance(value["default"], dict):
                present += f": `{json.dumps(value['default'])}`"
            elif present == "no" and self.type_of(value).endswith(" or null"):
                present += ": `null`"
            yield f"`{key}`", self.type_of(value), present, text


def meaning(schema: Schema) -> str:
    """Return the description of a key or value, on one line."""
    return " ".join(prose(schema.get("description", "")).split())


def limits(schema: Schema) -> str:
    """Return the smallest and the largest value."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if high is not None:
        return f", {low or 0:,} to {high:,}"
    return f", {low:,} or more" if low else ""


def experiment() -> str:
    """Return the page of an experiment file's keys, from its schema."""
    from blklab.experiment import schema

    intro = (
        "Type, default and limits of every key, from "
        "[experiment.schema.json](experiment.schema.json).\n"
        "[Experiment files](experiments.md) says what the keys of other tables than devices mean."
    )
    sections = Schemas(schema.document()).sections()
    return page("Keys of an experiment file", intro, "## Tables", *sections)


def documents() -> str:
    """Return the page of the JSON documents between Rust and Python."""
    intro = (
        "Every key of the documents that come from Rust, or go there. Sectors have 512 bytes. A key that is not\n"
        "always present has a default, which is given, or its meaning says when it is missing. [Formats](formats.md)\n"
        "says how these documents belong together, and describes the others."
    )
    parts = [intro]
    for name, schema in schemas().items():
        parts += [f"## Document: {name}", *Documents(schema).sections()]
    return page("JSON documents", *parts)


# --- metrics and rules ---------------------------------------------------------------------------


def prometheus() -> str:
    """Return the page of exported metrics and packaged alerts."""
    from blklab.md.exporter.metrics import METRICS, PREFIX

    metrics = table(
        ("metric", "type", "labels", "meaning"),
        (
            (f"`{PREFIX}{name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help)
            for name, metric in METRICS.items()
        ),
    )
    rules = yaml.safe_load((ROOT / "packaging/prometheus/blklab-md.rules.yml").read_text())
    listed = [rule for group in rules["groups"] for rule in group["rules"]]
    alerts = table(
        ("alert", "severity", "after", "condition"),
        (
            (rule["alert"], rule["labels"]["severity"], rule.get("for", "at once"), code(rule["expr"]))
            for rule in listed
            if "alert" in rule
        ),
    )
    records = table(
        ("recorded series", "expression"),
        ((f"`{rule['record']}`", code(rule["expr"])) for rule in listed if "record" in rule),
    )
    return page(
        "Prometheus metrics",
        "`blklab md watch` exports these ([guide](../howto/watch.md)).",
        metrics,
        "## Alerts\n\nIn `packaging/prometheus/blklab-md.rules.yml`.",
        alerts,
        "## Recording rules",
        records,
    )


def code(text: str) -> str:
    """Return code for a table, on one line."""
    return f"`{' '.join(text.split())}`"


def audit() -> str:
    """Return the page of the audit's rules, from their docstrings."""
    parts = []
    for path in sorted((ROOT / "python/blklab/md/audit").glob("*.py")):
        module = ast.parse(path.read_text())
        rows = dict(rule for node in module.body for rule in audit_rules(node))
        if rows:
            title = path.stem.replace("_", " ").capitalize()
            parts += [f"## {title}", table(("rule", "severity", "meaning"), rows.values())]
    intro = (
        "What `blklab md audit` reports. The names do not change.\n"
        "[Audit md arrays](../howto/audit.md) says how to read the findings."
    )
    return page("Audit rules", intro, *parts)


def audit_rules(node: ast.stmt) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Give the codes that a function reports: with severities, and its docstring.

    A paragraph of the docstring that begins with `code`: is about this code only.
    """
    if not isinstance(node, ast.FunctionDef):
        return
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    severities: dict[str, set[str]] = {}
    for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
        strings = [
            constant.value
            for argument in call.args[:3]
            for constant in ast.walk(argument)
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
        ]
        graded = set(strings) & set(SEVERITIES)
        codes = [text for text in strings if re.fullmatch(r"[a-z]+(-[a-z]+)*", text)]
        codes = [text for text in codes if text not in SEVERITIES and not text.startswith("raid")]
        if graded and codes:
            severities.setdefault(codes[-1], set()).update(graded)
    for name, graded in severities.items():
        own = [text for text in paragraphs if text.startswith(f"`{name}`: ")]
        text = own[0].partition(": ")[2] if own else paragraphs[0]
        text = text or "see [Audit md arrays](../howto/audit.md)"
        ordered = ", ".join(severity for severity in SEVERITIES if severity in graded)
        yield name, (f"`{name}`", ordered, " ".join(text.split()))


def kernel_bugs() -> str:
    """Return the page of the known bugs of md in the kernel, which `md audit` warns about."""
    from blklab.md.audit.kernel_bugs import read_bugs

    rows = []
    for bug in read_bugs():
        fixed = f"before {bug.fixed[0]}.{bug.fixed[1]}" if bug.fixed else "no fix known"
        releases = f"{bug.since[0]}.{bug.since[1]} and later, {fixed}"
        if bug.last:
            releases = f"{bug.since[0]}.{bug.since[1]} to {bug.last[0]}.{bug.last[1]}, later ones are not known"
        condition = bug.condition.replace("-", " ")
        help_text = f"{bug.harm}. Until a fixed kernel runs: {bug.remedy}"
        rows.append((f"`{bug.id}`", releases, condition, bug.severity, help_text, bug.source))
    intro = (
        "The finding `kernel-bug` of `blklab md audit` is about these bugs. Distributions port fixes\n"
        "back, so a kernel of such a release may have the fix. On its own host, `md audit` looks for the fix in the\n"
        "changelog of the kernel's package (Debian, Ubuntu, RPM), and does not accuse a kernel that has it."
    )
    head = ("bug", "Linux", "seen on the host", "severity", "harm, and what helps", "source")
    return page("Known bugs of md", intro, table(head, rows))


def comparison() -> str:
    """Return the page of the metrics that results are compared by."""
    from blklab.compare.metrics import METRICS

    units = {"rate": "per second", "bandwidth": "bytes/s", "time": "ns", "share": "0 to 1", "cpus": "CPUs"}
    units["number"] = "as printed"
    rows = (
        (f"`{metric.name}`", metric.description, units[metric.kind], "more" if metric.more_is_better else "less")
        for metric in METRICS.values()
    )
    intro = (
        "Names for `blklab compare --metric`, `--fail-if` and `blklab tune --metric`.\n"
        "A latency without a direction, such as `p99`, is of the directions that all sides of a\n"
        "comparison have: reads, writes and fsyncs. Other spellings are accepted: `read_p99`, `read.p99.9`."
    )
    head = ("metric", "meaning", "unit in JSON", "better")
    return page("Comparison metrics", intro, table(head, rows))


def device_models() -> str:
    """Return the page of the library of device models: what makers state, and what the simulator gives."""
    from blklab.devices.stock_models import DIRECTORY, library, paths
    from blklab.devices.tables import RATED
    from blklab.runners.sim.runner import simulate_rated_figures

    models = [model for model in library() if paths()[model.name].parent == DIRECTORY]
    simulated = simulate_rated_figures(models)
    scale = {"read_bandwidth": 1e6, "write_bandwidth": 1e6}
    figures = (
        (
            f"`{name}`",
            RATED[figure.name],
            f"{figure.rated / unit:,.4g}",
            f"{figure.simulated / unit:,.4g}",
            f"{100 * figure.error:+.1f} %",
        )
        for name, rated in simulated.items()
        for figure in rated
        for unit in [scale.get(figure.name, 1)]
    )
    listed = (
        (f"`{m.name}`", m.device_class, m.product, m.certainty + spread, m.source)
        for m in models
        for spread in [f" ±{100 * m.spread:.0f} %" if m.spread else ""]
    )
    intro = (
        'Names for `model = "..."` of a device in an experiment. `certainty` says where the figures come from:\n'
        "`measured` (calibrated on a disk), `data sheet` (read yours again before you buy), `documentation` (of a\n"
        "cloud), or `typical`: a usual disk of the class, from which others differ by the spread. See `blklab devices`."
    )
    about = (
        "## Data sheets and simulation\n\nIOPS of 4 KiB with 32 I/Os in flight (NVMe: 256), MB/s of 128 KiB with 32 in"
        ' flight, ms.\nUsed disks have `state = "steady"`; other figures are those of a new disk, `state = "fresh"`.'
    )
    heads = ("model", "class", "product", "certainty", "source"), ("model", "figure", "rated", "simulated", "error")
    return page("Device models", intro, table(heads[0], listed), about, table(heads[1], figures))


PAGES = {
    "devices.md": device_models,
    "commands.md": commands,
    "experiment-keys.md": experiment,
    "documents.md": documents,
    "prometheus.md": prometheus,
    "audit-rules.md": audit,
    "kernel-bugs.md": kernel_bugs,
    "comparison-metrics.md": comparison,
}


def main() -> int:
    """Write or check all pages; the exit status is 1 if a page is out of date."""
    stale = []
    for name, write in PAGES.items():
        path, text = TARGET / name, write()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    if stale and "--check" in sys.argv:
        names = ", ".join(stale)
        sys.stderr.write(f"docs/reference: {names} out of date: run `make reference`\n")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
