"""The report on a trace: one self-contained HTML page."""

from collections.abc import Iterator, Sequence
from typing import Any

from blklab.caches import curves as cache_curves
from blklab.diagnostic import Diagnostic
from blklab.documents.cache_curves import CacheCurves
from blklab.render import diagnostics, formatting, shell
from blklab.render.chart import Chart
from blklab.render.shell import Item, KeyFigureTile, PageSection, SentenceList
from blklab.render.table import TextTable
from blklab.text.printing import printable
from blklab.trace import array_members
from blklab.trace.causes import MOST, causes, summary
from blklab.trace.charts import bars, density, over_time, pattern
from blklab.trace.sentences import sentences
from blklab.trace.tables import devices as device_tables
from blklab.trace.tables import life, load, trace
from blklab.trace.tables import pattern as pattern_tables
from blklab.trace.view import DeviceView, ProfileView

LONGEST_HEADLINE = 90  # Characters of a title


def charts(parts: Sequence[PageSection]) -> list[Chart]:
    """Returns all charts of a report, in the order of the page."""
    return [chart for section in parts for chart in section.charts]


def render(view: ProfileView, parts: Sequence[PageSection] = (), *, title: str | None = None, command: str = "") -> str:
    """Returns the page of `sections`; `command` created it. Raises BlklabError if there is no I/O."""
    device = view.focus
    doubts = trace.diagnose(view)
    found_causes = causes(view)
    context: dict[str, Any] = {
        "title": title or _headline(device, found_causes),
        "device": device,
        "facts": trace.headline(view),
        "sentences": summary(view, found_causes, codes=False),
        "evidence": _evidence(found_causes, parts or sections(view)),
        "names": [device.label for device in view.devices],
        "tiles": list(_tiles(device)),
        "doubts": diagnostics.sentences([diagnostic for diagnostic in doubts if diagnostic.severity != "note"]),
        "precision": _precision(device),
        "notes": diagnostics.sentences([diagnostic for diagnostic in doubts if diagnostic.severity == "note"]),
        "stack": diagram(view) if len(view.layers()) > 1 else None,
        "overview": device_tables.overview(view),
        "others": _others(view),
        "made": _trace_tables(view),
        "command": command,
    }
    return shell.render("trace.html.j2", parts or sections(view), **context)


def _headline(device: DeviceView, found_causes: Sequence[Diagnostic]) -> str:
    """Returns the answer in a few words: `vdb slows md0 down`; the device if no cause is known."""
    if found_causes:
        cause = found_causes[0]
        sentence = printable(cause.message)
        for end in (": ", ", "):
            headline = sentence.partition(end)[0]
            if cause.subject not in headline:
                headline = f"{headline} ({printable(cause.subject)})"
            if len(headline) <= LONGEST_HEADLINE:
                return headline
    return f"The workload of {device.label}"


EVIDENCE = {
    "behind-writeback": ("processes-over-time", "latency-over-time"),
    "broken-stream": ("order",),
    "bursts": ("iops", "depth-over-time"),
    "cache-bypass": ("devices-over-time",),
    "cache-misses": ("devices-over-time",),
    "deep-queue": ("processes-over-time", "depth-over-time"),
    "flushes": ("latency-over-time",),
    "fsync-storm": ("processes-over-time", "latency-over-time"),
    "md-sync": ("utilisation", "processes-over-time"),
    "read-modify-write": ("devices-over-time",),
    "slow-member": ("utilisation", "latency-over-time"),
    "split-by-chunks": ("devices-over-time",),
    "stalls": ("depth-over-time", "latency-over-time"),
    "tiny-io": ("read-sizes",),
    "unaligned": ("write-sizes",),
}
"""Charts that show a cause, by its code."""


def _evidence(found_causes: Sequence[Diagnostic], parts: Sequence[PageSection]) -> list[dict[str, str]]:
    """Returns links to the charts that show the causes: `href` and `title`, each chart once."""
    titles = {chart.name: chart.title for chart in charts(parts)}
    names: dict[str, None] = {}
    for cause in found_causes[:MOST]:
        for name in EVIDENCE.get(cause.code, ()):
            if name in titles:
                names[name] = None
    return [{"href": f"#chart-{name}", "title": titles[name]} for name in names]


def sections(view: ProfileView, curves: CacheCurves | None = None) -> list[PageSection]:
    """Returns all sections with content. Raises BlklabError if there is no I/O."""
    device = view.focus
    stack_charts = over_time.stack_charts(view)
    charts_over_time = over_time.charts(view)
    shown = [
        *stack_charts[:-1],
        *(chart for chart in charts_over_time if chart.name == "latency-over-time"),
        *charts_over_time,
    ]
    workload_sentences = SentenceList([*sentences(device), *array_members.sentence(view, device)])
    times: list[Item] = [*bars.latency_charts(device), *density.latency_charts(device), *density.map_charts(device)]
    times += _some(life.depth(device))
    arrivals: list[Item] = [*pattern.arrival_charts(device), *_some(pattern_tables.gaps(device))]
    blocks: list[Item] = [*pattern.hotness_charts(device), *_some(pattern_tables.hot_blocks(device))]
    origins = _some(load.operations(device), array_members.members_table(view, device))
    stack = PageSection("stack", "Devices", "The devices", stack_charts[1:])
    if view.feeds:
        stack = PageSection("stack", "Stack", "The stack", stack_charts[1:])
    cache_sections = cache_curves.sections(curves, "Cache") if curves else []
    parts = [
        PageSection("workload", "", "The workload", [*shown[:1], workload_sentences]),
        stack,
        PageSection(
            "time",
            "Over time",
            "Over time",
            [chart for chart in charts_over_time if chart not in shown[:1]],
            "Point at a chart: a line marks the same time in all of them. Drag with Shift to sum up a range of time.",
        ),
        PageSection("offset", "", "Offset over time", density.offset_charts(device)),
        PageSection("sizes", "", "Request sizes", bars.size_charts(device)),
        PageSection("latency", "Latency", "Latency and queue depth", times),
        PageSection("slow", "", "Slowest I/Os and stalls", _some(life.slowest(device), life.stalls(device))),
        PageSection("errors", "", "Errors", _some(life.errors(device))),
        PageSection(
            "order", "Pattern", "Sequential or random", [*filter(None, (pattern.order(device), pattern.seeks(device)))]
        ),
        PageSection("rhythm", "", "Arrivals", arrivals),
        PageSection("hot", "", "Hot blocks and working set", [*blocks, *over_time.working_set(device)]),
        *cache_sections,
        PageSection("files", "", "Hot files", _some(load.hot_files(view))),
        PageSection("origin", "Who asked", "Processes, devices and CPUs", [*origins, *bars.origin_charts(device)]),
    ]
    return [part for part in parts if part]


def _some(*tables: TextTable) -> list[TextTable]:
    return [table for table in tables if table]


def _tiles(device: DeviceView) -> Iterator[KeyFigureTile]:
    arrivals = device.data.pattern.arrivals
    if device.iops is not None:
        peak = arrivals.peak_iops if arrivals.peak_to_mean is not None else None
        detail = f"at peak {formatting.count(peak)}" if peak is not None else ""
        yield KeyFigureTile("I/Os per second", formatting.number(device.iops), detail)
    if device.bytes:
        share = formatting.share(device.op("read").share_of_ios)
        yield KeyFigureTile("Bytes per second", formatting.rate(device.throughput), f"{share} reads")
    for op in ("read", "write"):
        if response := device.response(op):
            stage, quantiles = response
            p99 = f"99 % within {formatting.duration(quantiles.p99)}"
            name = f"{op.capitalize()} latency, median"
            if stage != "Q2C":
                name = f"{op.capitalize()} service, median"  # Without the time before dispatch
            yield KeyFigureTile(name, formatting.duration(quantiles.p50), p99)
    level = device.data.in_flight
    if level.mean is not None and device.ends:
        yield KeyFigureTile("I/Os in flight, mean", formatting.number(level.mean), f"at most {level.max:,}")
    hotness = device.data.hotness
    if hotness.accesses:
        hot = next((h.io_share for h in hotness.hottest if h.fraction == 0.1), None)
        detail = f"10 % take {formatting.share(hot)} of I/O" if hot is not None else ""
        yield KeyFigureTile("Data that were touched", formatting.size(hotness.unique_bytes), detail)
    if device.failed:
        yield KeyFigureTile("Errors", formatting.count(device.failed), "I/Os failed")


def _precision(device: DeviceView) -> str:
    quantiles_shown = [q for op in device.ops for q in device.life(op).latency_ns.values()]
    error = max((quantiles.relative_error for quantiles in quantiles_shown), default=0.0)
    if not error:
        return "Times and their percentiles are exact."
    exact = "Times, their means and extremes are exact, percentiles are within"
    return f"{exact} {formatting.share(error)}."


def _others(view: ProfileView) -> list[dict[str, Any]]:
    other_devices = [
        device for layer in view.layers() for device in layer if device.active and device is not view.focus
    ]
    documents = []
    for device in other_devices:
        tables = _some(load.operations(device), life.stages(device), life.errors(device))
        documents.append({"sentences": sentences(device), "tables": tables})
    return documents


def _trace_tables(view: ProfileView) -> list[TextTable]:
    feeds = [device_tables.feeds(view)] if len(view.devices) > 1 else []
    profile_tables = (trace.facts(view), trace.files(view), trace.events(view.focus))
    return _some(*trace.shard_tables(view), *profile_tables, *feeds, trace.counts(view))


BOX_WIDTH = 116
BOX_HEIGHT = 46
GAP = 22
LAYER = 96
MOST_BOXES = 8  # Devices in a layer above which there is no drawing


def diagram(view: ProfileView) -> dict[str, Any] | None:
    """Returns the boxes and lines of the drawing for the template; None if a layer has too many devices."""
    layers: list[list[tuple[str, str, str, str]]] = []
    ranks: dict[str, int] = {}  # The number of each device's layer
    for layer in view.layers():
        boxes_of_layer = [_describe_box(view, device) for device in layer if device.active]
        for number, *_ in boxes_of_layer:
            ranks[number] = len(layers)
        layers.append(boxes_of_layer)
    feeds = view.feeds
    device_numbers = {device.number for device in view.devices}
    unseen = {feed.upper: feed for feed in feeds if feed.upper not in device_numbers}
    for number, feed in unseen.items():
        rank = ranks.get(feed.lower, 0) - 1
        if rank < 0:
            layers.insert(0, [])
            ranks = {device_number: lower + 1 for device_number, lower in ranks.items()}
            rank = 0
        layers[rank].append((number, printable(number), "not traced", "unseen"))
    if max(map(len, layers), default=0) > MOST_BOXES:
        return None
    width = max(len(layer) for layer in layers) * (BOX_WIDTH + GAP) + GAP
    places: dict[str, tuple[float, float]] = {}
    boxes = []
    for rank, boxes_of_layer in enumerate(layers):
        left = (width - len(boxes_of_layer) * (BOX_WIDTH + GAP) + GAP) / 2
        y = 2 + rank * LAYER
        for place, (number, label, detail, kind) in enumerate(boxes_of_layer):
            x = left + place * (BOX_WIDTH + GAP)
            places[number] = (x, y)
            boxes.append({"x": x, "y": y, "label": label, "more": detail, "kind": kind})
    lines = []
    for feed in feeds:
        if feed.upper not in places or feed.lower not in places:
            continue
        x1, y1 = places[feed.upper]
        x2, y2 = places[feed.lower]
        x1 += BOX_WIDTH / 2
        x2 += BOX_WIDTH / 2
        y1 += BOX_HEIGHT
        half = (y1 + y2) / 2
        path = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{half:.0f} {x2:.0f},{half:.0f} {x2:.0f},{y2:.0f}"
        names = f"{view.names.get(feed.upper, printable(feed.upper))} → {view.names[feed.lower]}"
        text = f"{names}: {formatting.plural(feed.ios, 'I/O')}, {formatting.share(feed.share)} of its I/O"
        lines.append({"path": path, "width": round(1.5 + 8 * feed.share, 1), "text": text})
    height = LAYER * (len(layers) - 1) + BOX_HEIGHT + 4
    box = {"box_width": BOX_WIDTH, "box_height": BOX_HEIGHT}
    return {"width": width, "height": height, "boxes": boxes, "lines": lines, **box}


def _describe_box(view: ProfileView, device: DeviceView) -> tuple[str, str, str, str]:
    detail = f"{formatting.number(device.iops)} IOPS" if device.iops is not None else ""
    kind = "focus" if device is view.focus else "traced"
    return device.number, device.label, detail, kind
