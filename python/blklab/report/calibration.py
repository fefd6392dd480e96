"""What a calibration fitted and how well, as tables."""

from typing import TYPE_CHECKING

from blklab.report.tables.base import TextTable, figures, text
from blklab.text import printable

if TYPE_CHECKING:
    from blklab.analysis.calibrate import Calibration


def fitted(calibration: "Calibration") -> TextTable:
    """Returns the parameters that were fitted."""
    columns = [text("parameter"), *figures("before", "after")]
    entries = [[name, f"{a:,.0f}", f"{b:,.0f}"] for name, (a, b) in calibration.fitted.items()]
    return TextTable("Fitted", columns, entries)


def residuals(calibration: "Calibration") -> TextTable:
    """Returns what the fitted model says of every input."""
    columns = [text("run"), *figures("measured", "predicted", "error")]
    entries = [
        [
            printable(residual.run.name),
            iops(residual.run.read_iops + residual.run.write_iops),
            iops(residual.read_iops + residual.write_iops),
            f"{residual.error:+.1%}",
        ]
        for residual in calibration.residuals
    ]
    return TextTable("Residuals, IOPS", columns, entries)


def iops(value: float) -> str:
    """Returns I/Os a second as text."""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
