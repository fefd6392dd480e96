"""The time axis that all charts of a device over time share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blklab.render import formatting
from blklab.render.chart import Spec, chart_spec, layer, quantity, tip, zoom
from blklab.trace.view import DeviceView

UNITS = (("h", 3600e9, 3 * 3600e9), ("min", 60e9, 600e9), ("s", 1e9, 1e9), ("ms", 1e6, 0.0))
"""Units: name, ns, and the length from which it is used."""

HOVER = {"type": "point", "fields": ["t"], "on": "pointerover", "clear": "pointerout"}
"""The slice under the pointer. With `nearest`, vega-lite 6 looks for the texts of a tooltip in the wrong object."""

EXTENT = 62  # Width of the vertical axis in pixels, the same in all charts
STALL_NOTE = " Red: stalls, in which nothing completed although I/Os were in flight."


@dataclass(frozen=True)
class TimeAxis:
    """From the first slice with I/O to the end of the last one."""

    start_ns: int
    end_ns: int
    last_ns: int = 0  # The last event
    stalls: Sequence[tuple[int, int]] = ()  # Start and end of each stall, ns

    @staticmethod
    def of(device: DeviceView) -> "TimeAxis":
        width, slices = device.slices()
        stalls = [(stall.start_ns, stall.start_ns + stall.length_ns) for stall in device.data.slow.stalls]
        if not slices:
            return TimeAxis(0, 0)
        return TimeAxis(slices[0].start_ns, slices[-1].start_ns + width, device.data.last_ns, stalls)

    @property
    def unit(self) -> tuple[str, float]:
        """The unit's name and its ns."""
        return next((name, ns) for name, ns, least in UNITS if self.end_ns - self.start_ns >= least)

    def at(self, time_ns: int) -> float:
        """Returns a time in the axis' unit."""
        return round(time_ns / self.unit[1], 6)

    def overlap_ns(self, start_ns: int, width_ns: int) -> int:
        """Returns how much of a slice the trace covers; at least 1 ns."""
        return max(1, min(width_ns, self.last_ns - start_ns))

    def note(self, note: str) -> str:
        """Returns the note of a chart; it explains the marks of stalls if there are any."""
        return note + STALL_NOTE if self.stalls else note

    def row(self, start_ns: int) -> Spec:
        """Returns the beginning of a row of data: its time as figure and as text."""
        return {"t": self.at(start_ns), "when": formatting.duration(start_ns)}

    def layers(self, layers: Sequence[Spec], *channels: str) -> Spec:
        """Returns the parts of a specification whose horizontal axis is time, with marks of stalls."""
        layers[0]["params"] = [zoom(*channels)]
        for spec in layers:  # so that the time axes of all charts are aligned
            if y := spec["encoding"].get("y"):
                y["axis"] = {**y.get("axis", {}), "minExtent": EXTENT, "maxExtent": EXTENT}
        if self.stalls:
            rows = [{"t": self.at(start), "t2": self.at(end)} for start, end in self.stalls]
            style = {"color": "@error", "stroke": "@error", "strokeWidth": 1, "opacity": 0.35, "clip": True}
            layers = [*layers, {"data": {"values": rows}, **layer("rect", {"x2": {"field": "t2"}}, **style)}]
        domain = [self.at(self.start_ns), self.at(self.end_ns)]
        title = f"time since the trace began ({self.unit[0]})"
        return {"encoding": {"x": quantity("t", title, scale={"nice": False, "domain": domain})}, "layer": layers}

    def chart(self, rows: Sequence[Spec], layers: Sequence[Spec], tooltips: Sequence[Spec], **properties: Any) -> Spec:
        """Returns a specification of layers, and above them the slice under the pointer with its figures."""
        ends = [row["t"] for row in rows[1:]] + [self.at(self.end_ns)]
        for row, end in zip(rows, ends, strict=True):
            row["t_end"] = end
        hovered: Spec = {
            "mark": {"type": "rect", "color": "@ink", "clip": True},
            "encoding": {
                "x2": {"field": "t_end"},
                "fillOpacity": {"condition": {"param": "hover", "empty": False, "value": 0.15}, "value": 0},
                "tooltip": [tip("when", "from"), *tooltips],
            },
            "params": [{"name": "hover", "select": HOVER}],
        }
        parts = self.layers(layers)
        return chart_spec(rows, **{**parts, "layer": [*parts["layer"], hovered]}, **properties)
