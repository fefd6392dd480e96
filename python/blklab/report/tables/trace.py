"""Tables of the trace itself: what was read, how it was counted, what is doubtful about it."""

from collections.abc import Iterator
from typing import Any, Final

from blklab.report import words
from blklab.report.tables.base import Table, figures, pruned, text
from blklab.report.view import OPS, Device, View
from blklab.text import printable

LETTERS = {
    "Q": "queued",
    "M": "merged at the back",
    "F": "merged at the front",
    "G": "request allocated",
    "S": "slept for a request",
    "P": "plugged",
    "U": "unplugged",
    "UT": "unplugged by timer",
    "I": "inserted",
    "D": "dispatched",
    "C": "completed",
    "R": "requeued",
    "X": "split",
    "B": "bounced",
    "A": "remapped",
}
"""blkparse's letters, and what they mean (blkparse(1), ACTION IDENTIFIERS)."""


def facts(view: View) -> Table:
    """What was read, and what of it was looked at."""
    trace = view.trace
    first, last = view.span_ns()
    rows = [
        ["format", printable(trace["format"])],
        ["started", view.started() or "not recorded"],
        ["length", words.duration(last - first)],
        ["events", words.count(view.profile["events"])],
        ["devices", words.listing([device.label for device in view.devices])],
        ["read", words.size(trace["bytes_read"])],
    ]
    if chosen := filters(view):
        rows.append(["only", chosen])
    return Table("Trace", [text(""), text("")], rows)


def filters(view: View) -> str:
    """Returns what the user restricted the trace to, empty if nothing."""
    chosen = view.profile["filter"]
    parts = [
        f"{name} {words.listing([printable(value) for value in chosen[key]])}"
        for key, name in (("devices", "device"), ("processes", "process"), ("ops", "operation"))
        if chosen[key]
    ]
    if chosen["since_ns"] is not None:
        parts.append(f"from {words.duration(chosen['since_ns'])} on")
    if chosen["until_ns"] is not None:
        parts.append(f"before {words.duration(chosen['until_ns'])}")
    return ", ".join(parts)


def files(view: View) -> Table:
    """Every file that was read."""
    rows = [[name, path] for name, paths in view.files() for path in paths]
    return Table("Files", [text("input"), text("file")], rows)


def events(device: Device) -> Table:
    """Events by letter."""
    rows = [
        [letter, LETTERS.get(letter, ""), words.count(number)]
        for letter, number in device.data["events"].items()
    ]
    return Table("Events", [text("letter"), text("meaning"), *figures("events")], rows)


def counts(view: View) -> Table:
    """Blkparse's closing summary, as numbers: reads and writes of each device and CPU."""
    headings = figures(
        "reads queued", "reads dispatched", "reads completed", "reads merged", "reads requeued",
        "writes queued", "writes dispatched", "writes completed", "writes merged",
        "writes requeued", "passthrough", "unplugs", "timer unplugs",
    )  # fmt: skip
    rows: list[list[str]] = []
    strong = set()
    for device in view.profile["summary"]:
        cpus = [(f"CPU {cpu}", tally) for cpu, tally in device["cpus"].items()]
        for at, (name, tally) in enumerate([*cpus, ("total", device["total"])]):
            if name == "total":
                strong.add(len(rows))
            title = printable(device["name"] or "") if at == 0 else ""
            rows.append([title, name, *_tally(tally)])
    columns = [text("device"), text(""), *headings]
    note = "requests and, after the comma, KiB, as blkparse prints them"
    return pruned(Table("Counts", columns, rows, note, frozenset(strong)))


def _tally(tally: dict[str, Any]) -> Iterator[str]:
    for side in (0, 1):
        for kind in ("queued", "dispatched", "completed", "merged", "requeued"):
            amount = tally[kind][side]
            if not amount["count"]:
                yield "0"
                continue
            yield f"{words.count(amount['count'])}, {words.count(amount['bytes'] >> 10)} KiB"
    passed = sum(amount["count"] for amount in tally["passthrough_queued"])
    issued = sum(amount["count"] for amount in tally["passthrough_dispatched"])
    yield words.count(max(passed, issued))
    yield words.count(tally["unplugs"])
    yield words.count(tally["timer_unplugs"])


def troubles(view: View) -> list[str]:
    """Returns what makes the figures less than certain, in words."""
    trace = view.trace
    found = [
        f"{printable(warning['path'])}: {printable(warning['message'])}"
        for warning in trace["warnings"]
    ]
    if trace["dropped"]:
        found.append(
            f"the kernel dropped {words.plural(trace['dropped'], 'event')} while recording:"
            " counts are too low (record with larger or more buffers: blktrace -b, -n)"
        )
    if trace["sequence_gaps"]:
        found.append(
            f"{words.plural(trace['sequence_gaps'], 'event')} missing by sequence number: counts"
            " are too low, and some I/Os lack their beginning or end"
        )
    if trace["out_of_order"]:
        found.append(f"{words.plural(trace['out_of_order'], 'event')} out of order in time")
    if left_out := view.profile["events_left_out"]:
        found.append(f"{words.plural(left_out, 'event')} of devices beyond 1,024 left out")
    for device in view.devices:
        found += _doubts(device)
    return found


SERIOUS: Final = 0.01
"""Share of I/Os without an end from which that is a doubt and no mere remark."""


def _unended(device: Device) -> int:
    return sum(device.life(op)["never_completed"] for op in OPS)


def _doubts(device: Device) -> Iterator[str]:
    unended = _unended(device)
    if device.ios and unended / device.ios >= SERIOUS:
        share = words.share(unended / device.ios)
        yield f"{device.label}: {words.plural(unended, 'I/O')} ({share}) were not seen to complete"
    if number := device.data["unmatched_completions"]:
        yield f"{device.label}: {words.plural(number, 'completion')} of I/Os never seen before"
    if number := device.data["given_up"]:
        yield f"{device.label}: {words.plural(number, 'I/O')} given up, too many in flight at once"


def remarks(view: View) -> list[str]:
    """Returns what is worth knowing about the figures, and no reason to doubt them."""
    return [remark for device in view.devices for remark in _remarks(device)]


def _remarks(device: Device) -> Iterator[str]:
    unended = _unended(device)
    if device.ios and 0 < unended / device.ios < SERIOUS:
        yield f"{device.label}: {words.plural(unended, 'I/O')} under way when the trace ended"
    if alone := sum(device.life(op)["without_queue"] for op in OPS):
        yield (
            f"{device.label}: {words.plural(alone, 'request')} dispatched without a bio having been"
            " queued (passthrough, flushes of the driver, or under way when the trace began)"
        )
    if number := device.data["hotness"]["truncated_ios"]:
        yield f"{device.label}: of {words.plural(number, 'I/O')} only the first 64 MiB count as hot"
    folded = sum(device.op(op)["sizes"]["folded_ios"] for op in ("read", "write", "discard"))
    if folded:
        yield f"{device.label}: {words.plural(folded, 'I/O')} counted at a rounded size"
