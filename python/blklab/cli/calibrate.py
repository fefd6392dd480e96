"""`blklab calibrate`: fit a device model to measurements of one device."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import emit, json_option, tell, warn

if TYPE_CHECKING:
    from rich.console import Console

    from blklab.analysis.calibrate import Calibration
    from blklab.analysis.observations import Observation


@click.command()
@click.argument("inputs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--model",
    required=True,
    metavar="NAME|FILE",
    help="The model to start from: a stock model or a file with a [device] table.",
)
@click.option("--target", metavar="NAME", help="The single-device target, if INPUT is a directory.")
@click.option("--kernel", default="6.1", show_default=True, help="Kernel of the measurements.")
@click.option(
    "--filesystem",
    type=click.Choice(["none", "ext3", "ext4", "xfs"]),
    default="none",
    show_default=True,
    help="Filesystem between fio and the device.",
)
@click.option("--size", metavar="SIZE", help="Bytes from the start of the device that fio used; default: all.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help='Write the calibrated device to this file, for calibrated = "FILE".',
)
@json_option
def calibrate(
    *,
    inputs: tuple[Path, ...],
    model: str,
    target: str | None,
    kernel: str,
    filesystem: str,
    size: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fit a device model to fio runs on one device.

    INPUT is fio's output (JSON or text), or a directory of tables as `blklab validate` reads. Most
    parameters come from data sheets and physics. The few important ones are fitted in stages, each
    to the runs that depend on it. The command prints the error of the fitted model for each run.

    \b
    Examples:
      fio --output-format=json --output=nvme.json jobs.fio
      blklab calibrate nvme.json --model pm983 -o nvme.toml
      blklab calibrate reference/ --target ssd --model sm883 --kernel 4.19 --filesystem ext4

    \b
    Exit status: 0 success; 2 an input or the model is not valid.
    """
    from blklab.analysis import calibrate as analysis

    device = _device(model)
    runs: list[Observation] = []
    for path in inputs:
        runs += _runs(path, target)
    calibration = analysis.calibrate(
        device, runs, kernel=kernel, filesystem=filesystem, size=size, where=inputs[0], tell=tell
    )
    if abs(calibration.worst.error) > analysis.BAD:
        worst = calibration.worst
        warn(f"the model fits badly: its error for {worst.run.name!r} is {worst.error:+.0%}")
    if output is not None:
        from blklab.output import write

        source = f"calibrated from {model} on {', '.join(str(path) for path in inputs)}"
        write(output, analysis.as_toml(calibration, source).encode())
    document = {
        "device": dict(calibration.device),
        "fitted": {name: {"before": a, "after": b} for name, (a, b) in calibration.fitted.items()},
        "residuals": [
            {
                "run": residual.run.name,
                "measured": {"read_iops": residual.run.read_iops, "write_iops": residual.run.write_iops},
                "predicted": {"read_iops": residual.read_iops, "write_iops": residual.write_iops},
                "error": residual.error,
            }
            for residual in calibration.residuals
        ],
    }
    emit(document, as_json, lambda console: _draw(console, calibration))


def _device(model: str) -> dict[str, object]:
    from blklab.errors import UsageError
    from blklab.spec import load, stock_models

    if model in stock_models.names():
        return stock_models.stock(model)
    if Path(model).suffix == ".toml":
        return load.calibrated(Path(model))
    try:
        return stock_models.stock(model)
    except ValueError as error:
        raise UsageError(f"--model: {error}") from None


def _runs(path: Path, target: str | None) -> "list[Observation]":
    from blklab.analysis import observations
    from blklab.errors import UsageError
    from blklab.imports import reference
    from blklab.validation import experiments

    if not path.is_dir():
        return observations.from_fio(path)
    rows = reference.read_reference(path)
    singles = sorted({run.target for run in rows.singles()})
    if target is None and len(singles) == 1:
        target = singles[0]
    if target not in singles:
        raise UsageError(f"{path}: --target: expected one of {', '.join(singles) or 'none'}")
    return experiments.observations(rows, target)


def _draw(console: "Console", result: "Calibration") -> None:
    from blklab.report import calibration, terminal

    terminal.draw_table(console, calibration.fitted(result))
    terminal.draw_table(console, calibration.residuals(result))
