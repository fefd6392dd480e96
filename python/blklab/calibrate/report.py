"""Tables of a calibration: fitted parameters and errors."""

from collections.abc import Sequence
from dataclasses import replace

from blklab.calibrate.fit import Calibration
from blklab.calibrate.host_profile import SCALED, UNSCALED, HostProfile
from blklab.calibrate.refit import RefittedDisk
from blklab.outcome import NOMINAL
from blklab.render import terminal
from blklab.render.console import Console
from blklab.render.formatting import Sentence, listing
from blklab.render.table import TextTable, number_columns, text_column
from blklab.text.printing import printable
from blklab.units import format_duration

WIDE = 1.5  # Ratio of the processor times of two runs from which these differ much


def fit_table(calibration: Calibration) -> TextTable:
    columns = [text_column("parameter"), *number_columns("before", "after", f"{100 * NOMINAL:.0f} % interval")]
    entries = [
        [name, f"{before:,.0f}", f"{after:,.0f}", _limits(calibration.intervals.get(name))]
        for name, (before, after) in calibration.fitted_values.items()
    ]
    return TextTable("Fitted", columns, entries)


def _limits(limits: tuple[float, float] | None) -> str:
    return "too few runs" if limits is None else f"{limits[0]:,.0f} to {limits[1]:,.0f}"


def residuals(calibration: Calibration) -> TextTable:
    """Returns the table of predictions and errors for all inputs."""
    columns = [
        text_column("run"),
        text_column("rw"),
        *number_columns("bs", "depth", "jobs", "measured", "predicted", "error"),
    ]
    entries = [
        [
            *map(printable, [residual.run.name, *residual.run.load.values()]),
            iops(residual.run.iops),
            iops(residual.iops),
            f"{100 * residual.error:+.1f} %",
        ]
        for residual in calibration.residuals
    ]
    return TextTable("Residuals, IOPS", columns, entries)


def draw_refits(console: Console, disks: Sequence[RefittedDisk]) -> None:
    """Prints the fitted parameters, the errors and the sentences of each disk."""
    for number, disk in enumerate(disks):
        if number:
            console.print()
        tables = [window_errors(disk)]
        if disk.calibration.fitted_values:
            tables.insert(0, refit_table(disk))
        terminal.draw_table(console, *tables)
        console.print()
        terminal.prose(console, [Sentence(disk.name, printable(text)) for text in disk.sentences()])


def refit_table(disk: RefittedDisk) -> TextTable:
    """Returns the table of a disk's fitted parameters."""
    table = fit_table(disk.calibration)
    return replace(table, title=f"{printable(disk.name)}: fitted to the first half of the trace")


def window_errors(disk: RefittedDisk) -> TextTable:
    """Returns the table of mean times from dispatch to completion, of both halves of a trace."""
    columns = [text_column("half"), text_column("load"), text_column("rw")]
    columns += number_columns("bs", "depth", "measured", "predicted", "error")
    entries = []
    for half, errors in (("first", disk.fitted), ("second", disk.judged)):
        for error in errors:
            load = error.run.load
            times = (format_duration(time) for time in (error.measured_ns, error.predicted_ns))
            difference = 100 * (error.predicted_ns / error.measured_ns - 1)
            cells = map(printable, (error.run.name, load["rw"], load["bs"], load["iodepth"]))
            entries.append([half, *cells, *times, f"{difference:+.0f} %"])
    return TextTable("Mean time of a request (D2C)", columns, entries)


def iops(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def host_runs(profile: HostProfile) -> TextTable:
    """Returns the table of measured and predicted processor times of an I/O."""
    columns = [text_column("run"), text_column("engine"), text_column("rw")]
    columns += number_columns("bs", "depth", "jobs", "switches", "measured", "predicted", "error")
    entries = []
    for run in profile.runs:
        predicted_ns = profile.predict_ns(run)
        times = (f"{time / 1000:.2f}" for time in (run.measured_ns, predicted_ns))
        load_cells = map(printable, [run.run, run.engine, *run.load.values()])
        entries.append(
            [*load_cells, f"{run.switches:.2f}", *times, f"{100 * (predicted_ns / run.measured_ns - 1):+.0f} %"]
        )
    spare = ("switches", "error", "jobs", "bs")
    return TextTable("Processor time of an I/O, µs, and its switches between tasks", columns, entries, spare=spare)


def host_sentences(profile: HostProfile) -> list[Sentence]:
    """Returns what a profile says, what it does not, and which runs it left out."""
    host = ", ".join(f"{key} = {value:,}" for key, value in profile.host.items())
    spread = "The interval is unknown: one run does not show how much runs differ."
    if profile.interval:
        low, high = map(format_duration, profile.interval)
        spread = f"{100 * NOMINAL:.0f} % of further runs are expected between {low} and {high}."
        times = [run.io_ns for run in profile.runs]
        if max(times) > WIDE * min(times):
            spread += " The runs differ much: give those whose load and disks are most like what you predict."
    took = f"An I/O takes {format_duration(profile.io_ns)} of processor time with libaio"
    return [
        Sentence("estimate", f"{took}: {host}. {spread}"),
        Sentence("bound", "fio does not count interrupts that hit other tasks: the estimate is a lower bound."),
        Sentence(
            "not fitted",
            f"{listing(SCALED)}: in predictions these follow the measured time, in the ratio of the defaults. "
            f"{listing(UNSCALED)}, how far cores are from each other, keep their defaults.",
        ),
        *(Sentence("not used", printable(f"{name}: {why}")) for name, why in profile.unused),
    ]
