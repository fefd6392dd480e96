"""A drawing of the stack of devices: boxes in layers; the width of a line is the amount of I/O."""

from typing import Any, Final

from blklab.report import formatting
from blklab.report.view import DeviceView, ProfileView
from blklab.text import printable

BOX_WIDTH: Final = 116
BOX_HEIGHT: Final = 46
GAP: Final = 22
LAYER: Final = 96
MOST: Final = 8  # Maximum number of devices in a layer; if there are more, there is no drawing


def diagram(view: ProfileView) -> dict[str, Any] | None:
    """Returns the boxes and lines of the drawing for the template; None if a layer has too many devices."""
    layers: list[list[tuple[str, str, str, str]]] = [
        [_traced(view, device) for device in layer if device.active] for layer in view.layers()
    ]
    feeds = view.feeds()
    traced = {device.number for device in view.devices}
    rank = {number: at for at, layer in enumerate(layers) for number, *_ in layer}
    unseen = {feed.upper: feed for feed in feeds if feed.upper not in traced}
    for number, feed in unseen.items():
        at = rank.get(feed.lower, 0) - 1
        if at < 0:
            layers.insert(0, [])
            rank = {known: place + 1 for known, place in rank.items()}
            at = 0
        layers[at].append((number, printable(number), "not traced", "unseen"))
    if max(map(len, layers), default=0) > MOST:
        return None
    width = max(len(layer) for layer in layers) * (BOX_WIDTH + GAP) + GAP
    places: dict[str, tuple[float, float]] = {}
    boxes = []
    for at, layer in enumerate(layers):
        left = (width - len(layer) * (BOX_WIDTH + GAP) + GAP) / 2
        for place, (number, label, more, kind) in enumerate(layer):
            x, y = left + place * (BOX_WIDTH + GAP), 2 + at * LAYER
            places[number] = (x, y)
            boxes.append({"x": x, "y": y, "label": label, "more": more, "kind": kind})
    lines = []
    for feed in feeds:
        if feed.upper not in places or feed.lower not in places:
            continue
        (x1, y1), (x2, y2) = places[feed.upper], places[feed.lower]
        x1, x2, y1 = x1 + BOX_WIDTH / 2, x2 + BOX_WIDTH / 2, y1 + BOX_HEIGHT
        half = (y1 + y2) / 2
        path = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{half:.0f} {x2:.0f},{half:.0f} {x2:.0f},{y2:.0f}"
        names = f"{view.names.get(feed.upper, printable(feed.upper))} → {view.names[feed.lower]}"
        text = f"{names}: {formatting.plural(feed.ios, 'I/O')}, {formatting.share(feed.share)} of its I/O"
        lines.append({"path": path, "width": round(1.5 + 8 * feed.share, 1), "text": text})
    height = LAYER * (len(layers) - 1) + BOX_HEIGHT + 4
    box = {"box_width": BOX_WIDTH, "box_height": BOX_HEIGHT}
    return {"width": width, "height": height, "boxes": boxes, "lines": lines, **box}


def _traced(view: ProfileView, device: DeviceView) -> tuple[str, str, str, str]:
    more = f"{formatting.number(device.iops)} IOPS" if device.iops is not None else ""
    kind = "focus" if device is view.focus else "traced"
    return device.number, device.label, more, kind
