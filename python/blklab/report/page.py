"""The report on a trace: one self-contained HTML page."""

from dataclasses import dataclass
from typing import Any

from blklab.report import diagnostics, shell, words
from blklab.report.charts import groups, latency, over_time, pattern, sizes
from blklab.report.charts.base import Chart
from blklab.report.diagram import Diagram, diagram
from blklab.report.sentences import sentences
from blklab.report.shell import Section, Tile
from blklab.report.tables import devices as device_tables
from blklab.report.tables import life, load, trace
from blklab.report.tables import pattern as pattern_tables
from blklab.report.tables.base import Table
from blklab.report.view import Device, View
from blklab.report.words import Sentence


@dataclass(frozen=True)
class Other:
    """A device that is not in focus: what it is, in short."""

    label: str
    sentences: list[Sentence]
    tables: list[Table]


def charts(view: View) -> list[Chart]:
    """Returns every chart of a report, in the order of the page."""
    return [chart for section in _sections(view) for chart in section.charts]


def render(view: View, *, title: str | None = None, command: str = "") -> str:
    """Returns the page; `command` is how it was made. Raises BlklabError if there is no I/O."""
    device, found = view.focus, trace.diagnose(view)
    context: dict[str, Any] = {
        "title": title or f"The workload of {device.label}",
        "device": device,
        "facts": trace.headline(view),
        "sentences": sentences(device),
        "tiles": _tiles(device),
        "doubts": diagnostics.sentences([one for one in found if one.severity != "note"]),
        "precision": _precision(device),
        "notes": diagnostics.sentences([one for one in found if one.severity == "note"]),
        "stack": _stack(view),
        "overview": device_tables.overview(view),
        "others": _others(view),
        "made": _made(view),
        "command": command,
    }
    return shell.render("trace.html.j2", _sections(view), **context)


def _sections(view: View) -> list[Section]:
    device = view.focus
    by_time = over_time.charts(device)
    working_set = [chart for chart in by_time if chart.name == "working-set"]
    found = [
        _devices(view),
        Section("time", "Over time", "Over time", [c for c in by_time if c not in working_set]),
        Section("sizes", "Sizes", "Request sizes", sizes.charts(device)),
        Section("latency", "Latency", "Response times and queue depth", latency.charts(device)),
        Section("errors", "Errors", "Errors", _some(life.errors(device))),
        Section("order", "Order", "Sequential or random", pattern.order_charts(device)),
        Section("rhythm", "Arrivals", "Arrivals", pattern.arrival_charts(device)),
        Section(
            "hot",
            "Hot blocks",
            "Hot blocks and working set",
            [
                *pattern.hotness_charts(device),
                *_some(pattern_tables.hot_blocks(device)),
                *working_set,
            ],
        ),
        Section(
            "origin",
            "Who asked",
            "Who asked, for what",
            [*_some(load.operations(device)), *groups.charts(device)],
        ),
    ]
    return [section for section in found if section]


def _devices(view: View) -> Section:
    name, title = ("Stack", "The stack") if view.feeds() else ("Devices", "The devices")
    return Section("stack", name, title, groups.stack_charts(view))


def _some(*tables: Table) -> list[Table]:
    return [table for table in tables if table]


def _tiles(device: Device) -> list[Tile]:
    tiles = []
    arrivals = device.data["pattern"]["arrivals"]
    if device.iops is not None:
        peak = arrivals["peak_iops"] if arrivals["peak_to_mean"] is not None else None
        more = f"at peak {words.count(peak)}" if peak is not None else ""
        tiles.append(Tile("IOPS", words.number(device.iops), more))
    if device.bytes:
        share = words.share(device.op("read")["share_of_ios"])
        tiles.append(Tile("Throughput", words.rate(device.throughput), f"{share} reads"))
    for op in ("read", "write"):
        if found := device.response(op):
            stage, quantiles = found
            p99 = f"99 % within {words.duration(quantiles['p99'])}"
            name = f"{op.capitalize()} {stage}, median"
            tiles.append(Tile(name, words.duration(quantiles["p50"]), p99))
    level = device.data["in_flight"]
    if level["mean"] is not None and device.ends:
        tiles.append(Tile("In flight", words.number(level["mean"]), f"at most {level['max']:,}"))
    hotness = device.data["hotness"]
    if hotness["accesses"]:
        hot = next((h["io_share"] for h in hotness["hottest"] if h["fraction"] == 0.1), None)
        more = f"10 % take {words.share(hot)} of I/O" if hot is not None else ""
        tiles.append(Tile("Footprint", words.size(hotness["unique_bytes"]), more))
    if device.failed:
        tiles.append(Tile("Errors", words.count(device.failed), "I/Os failed"))
    return tiles


def _precision(device: Device) -> str:
    found = [q for op in device.ops for q in device.life(op)["latency_ns"].values()]
    error = max((quantiles["relative_error"] for quantiles in found), default=0.0)
    if not error:
        return "Times and their percentiles are exact."
    exact = "Times, their means and extremes are exact, percentiles are within"
    return f"{exact} {words.share(error)}."


def _stack(view: View) -> Diagram | None:
    return diagram(view) if len(view.layers()) > 1 else None


def _others(view: View) -> list[Other]:
    return [
        Other(
            device.label,
            sentences(device),
            _some(load.operations(device), life.stages(device), life.errors(device)),
        )
        for layer in view.layers()
        for device in layer
        if device.active and device is not view.focus
    ]


def _made(view: View) -> list[Table]:
    feeds = [device_tables.feeds(view)] if len(view.devices) > 1 else []
    return _some(
        trace.facts(view), trace.files(view), trace.events(view.focus), *feeds, trace.counts(view)
    )
