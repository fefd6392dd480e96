"""Tables of all devices of a trace: the stack and key figures."""

from blklab.render import formatting
from blklab.render.table import BAR, TextTable, drop_empty_columns, number_columns, text_column
from blklab.trace.view import DeviceView, ProfileView, TreeNode

MOST = 20  # Devices of the table
FIGURES = ("I/Os", "IOPS", "rate", "reads", "read p50 / p99", "write p50 / p99", "depth", "busy", "errors")
SPARE = ("rate", "reads", "depth", "I/Os")


def overview(view: ProfileView, limit: int = MOST) -> TextTable:
    """Returns the table of devices with load and latencies, from the top of the stack: those with most I/Os."""
    tree = view.tree()
    note = stack(view)
    if len(tree) > limit + 1:  # a line that says "and 1 other" takes as much room as the other

        def importance(node: TreeNode) -> tuple[bool, bool, int]:
            return node.device is not view.focus, node.parent is not view.focus, -node.device.ios

        ios = sum(node.device.ios for node in tree)
        important = sorted(tree, key=importance)[:limit]
        tree = [node for node in tree if node in important]
        share_text = formatting.share(1 - sum(node.device.ios for node in tree) / max(1, ios))
        note = f"and {formatting.plural(len(view.devices) - limit, 'other')} with {share_text} of the I/Os"
    rows = []
    strong = set()
    depths: dict[str, int] = {}  # By the number of a device that is shown
    parents = {node.device.number: node.parent for node in view.tree()}
    for index, node in enumerate(tree):
        parent = node.parent
        while parent is not None and parent.number not in depths:
            parent = parents[parent.number]  # A device that is not shown
        depth = depths[parent.number] + 1 if parent is not None else 0
        depths[node.device.number] = depth
        if node.device.active and node.device is view.focus:
            strong.add(index)
        branch = "  " * (depth - 1) + "└ " if depth else ""
        rows.append([branch + node.device.label, *key_figures(node.device)])
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
