"""What a live tuning would change, as lines for the terminal."""

from collections.abc import Iterator, Sequence

from blklab.experiment.sweep import AS_IS
from blklab.runners.host.live.guardian import SILENCE_S
from blklab.runners.host.live.plan import LivePlan
from blklab.runners.host.live.slices import SliceTimes
from blklab.runners.host.live.tuner import TOO_SLOW, silence_factor
from blklab.units import format_duration


def describe_plan(plan: LivePlan, times: SliceTimes, no_trace_reason: str) -> Iterator[str]:
    """Yields the lines of a plan. `no_trace_reason` says why no trace is recorded; empty if one is."""
    slices = times.blocks * len(plan.values)
    counted = format_duration(times.slice_ns - times.settle_ns)
    yield f"Setting: {plan.key}"
    yield "Values, in random order:"
    for value in plan.values:
        yield f"    {_describe_value(value, plan)}"
    yield "Files that change, and their present values:"
    for file in plan.files:
        yield f"    {file.path}    {file.present}"
    total = format_duration(times.total_ns(len(plan.values)))
    yield (
        f"Time: {total}: {slices} slices of {format_duration(times.slice_ns)}, "
        f"{times.blocks} of each value; seed {plan.seed}"
    )
    yield (
        f"    In each slice, {format_duration(times.settle_ns)} after the change are not counted, {counted} are. "
        "Between slices, the present value is restored."
    )
    yield from _describe_limit(plan, times, no_trace_reason)
    if plan.arrays:
        names = ", ".join(array.name for array in plan.arrays)
        change = "its check ends" if plan.setting.while_checked else "begins to sync"
        yield f"Arrays: {names}: if one becomes degraded or {change}, blklab restores and ends."
    yield (
        f"Afterwards, on Ctrl-C, on errors and after kill -9, the present values are restored. If blklab hangs for "
        f"{SILENCE_S * silence_factor(plan):g} s, a second process kills it and restores them."
    )
    for note in plan.notes:
        yield f"note: {note}"


def _describe_value(value: str, plan: LivePlan) -> str:
    if value != AS_IS:
        return value
    present: Sequence[str] = list(dict.fromkeys(file.present for file in plan.files))
    return f"{AS_IS} ({', '.join(present)})"


def _describe_limit(plan: LivePlan, times: SliceTimes, no_trace_reason: str) -> Iterator[str]:
    limit = format_duration(plan.limit_ns)
    interval = format_duration(times.interval_ns)
    names = ", ".join(target.name for target in plan.targets)
    if no_trace_reason:
        yield (
            f"Safety limit: the mean latency of {names} is above {limit} in {TOO_SLOW} successive intervals of "
            f"{interval}: blklab restores and ends."
        )
        yield f"    The mean, not the 99th percentile: {no_trace_reason}. The kernel's counters have no percentiles."
        if plan.metric == "iops":
            yield (
                "    The counters of a disk do not show how long programs wait for a free request, which this setting "
                "changes: name the array if there is one, or install blktrace."
            )
    else:
        yield (
            f"Safety limit: the 99th percentile of the latency of {names}, recorded with blktrace, is above {limit} in "
            f"{TOO_SLOW} successive intervals of {interval}: blklab restores and ends."
        )
        yield "    If the trace does not show the I/O before the first change, the mean latency takes its place."
