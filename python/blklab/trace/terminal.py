"""Print what a trace shows in the terminal."""

import os
from collections.abc import Callable, Mapping

from blklab.render import diagnostics, formatting
from blklab.render.console import Console, assemble_text
from blklab.render.formatting import Sentence
from blklab.render.table import TextTable, drop_empty_columns, number_columns, text_column
from blklab.render.terminal import draw_table, print_note, prose
from blklab.text.printing import printable
from blklab.trace import array_members
from blklab.trace.causes import MOST, causes, summary
from blklab.trace.sentences import brief_sentences, sentences
from blklab.trace.tables import devices, life, load, pattern, trace
from blklab.trace.view import DeviceView, ProfileView

NOTHING = TextTable("", [], [])
DETAILS: tuple[Callable[[DeviceView], TextTable], ...] = (  # The tables of a device, in order
    *(load.over_time, load.operations, life.stages, life.errors, life.depth),
    *(lambda device: life.slowest(device, 3), lambda device: life.stalls(device, 3)),
    *(load.sizes, pattern.order, pattern.seeks, pattern.arrivals, pattern.footprint, pattern.hotness),
    lambda device: load.groups(device, "processes"),
    lambda device: load.groups(device, "sources") if device.is_fed else NOTHING,
    lambda device: load.groups(device, "cpus"),
)


DEVICES = 5  # Devices on the first screen


def first_screen(console: Console, view: ProfileView, command: str) -> None:
    """Prints what matters most of a trace, in at most 30 lines of 80 columns: `command` shows the rest."""
    device = view.focus
    cause_list = causes(view)
    _headline(console, device, first=True)
    print_note(console, " · ".join(trace.headline(view)))
    console.print()
    doubts = [
        diagnostic
        for diagnostic in trace.diagnose(view)
        if diagnostic.code in trace.SEVERE and diagnostic.severity != "note"
    ][:1]
    doubt_sentences = [
        Sentence("Doubt", printable(f"{doubt.subject}: {doubt.message}".lstrip(": "))) for doubt in doubts
    ]
    prose(console, [*doubt_sentences, *summary(view, cause_list)])
    console.print()
    prose(console, brief_sentences(device))
    if len(view.devices) > 1:
        draw_table(console, devices.overview(view, DEVICES))
    hint = f"; {len(cause_list) - MOST} further causes" if len(cause_list) > MOST else ""
    print_note(console, f"Everything: {command} --full{hint}")
    print_note(console, f"Charts:     {command.replace(' stat', ' report', 1)}")


def recordings(console: Console, views: Mapping[str, ProfileView]) -> None:
    """Prints a row for each recording: its main device, and its largest cause. The keys of `views` are directories."""
    common = os.path.commonpath(map(os.path.abspath, views))
    rows = []
    for name, view in views.items():
        largest_cause = next((cause.code for cause in causes(view)), "")
        path = printable(os.path.relpath(name, common))
        rows.append([path, view.focus.label, *devices.key_figures(view.focus), largest_cause])
    columns = [text_column("recording"), text_column("device"), *number_columns(*devices.FIGURES), text_column("cause")]
    draw_table(console, drop_empty_columns(TextTable("Recordings", columns, rows, spare=devices.SPARE)))


def stat(console: Console, view: ProfileView, *, all_devices: bool) -> None:
    """Prints the workload of a trace, with all tables."""
    shown = view.devices_in_full(all_devices=all_devices)
    for index, device in enumerate(shown):
        _headline(console, device, first=index == 0)
        if index == 0:
            print_note(console, " · ".join(trace.headline(view)))
            if cause_list := causes(view):
                diagnostics.print_diagnostics(console, cause_list, "What limits it")
            else:
                console.print()
                prose(console, summary(view, cause_list))
        console.print()
        prose(console, [*sentences(device), *array_members.sentence(view, device)])
        if index == 0 and len(view.devices) > 1:
            draw_table(console, devices.overview(view))
        if index == 0:
            draw_table(console, *trace.shard_tables(view))
        draw_table(console, array_members.members_table(view, device), *(build(device) for build in DETAILS))
        if index == 0:
            draw_table(console, load.hot_files(view, 10))
        draw_events(console, device)
    diagnostics.print_diagnostics(console, trace.diagnose(view), "Diagnostics", limit=40)
    if len(shown) < sum(device.active for device in view.devices):
        options = [f"--device {d.data.name or d.number}" for d in view.devices if d.active and d not in shown]
        options_text = formatting.listing(options[:2])
        console.print()
        print_note(console, f"In full above: {shown[0].label}. Others: {options_text}, or --all-devices.")


def _headline(console: Console, device: DeviceView, *, first: bool) -> None:
    from rich.rule import Rule

    if not first:
        console.print()
    number = f" ({device.number})" if device.number not in device.label else ""
    console.print(Rule(assemble_text((device.label, "bold"), (number, "dim")), align="left", style="cyan"))


def draw_events(console: Console, device: DeviceView) -> None:
    """Prints the number of events of each letter, in one line."""
    counts = [f"{letter} {number:,}" for letter, number in device.data.events.items()]
    if counts:
        console.print()
        console.print(assemble_text(("Events  ", "bold"), "  ".join(counts)))
