"""Tables of a calibration: fitted parameters and errors."""

from blklab.analysis.calibrate import Calibration
from blklab.report.tables.base import TextTable, figures, text
from blklab.runners.sim.uncertainty import NOMINAL
from blklab.text import printable


def fitted(calibration: Calibration) -> TextTable:
    columns = [text("parameter"), *figures("before", "after", f"{NOMINAL:.0%} interval")]
    entries = [
        [name, f"{before:,.0f}", f"{after:,.0f}", _limits(calibration.intervals.get(name))]
        for name, (before, after) in calibration.fitted.items()
    ]
    return TextTable("Fitted", columns, entries)


def _limits(limits: tuple[float, float] | None) -> str:
    return "too few runs" if limits is None else f"{limits[0]:,.0f} to {limits[1]:,.0f}"


def residuals(calibration: Calibration) -> TextTable:
    """Returns the table of predictions and errors for all inputs."""
    columns = [text("run"), text("rw"), *figures("bs", "depth", "jobs", "measured", "predicted", "error")]
    entries = [
        [
            *map(printable, [residual.run.name, *residual.run.load.values()]),
            iops(residual.run.iops),
            iops(residual.iops),
            f"{residual.error:+.1%}",
        ]
        for residual in calibration.residuals
    ]
    return TextTable("Residuals, IOPS", columns, entries)


def iops(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
