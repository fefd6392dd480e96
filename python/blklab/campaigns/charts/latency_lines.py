"""The lines of a chart whose vertical axis is the latency."""

from collections.abc import Sequence
from typing import Any

from blklab.render import chart as base
from blklab.render.chart import Spec, chart_spec, quantity


def latency_lines(data: Sequence[Spec], **encoding: Any) -> Spec:
    """Returns a chart with lines of the latencies `v`."""
    values = [row["v"] for row in data]
    y = {**quantity("v"), **base.log_durations(min(values) * 0.9, max(values) * 1.1, "latency")}
    label = {"calculate": base.duration_label("datum.v"), "as": "v_text"}
    mark = {"type": "line", "point": {"size": 22}, "strokeWidth": 1.7, "clip": True}
    return chart_spec(data, transform=[label], mark=mark, encoding={"y": y, **encoding})
