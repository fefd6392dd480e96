"""What a calibration fitted and how well, as tables."""

from typing import TYPE_CHECKING

from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable

if TYPE_CHECKING:
    from blklab.analysis.calibrate import Calibration


def fitted(found: "Calibration") -> TextTable:
    """Returns the parameters that were fitted."""
    columns = [text("parameter"), *figures("before", "after")]
    entries = [[name, f"{a:,.0f}", f"{b:,.0f}"] for name, (a, b) in found.fitted.items()]
    return TextTable("Fitted", columns, entries)


def residuals(found: "Calibration") -> TextTable:
    """Returns what the fitted model says of every input."""
    columns = [text("run"), *figures("measured", "predicted", "error")]
    entries = [
        [
            printable(one.run.name),
            iops(one.run.read_iops + one.run.write_iops),
            iops(one.read_iops + one.write_iops),
            f"{one.error:+.1%}",
        ]
        for one in found.residuals
    ]
    return TextTable("Residuals, IOPS", columns, entries)


def iops(value: float) -> str:
    """Returns I/Os a second as text."""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
