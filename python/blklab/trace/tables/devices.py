"""Tables of all devices of a trace: the stack and key figures."""

from blklab.render import formatting
from blklab.render.table import BAR, TextTable, drop_empty_columns, number_columns, text_column
from blklab.trace.view import DeviceView, ProfileView

MOST = 20  # Devices of the table
FIGURES = ("I/Os", "IOPS", "rate", "reads", "read p50 / p99", "write p50 / p99", "depth", "busy", "errors")
SPARE = ("rate", "reads", "depth", "I/Os")


def overview(view: ProfileView, limit: int = MOST) -> TextTable:
    """Returns the table of devices with load and latencies, from the top of the stack: those with most I/Os."""
    rows: list[list[str]] = []
    ios: list[int] = []
    strong = set()
    for depth, layer in enumerate(view.layers()):
        for device in layer:
            if view.devices and any(d.active for d in view.devices) and device is view.focus:
                strong.add(len(rows))
            branch = "  " * (depth - 1) + "└ " if depth else ""
            rows.append([branch + device.label, *key_figures(device)])
            ios.append(device.ios)
    note = stack(view)
    if len(rows) > limit + 1:  # a line that says "and 1 other" takes as much room as the other
        busiest = sorted(range(len(rows)), key=lambda index: (index not in strong, -ios[index]))[:limit]
        share_text = formatting.share(1 - sum(ios[index] for index in busiest) / max(1, sum(ios)))
        note = f"and {formatting.plural(len(rows) - limit, 'other')} with {share_text} of the I/Os"
        indices = sorted(busiest)
        strong = {indices.index(index) for index in strong if index in indices}
        rows = [rows[index] for index in indices]
    return drop_empty_columns(
        TextTable("Devices", [text_column(""), *number_columns(*FIGURES)], rows, note, frozenset(strong), SPARE)
    )


def key_figures(device: DeviceView) -> list[str]:
    """Returns the cells below FIGURES."""
    return [
        formatting.count(device.ios),
        formatting.number(device.iops),
        formatting.rate(device.throughput),
        formatting.share(device.op("read").share_of_ios if device.ios else None),
        _latency(device, "read"),
        _latency(device, "write"),
        formatting.number(device.data.in_flight.mean if device.ends else None),
        formatting.share(device.busy),
        formatting.count(device.failed),
    ]


def _latency(device: DeviceView, op: str) -> str:
    response = device.response(op)
    return formatting.pair(response[1] if response else None)


def stack(view: ProfileView) -> str:
    """Returns the stack in one line; empty if there is none."""
    layers = view.layers()
    if len(layers) < 2:
        return ""
    parts = []
    for layer in layers:
        parts.append(", ".join(device.label for device in layer))
    return f"stack: {' → '.join(parts)}"


def feeds(view: ProfileView) -> TextTable:
    """Returns the table of remaps between devices."""
    rows = [
        [
            view.names.get(feed.upper, feed.upper),
            view.names[feed.lower],
            formatting.count(feed.ios),
            formatting.share(feed.share),
            str(feed.share),
        ]
        for feed in sorted(view.feeds, key=lambda feed: -feed.ios)
    ]
    columns = [text_column("from"), text_column("to"), *number_columns("I/Os", "share of the lower device"), BAR]
    return TextTable("Remaps", columns, rows)
