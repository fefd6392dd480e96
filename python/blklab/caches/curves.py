"""Hit ratios by cache size, in the terminal and as a page."""

from collections.abc import Mapping

from blklab.documents.cache_curves import BlockCurves, CacheCurves, CurvePoint, PolicyCurve
from blklab.render import chart_theme as theme
from blklab.render import formatting, shell, terminal
from blklab.render.chart import Chart, Spec, chart_spec, layer, log_ticks, quantity, size_label, tip
from blklab.render.console import Console, style_text
from blklab.render.formatting import Sentence
from blklab.render.shell import PageSection
from blklab.render.table import TextTable, number_columns

COLOURS: Mapping[str, str] = dict(zip(("smq", "bcache", "lru", "opt"), theme.SERIES, strict=False))

CACHES: Mapping[str, str] = {
    "smq": "dm-cache",
    "bcache": "bcache",
    "lru": "a cache that keeps the latest blocks (LRU)",
    "opt": "the best possible cache",
}
"""Caches by policy, those first that Linux has."""

SAME = 0.02
"""Share of the reads below which a larger cache is no better."""

VERDICTS = ((0.6, "Worth it"), (0.25, "Perhaps worth it"), (0.0, "Hardly worth it"))
"""What a share of the reads means: even if a hit takes no time, the mean time of a read falls by this share only."""

MOST_CHUNKS = 1_000_000
"""Chunks above which LVM takes larger ones (lvm2, lib/metadata/cache_manip.c)."""

LARGEST_ERROR = 0.02
"""The half-width of an interval from which a doubt is shown."""


def doubts(document: CacheCurves) -> list[str]:
    """Returns one line for each reason to read the figures with care."""
    reasons = []
    if document["assumed_rates"]:
        rates = " and ".join(f"{rate:,.0f}" for rate in document["assumed_rates"])
        reasons.append(
            f"{document['useless_times']}, but smq promotes by misses a second: "
            f"its figures are a band between {rates} I/Os a second, and bcache forgets no stream"
        )
    unit = document["spread_ns"]
    if unit is not None:
        reasons.append(f"the times are multiples of {formatting.duration(unit)}: I/Os of one time are spread over it")
    if document["assumed_volumes"]:
        touched_size, large = map(formatting.size, document["assumed_volumes"])
        reasons.append(
            "smq depends on the size of the volume, which is not known: "
            f"its figures are a band between {touched_size}, as far as the trace reaches, and {large} or more: "
            "give `cache curve` --volume-size"
        )
    bands = set()  # Policies with a band of assumptions: a longer recording does not narrow it
    if document["assumed_volumes"]:
        bands.add("smq")
    if document["assumed_rates"]:
        bands |= {"smq", "bcache"}
    for block in document["blocks"]:
        footprint = formatting.size(block["footprint_bytes"])
        chunk = formatting.size(block["block_bytes"])
        sizes = _sizes(block)
        if any(curve["policy"] == "smq" and not curve["points"] for curve in block["curves"]):
            reasons.append(f"smq has no figures for blocks of {chunk}: dm-cache's chunks are multiples of 32 KiB")
        larger = [formatting.size(size) for size in sizes if size >= 2 * block["footprint_bytes"]]
        if larger:
            reasons.append(f"a cache of {larger[0]} is larger than the {footprint} that the trace touches")
        if sizes and sizes[-1] > MOST_CHUNKS * block["block_bytes"]:
            reasons.append(
                f"{formatting.size(sizes[-1])} are more than 1,000,000 chunks of {chunk}: "
                "LVM takes larger chunks then, so give --block"
            )
        for curve in block["curves"]:
            if curve["error"] > LARGEST_ERROR and curve["policy"] not in bands:
                reasons.append(
                    f"{curve['policy']}: the interval is up to ±{formatting.share(curve['error'])} wide: "
                    "record for longer, or give `cache curve` more --samples"
                )
    return reasons


def _sizes(block: BlockCurves) -> list[int]:
    return sorted({point["cache_bytes"] for curve in block["curves"] for point in curve["points"]})


def facts(document: CacheCurves) -> list[str]:
    """Returns the amounts of the trace."""
    span = document["span_ns"]
    return [
        formatting.plural(document["requests"], "I/O"),
        "no times" if span is None else formatting.duration(span),
        f"{formatting.size(document['read_bytes'])} read",
        f"{formatting.size(document['write_bytes'])} written",
        f"smq of Linux {document['kernel']}",
    ]


def sentences(document: CacheCurves) -> list[Sentence]:
    """Returns whether a cache is worth it, then the floor and the knees of each block size."""
    result = []
    for block in document["blocks"]:
        answer = _answer(block)
        topic = "Answer"
        if len(document["blocks"]) > 1:
            topic = f"Answer, {formatting.size(block['block_bytes'])}"
        if answer:
            result.append(Sentence(topic, answer))
    for block in document["blocks"]:
        size = formatting.size(block["block_bytes"])
        footprint = formatting.size(block["footprint_bytes"])
        ratios = {"reads": block["read_first_touch_ratio"], "writes": block["write_first_touch_ratio"]}
        shares = [f"{formatting.share(ratio)} of {name}" for name, ratio in ratios.items() if ratio is not None]
        floor = formatting.share(block["first_touch_ratio"])
        text = (
            f"{floor} of the accesses ({', '.join(shares)}) are the first to their block: "
            f"no cache that starts empty serves them. The trace touches {footprint}."
        )
        knees = " ".join(_knee(curve) for curve in block["curves"] if curve["points"])
        if min(_sizes(block), default=0) < 513 << 19 and any(curve["policy"] == "bcache" for curve in block["curves"]):
            knees += " bcache has no figures below 256.5 MiB: the kernel refuses 512 buckets or fewer."
        result += [Sentence(f"First touch, {size}", text), Sentence(f"Size, {size}", knees)]
    return result


def _answer(block: BlockCurves) -> str:
    """Says whether a cache is worth it, how large, and what limits it; empty if there are no figures.

    dm-cache stands for all: the other policies are bounds, or are counted in another way.
    """
    curves = [curve for curve in block["curves"] if curve["points"]]
    if not curves:
        return ""
    curve = next(curve for name in CACHES for curve in curves if curve["policy"] == name)
    has_reads = any(point["read_hit_ratio"] is not None for point in curve["points"])
    what = "reads" if has_reads else "I/Os"
    ratios = [_read_ratio(point) for point in curve["points"]]
    point = next(point for point in curve["points"] if _read_ratio(point) >= max(ratios) - SAME)
    ratio = _read_ratio(point)
    verdict = next(words for bound, words in VERDICTS if ratio >= bound)
    cache = f"{CACHES[curve['policy']]} of {formatting.size(point['cache_bytes'])}"
    text = f"{verdict}: {cache} answers about {formatting.share(round(ratio, 2))} of the {what}"
    if point is not curve["points"][-1]:
        text += "; larger does not help"
    first = block["read_first_touch_ratio"] if has_reads else block["first_touch_ratio"]
    if first:
        text += f"; {formatting.share(round(first, 2))} are the first to their block, which no cache answers"
    return f"{text}. `blklab cache advise` computes the latency."


def _read_ratio(point: CurvePoint) -> float:
    ratio = point["read_hit_ratio"]
    return point["hit_ratio"] if ratio is None else ratio


def _knee(curve: PolicyCurve) -> str:
    last = curve["points"][-1]
    knee = curve["knee_bytes"]
    reads = " of the reads" if curve["policy"] == "bcache" else ""
    last_text = f"{formatting.size(last['cache_bytes'])} serves {_ratio(last)}{reads}"
    at_knee = next((point for point in curve["points"] if point["cache_bytes"] == knee), last)
    if at_knee is last:
        if len(curve["points"]) > 2:
            return f"{curve['policy']}: no knee; {last_text}."
        return f"{curve['policy']}: {last_text}."  # Two sizes are a line, which has no knee
    return (
        f"{curve['policy']}: the knee is {formatting.size(knee)}, which serves {_ratio(at_knee)}{reads}; {last_text}."
    )


def _ratio(point: CurvePoint) -> str:
    half = (point["high"] - point["low"]) * 50
    ratio = f"{point['hit_ratio'] * 100:.1f} %"
    return f"{ratio} ±{half:.1f}" if half >= 0.05 else ratio


def _directions(point: CurvePoint) -> str:
    ratios = (point["read_hit_ratio"], point["write_hit_ratio"])
    return " / ".join(formatting.NONE if ratio is None else f"{ratio * 100:.1f}" for ratio in ratios)


def tables(block: BlockCurves) -> list[TextTable]:
    """Returns the hit ratios by size, and those of reads and writes."""
    curves = [curve for curve in block["curves"] if curve["points"]]
    columns = number_columns("cache", *(curve["policy"] for curve in curves))
    ratio_rows = []
    direction_rows = []
    for size in _sizes(block):
        ratios = [formatting.size(size)]
        directions = [formatting.size(size)]
        for curve in curves:
            point = _point_at(curve, size)
            ratios.append(_ratio(point) if point else formatting.NONE)
            directions.append(_directions(point) if point else formatting.NONE)
        ratio_rows.append(ratios)
        direction_rows.append(directions)
    title = f"Hit ratio by cache size, blocks of {formatting.size(block['block_bytes'])}"
    return [TextTable(title, columns, ratio_rows), TextTable("Hits of reads / writes, %", columns, direction_rows)]


def _point_at(curve: PolicyCurve, size: int) -> CurvePoint | None:
    """Returns the point of a curve at a size, if it has one."""
    points = [point for point in curve["points"] if point["cache_bytes"] == size]
    return points[-1] if points else None


def chart(block: BlockCurves) -> Chart | None:
    """Returns hit ratios over the size, with intervals and the floor."""
    sizes = _sizes(block)
    if len(sizes) < 2:
        return None
    table = tables(block)[0]
    rows = []
    for curve in block["curves"]:
        for point in curve["points"]:
            texts = {"size": formatting.size(point["cache_bytes"]), "shown": _ratio(point)}
            rows.append({**point, "policy": curve["policy"], **texts})
    names = [curve["policy"] for curve in block["curves"] if curve["points"]]
    axis = {"values": log_ticks(sizes[0], sizes[-1], sizes=True), "labelExpr": size_label("datum.value")}
    x = quantity("cache_bytes", "size of the cache", scale={"type": "log", "base": 2, "nice": False}, axis=axis)
    ends = [point["high"] for curve in block["curves"] for point in curve["points"]]
    highest = max(1 - block["first_touch_ratio"], *ends)
    share: Spec = {"scale": {"domain": [0, min(1.0, 1.1 * highest)], "nice": False}, "axis": {"format": ".0%"}}
    scale = {"domain": names, "range": [COLOURS[name] for name in names]}
    base_encoding = {"x": x, "color": {"field": "policy", "type": "nominal", "scale": scale, "legend": {"title": None}}}
    tooltip = [tip("policy", "policy"), tip("size", "cache"), tip("shown", "hit ratio")]
    ratio = quantity("hit_ratio", "hit ratio", **share)
    floor = {"y": {"datum": 1 - block["first_touch_ratio"], "type": "quantitative"}}
    layers = [
        layer("area", {**base_encoding, "y": quantity("low", **share), "y2": {"field": "high"}}, fillOpacity=0.25),
        layer("line", {**base_encoding, "y": ratio, "tooltip": tooltip}, point={"size": 25}),
        layer("rule", floor, color="@soft", strokeDash=[4, 3]),
    ]
    note = "The dashed line is the most that a cache can serve which starts empty. bcache counts reads only."
    name = f"hit-ratio-{block['block_bytes'] // 1024}k"
    return Chart(name, table.title, chart_spec(rows, layer=layers), table, note, wide=True)


def print_curves(console: Console, document: CacheCurves) -> None:
    """Prints sentences and tables."""
    console.print(style_text(" · ".join(facts(document)), "dim"))
    console.print()
    terminal.prose(console, sentences(document))
    terminal.draw_table(console, *(table for block in document["blocks"] for table in tables(block)))


def sections(document: CacheCurves, name: str = "") -> list[PageSection]:
    """Returns a section for each block size; `name` is its name in the menu, instead of the size."""
    result = []
    for block in document["blocks"]:
        size = formatting.size(block["block_bytes"])
        ratios, directions = tables(block)
        heading = f"Hits of a cache with blocks of {size}"
        result.append(
            PageSection(f"blocks-{block['block_bytes']}", name or size, heading, [chart(block) or ratios, directions])
        )
    return result


def render(document: CacheCurves, *, title: str, command: str) -> str:
    """Returns the page; `command` created it."""
    return shell.render(
        "document.html.j2",
        sections(document),
        kicker="cache sizes",
        title=title,
        facts=facts(document),
        sentences=sentences(document),
        doubts=[Sentence("Note", f"{doubt[0].upper()}{doubt[1:]}.") for doubt in doubts(document)],
        command=command,
    )
