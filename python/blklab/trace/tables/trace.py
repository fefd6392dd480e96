"""Tables of the trace itself: files, events, hosts of shards, and doubts about it."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from blklab.diagnostic import Diagnostic
from blklab.documents.profile import Tally
from blklab.render import formatting
from blklab.render.table import TextTable, drop_empty_columns, number_columns, text_column
from blklab.text.printing import printable
from blklab.trace.view import OPS, DeviceView, ProfileView

if TYPE_CHECKING:
    from blklab.trace.shards.task import Figures

LETTERS = tomllib.loads(Path(__file__).with_name("blkparse.toml").read_text(encoding="utf-8"))
"""blkparse's letters and their meaning."""


def facts(view: ProfileView) -> TextTable:
    """Returns what was read and which part was selected."""
    trace = view.trace
    first, last = view.span_ns()
    rows = [
        ["format", printable(trace.format)],
        ["started", view.start_time() or "not recorded"],
        ["length", formatting.duration(last - first)],
        ["events", formatting.count(view.profile.events)],
        ["devices", formatting.listing([device.label for device in view.devices])],
        ["read", formatting.size(trace.bytes_read)],
    ]
    if selection := filters(view):
        rows.append(["only", selection])
    return TextTable("Trace", [text_column(""), text_column("")], rows)


def headline(view: ProfileView) -> list[str]:
    """Returns the amounts of the selection."""
    first, last = view.span_ns()
    facts = [
        formatting.plural(len(view.devices), "device"),
        formatting.plural(view.profile.events, "event"),
        formatting.duration(last - first),
        view.start_time() or "",
        f"only {selection}" if (selection := filters(view)) else "",
    ]
    return [fact for fact in facts if fact]


def filters(view: ProfileView) -> str:
    """Returns the filters of the user; empty if there are none."""
    selection = view.profile.filter
    parts = []
    for name, values in (("device", selection.devices), ("process", selection.processes), ("operation", selection.ops)):
        if values:
            parts.append(f"{name} {formatting.listing([printable(value) for value in values])}")
    sizes = dict.fromkeys(map(formatting.size, (selection.min_bytes, selection.max_bytes)))
    limits = (
        (selection.since_ns, f"from {formatting.duration(selection.since_ns)} on"),
        (selection.until_ns, f"before {formatting.duration(selection.until_ns)}"),
        (selection.first_sector, f"sectors {selection.first_sector} to {selection.last_sector}"),
        (selection.min_bytes, f"size {' to '.join(sizes)}"),
        (selection.min_latency_ns, f"latency at least {formatting.duration(selection.min_latency_ns)}"),
    )
    return ", ".join([*parts, *(text for limit, text in limits if limit is not None)])


def files(view: ProfileView) -> TextTable:
    rows = [[name, path] for name, paths in view.files() for path in paths]
    return TextTable("Files", [text_column("input"), text_column("file")], rows)


def events(device: DeviceView) -> TextTable:
    rows = [
        [letter, LETTERS.get(letter, ""), formatting.count(number)] for letter, number in device.data.events.items()
    ]
    return TextTable("Events", [text_column("letter"), text_column("meaning"), *number_columns("events")], rows)


def counts(view: ProfileView) -> TextTable:
    """Returns blkparse's closing summary: reads and writes of each device and CPU."""
    headings = number_columns(
        "reads queued", "reads dispatched", "reads completed", "reads merged", "reads requeued",
        "writes queued", "writes dispatched", "writes completed", "writes merged",
        "writes requeued", "passthrough", "unplugs", "timer unplugs",
    )  # fmt: skip
    rows: list[list[str]] = []
    strong = set()
    for device in view.profile.summary:
        cpus = [(f"CPU {cpu}", tally) for cpu, tally in device.cpus.items()]
        for index, (name, tally) in enumerate([*cpus, ("total", device.total)]):
            if name == "total":
                strong.add(len(rows))
            title = printable(device.name or "") if index == 0 else ""
            rows.append([title, name, *_tally(tally)])
    columns = [text_column("device"), text_column(""), *headings]
    return drop_empty_columns(
        TextTable(
            "Counts", columns, rows, "requests and, after the comma, KiB, as blkparse prints them", frozenset(strong)
        )
    )


def _tally(tally: Tally) -> Iterator[str]:
    for side in (0, 1):
        for kind in ("queued", "dispatched", "completed", "merged", "requeued"):
            amount = getattr(tally, kind)[side]
            if not amount.count:
                yield "0"
                continue
            kib = formatting.count(amount.bytes >> 10)
            yield f"{formatting.count(amount.count)}, {kib} KiB"
    queued_count = sum(amount.count for amount in tally.passthrough_queued)
    dispatched_count = sum(amount.count for amount in tally.passthrough_dispatched)
    yield formatting.count(max(queued_count, dispatched_count))
    yield formatting.count(tally.unplugs)
    yield formatting.count(tally.timer_unplugs)


def diagnose(view: ProfileView) -> list[Diagnostic]:
    """Returns the diagnostics of a trace: doubts, then notes."""
    trace = view.trace
    diagnostics = [
        doubt("missing-cpus" if "CPU file" in warning.message else "reading", warning.message, printable(warning.path))
        for warning in trace.warnings
    ]
    if trace.dropped:
        dropped_text = formatting.plural(trace.dropped, "event")
        diagnostics.append(
            doubt(
                "dropped-events",
                f"the kernel dropped {dropped_text} while recording: "
                "counts are too low (record with larger or more buffers: blktrace -b, -n)",
            )
        )
    if trace.sequence_gaps:
        missing = formatting.plural(trace.sequence_gaps, "event")
        diagnostics.append(
            doubt(
                "missing-events",
                f"{missing} missing by sequence number: counts are too low, and some I/Os lack their beginning or end",
            )
        )
    if trace.out_of_order:
        late = formatting.plural(trace.out_of_order, "event")
        diagnostics.append(doubt("out-of-order", f"{late} out of order in time"))
    if view.profile.events_left_out:
        skipped_text = formatting.plural(view.profile.events_left_out, "event")
        diagnostics.append(doubt("too-many-devices", f"{skipped_text} of devices beyond 1,024 skipped"))
    silent = {device.number for device in view.devices if device.ios and not device.ends}
    below = {feed.lower for feed in view.feeds if feed.upper in silent}
    for device in view.devices:
        for diagnostic in _of_device(device):
            if diagnostic.code == "never-queued" and device.number in below:
                diagnostics.append(replace(diagnostic, severity="note"))
            else:
                diagnostics.append(diagnostic)
    return sorted(diagnostics, key=lambda diagnostic: diagnostic.rank)


SEVERE = frozenset({"missing-cpus", "dropped-events", "missing-events", "never-completed", "never-queued"})
"""Doubts that belong to the headline: figures can be wrong because of them."""

SERIOUS = 0.01  # Share of I/Os without completion from which it is a doubt instead of a note


def doubt(code: str, message: str, subject: str = "") -> Diagnostic:
    """Returns a warning about a trace."""
    return Diagnostic(code, "warning", subject, message)


def _of_device(device: DeviceView) -> Iterator[Diagnostic]:
    open_ios = sum(device.life(op).never_completed for op in OPS)
    many = formatting.plural(open_ios, "I/O")
    completions = device.capabilities.completions and device.ends
    if device.capabilities.completions and device.ios and not device.ends:
        yield _note(device, "no-completions", "no I/O of this device completes in the trace, as with bcache")
    if completions and device.ios and open_ios / device.ios >= SERIOUS:
        share = formatting.share(open_ios / device.ios)
        yield doubt("never-completed", f"{many} ({share}) were not seen to complete", device.label)
    if number := device.data.unmatched_completions:
        unseen = f"{formatting.plural(number, 'completion')} of I/Os never seen before"
        yield doubt("never-queued", unseen, device.label)
    if (number := device.data.given_up) and completions:
        yield doubt(
            "given-up", f"{formatting.plural(number, 'I/O')} dropped from the count: too many in flight", device.label
        )
    if completions and device.ios and 0 < open_ios / device.ios < SERIOUS:
        yield _note(device, "under-way", f"{many} in flight when the trace ended")
    if not device.capabilities.directions:
        yield _note(
            device, "no-directions", "the trace does not distinguish reads and writes: all I/Os are shown as reads"
        )
    if bare_requests := sum(device.life(op).without_queue for op in OPS):
        why = "passthrough, flushes of the driver, or in flight when the trace began"
        requests = formatting.plural(bare_requests, "request")
        yield _note(device, "without-bio", f"{requests} dispatched without a queued bio ({why})")
    if number := device.data.hotness.truncated_ios:
        yield _note(device, "large-ios", f"of {formatting.plural(number, 'I/O')} only the first 64 MiB count as hot")
    rounded_ios = sum(device.op(op).sizes.folded_ios for op in ("read", "write", "discard"))
    if rounded_ios:
        yield _note(device, "many-sizes", f"{formatting.plural(rounded_ios, 'I/O')} counted at a rounded size")


def _note(device: DeviceView, code: str, message: str) -> Diagnostic:
    return Diagnostic(code, "note", device.label, message)


def shard_tables(view: ProfileView) -> Iterator[TextTable]:
    """Yields the tables of groups and hosts, if there are any."""
    if view.shards is not None:
        yield _shard_table("Groups", view.shards["groups"], "")
        yield _shard_table(
            "Hosts",
            view.shards["hosts"],
            (
                "devices of a host added up, without those that get their I/O from others; "
                "times of different shards are laid over each other in figures over time"
            ),
        )


def _shard_table(title: str, rows: Sequence["Figures"], note: str) -> TextTable:
    headings = number_columns(
        "shards", "I/Os", "bytes", "time", "IOPS", "read p50", "read p99", "write p50", "write p99"
    )
    cells = [
        [
            printable(row["name"]),
            *map(formatting.count, (row["shards"], row["ios"])),
            formatting.size(row["bytes"]),
            formatting.duration(row["observed_ns"]),
            formatting.number(row["iops"]),
            *map(formatting.duration, (row["read_p50_ns"], row["read_p99_ns"])),
            *map(formatting.duration, (row["write_p50_ns"], row["write_p99_ns"])),
        ]
        for row in rows
    ]
    return drop_empty_columns(
        TextTable(title, [text_column(""), *headings], cells, note, spare=("time", "shards", "read p50", "write p50"))
    )
