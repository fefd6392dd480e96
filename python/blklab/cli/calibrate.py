"""`blklab calibrate`: fit a device model to measurements of one device."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab.cli.common import DURATION, emit, fail_with, json_option, note, store_option, tell, warn
from blklab.errors import UsageError
from blklab.output import check as check_output
from blklab.report.console import Console
from blklab.runners.registry import RUNNERS
from blklab.system.identity import resolve
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from blklab.analysis.calibrate import Calibration
    from blklab.analysis.observations import Observation
    from blklab.spec.load import ExperimentSource

SHORTEST = 10 * 10**9  # ns of all tests together

VIRTUAL = "virtual"
"""Instead of a model: a disk with limits and a latency, as virtual machines have them."""


@click.command()
@click.argument("inputs", type=click.Path(path_type=Path), nargs=-1, metavar="[INPUT]...")
@click.option("--device", metavar="PATH", help="Measure this device now. Without --destroy it is only read.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Measure the disk below this directory now.",
)
@click.option("--destroy", multiple=True, metavar="ID", help="Also write to --device, which has this stable name.")
@click.option("--yes-destroy", multiple=True, metavar="ID", help="The same, even with data on it.")
@click.option("--force", multiple=True, metavar="NAME", help="Measure despite this condition.")
@click.option(
    "--time",
    "length",
    type=DURATION,
    default="5m",
    show_default=True,
    help="Time of all tests together, without laying out a file.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted measurement.")
@store_option
@click.option(
    "--model",
    metavar="NAME|FILE",
    help="Where the fit starts: a model of the library, a file with a [device] table, or `virtual`.",
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
    device: str | None,
    directory: Path | None,
    destroy: tuple[str, ...],
    yes_destroy: tuple[str, ...],
    force: tuple[str, ...],
    length: int,
    resume: bool,
    store: str | None,
    model: str | None,
    target: str | None,
    kernel: str,
    filesystem: str,
    size: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fit a device model to fio runs on one device: to INPUT, or to measurements that it makes now.

    INPUT is fio's output (JSON or text), a directory of such JSON files, as bench-fio writes one for
    each load, or a directory of tables such as reference/. Most parameters
    come from data sheets and physics. The few important ones are fitted in stages, each to the runs
    that depend on it. The command prints the interval that holds each of them with a
    probability of 90 %, and the error of the fitted model for each run.

    --device and --directory measure with fio, under the safety rules of `blklab run --on host`. The
    measurements are stored; after an interruption, --resume continues them.

    \b
    Examples:
      blklab calibrate --device /dev/nvme0n1 -o nvme.toml
      blklab calibrate --device /dev/sdb --destroy wwn-0x5000c500a1b2c3d4 -o disk.toml
      blklab calibrate --directory /srv --model ssd-consumer -o disk.toml
      fio --output-format=json --output=nvme.json jobs.fio
      blklab calibrate nvme.json --model pm983 -o nvme.toml
      blklab calibrate reference/ --target ssd --model sm883 --kernel 4.19 --filesystem ext4

    \b
    Exit status: 0 success; 2 an input or the model is not valid.
    """
    from blklab.analysis import calibrate as analysis
    from blklab.analysis.identified_disks import refuse_host_managed
    from blklab.analysis.sanity_checks import UNWRITTEN_NS

    given = [flag for flag, value in (("INPUT", inputs), ("--device", device), ("--directory", directory)) if value]
    _check_usage(given, destroy=destroy, size=size, length=length)
    if output is not None:
        check_output(str(output))
    where = inputs[0] if inputs else Path(device or directory or "")
    if device:
        refuse_host_managed(device, Roots())
    name = model or _model_of(device)
    table = _device(name)
    runs: list[Observation] = []
    for path in inputs:
        runs += _runs(path, target)
    if not inputs:
        from blklab.analysis import device_measurement

        seconds = length / 1e9
        experiment = (
            device_measurement.device_experiment(device, destroy=destroy, seconds=seconds)
            if device
            else device_measurement.directory_experiment(directory or Path(), size=size, seconds=seconds)
        )
        size = size or (device_measurement.size_of(device) if device else device_measurement.FILE_SIZE)
        tests = device_measurement.expected_runs(experiment)
        analysis.check(table, tests, kernel=kernel, filesystem=filesystem, size=size, where=where)
        runs = _measured(experiment, store, resume=resume, force=force, yes_destroy=yes_destroy)
    calibration = analysis.calibrate(
        table, runs, kernel=kernel, filesystem=filesystem, size=size, where=where, tell=tell
    )
    if abs(calibration.worst.error) > analysis.BAD:
        worst = calibration.worst
        warn(f"the model fits badly: its error for {worst.run.name!r} is {worst.error:+.0%}")
    for run in runs:
        # Flash that is as slow as the model's did not answer this read.
        if run.seconds_alone * 1e9 < UNWRITTEN_NS < int(str(table.get("page_read_ns", 0))):
            took = f"a read took {1e6 * run.seconds_alone:.0f} µs"
            warn(f"{run.name}: {took}, and flash takes longer. Write the whole disk before you measure it")
    if output is not None:
        from blklab.output import write

        source = f"calibrated from {name} on {', '.join(str(path) for path in inputs or (where,))}"
        write(output, analysis.as_toml(calibration, source).encode())
    emit(_as_dict(calibration), as_json, lambda console: _draw(console, calibration))


def _as_dict(calibration: "Calibration") -> dict[str, object]:
    return {
        "device": dict(calibration.device),
        "fitted": {
            name: {"before": a, "after": b, "interval": calibration.intervals.get(name)}
            for name, (a, b) in calibration.fitted.items()
        },
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


def _check_usage(given: list[str], *, destroy: tuple[str, ...], size: str | None, length: int) -> None:
    if len(given) != 1:
        raise UsageError("expected one of INPUT, --device and --directory")
    if destroy and given != ["--device"]:
        raise UsageError("--destroy: expected --device")
    if size and given == ["--device"]:
        raise UsageError("--size: not with --device, which is measured as a whole")
    if given != ["INPUT"] and length < SHORTEST:
        raise UsageError("--time: expected 10s or more for all tests")


def _model_of(device: str | None) -> str:
    """Returns the name of the library's model for a device of this host."""
    from blklab.analysis.identified_disks import identify_disks

    if device is None:
        raise UsageError("--model: expected where the fit starts: see `blklab devices list`")
    node = resolve(device, Roots()).node
    disk = node.parent.name if (node / "partition").exists() else node.name
    identified = {disk.name: disk.model for disk in identify_disks(Roots())}.get(disk)
    tell(f"{device}: starting from {identified.name if identified else 'a virtual disk without limits'}")
    return identified.name if identified else VIRTUAL


def _measured(
    experiment: "ExperimentSource",
    store: str | None,
    *,
    resume: bool,
    force: tuple[str, ...],
    yes_destroy: tuple[str, ...],
) -> "list[Observation]":
    from blklab.analysis.device_measurement import observations
    from blklab.cli.run import measured
    from blklab.spec import cells

    kind = RUNNERS["host"]
    runner = kind.make()(force=force, yes_destroy=yes_destroy, note=note, warn=warn)
    plan = runner.planned(cells.plan(experiment, form=kind.form()))
    with runner.session():
        runner.check(plan)
        results, failed = measured(runner, plan, store, keep=True, resume=resume)
    fail_with(failed)
    return observations(experiment, ((result.labels["workload"], result.outcome) for result in results))


def _device(model: str) -> dict[str, object]:
    from blklab.spec import load, stock_models

    if model == VIRTUAL:
        return {"kind": "throttled"}
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
    from blklab.imports import reference

    if not path.is_dir():
        return observations.from_fio(path)
    if not any(path.glob("*.csv")) and (results := sorted(path.rglob("*.json"))):
        return [run.named_by_its_load for file in results for run in observations.from_fio(file)]
    rows = reference.read_reference(path)
    singles = sorted({run.target for run in rows.singles()})
    if target is None and len(singles) == 1:
        target = singles[0]
    if target not in singles:
        raise UsageError(f"{path}: --target: expected one of {', '.join(singles) or 'none'}")
    return [observations.observation(*run) for run in rows.of_target(target)]


def _draw(console: Console, result: "Calibration") -> None:
    from blklab.report import calibration, terminal

    terminal.draw_table(console, calibration.fitted(result))
    terminal.draw_table(console, calibration.residuals(result))
