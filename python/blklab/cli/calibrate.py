"""`blklab calibrate`: fit a device model to measurements of one device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from blklab.cli.common import (
    DURATION,
    collect_options,
    emit,
    fail_with,
    json_option,
    repeatable,
    store_option,
    tell,
    warn,
)
from blklab.errors import UsageError
from blklab.output import check as check_output
from blklab.output import write
from blklab.render.console import Console
from blklab.system.identity import resolve
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from blklab.calibrate.disk_and_host import DiskAndHost
    from blklab.calibrate.fit import Bench, Calibration
    from blklab.calibrate.observations import Observation
    from blklab.devices.stock_models import DeviceTable
    from blklab.experiment.load import ExperimentSource
    from blklab.store.query import StoredRun

SHORTEST = 10 * 10**9  # ns of all tests together

KERNEL = "6.1"  # Of measurements, if the user does not say it

VIRTUAL = "virtual"
"""Instead of a model: a disk with limits and a latency, as virtual machines have them."""


@dataclass(frozen=True)
class CalibrateArguments:
    """What `blklab calibrate` is asked."""

    inputs: tuple[Path, ...]  # Files of fio's results, `run:42` or `campaign:3`
    of_host: bool  # Whether to fit the host instead of a device
    device: str | None  # To measure now
    directory: Path | None  # Whose disk to measure now
    destroy: tuple[str, ...]  # Stable names of devices to write to
    yes_destroy: tuple[str, ...]  # The same, even with data on them
    force: tuple[str, ...]  # Conditions to measure despite
    length: int  # ns of all tests together
    resume: bool
    store: str | None
    model: str | None  # Where the fit starts
    kernel: str
    filesystem: str
    size: str | None  # Of what fio used
    output: Path | None
    as_json: bool


@click.command()
@click.argument("inputs", type=click.Path(path_type=Path), nargs=-1, metavar="[INPUT]...")
@click.option("--host", "of_host", is_flag=True, help="Fit the processor time of an I/O of the host, not a device.")
@click.option("--device", metavar="PATH", help="Measure this device now. Without --destroy it is only read.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Measure the disk below this directory now.",
)
@repeatable("--destroy", metavar="ID", help="Also write to --device, which has this stable name.")
@repeatable("--yes-destroy", metavar="ID", help="The same, even with data on it.")
@repeatable("--force", metavar="NAME", help="Measure despite this condition.")
@click.option(
    "--time", "length", type=DURATION, default="60s", help="Time of all tests together, without laying out a file."
)
@click.option("--resume", is_flag=True, help="Continue an interrupted measurement.")
@store_option
@click.option(
    "--model",
    metavar="NAME|FILE",
    help="Where the fit starts: a model of the library, a file with a [device] table, or `virtual`.",
)
@click.option("--kernel", default=KERNEL, help="Kernel of the measurements.")
@click.option(
    "--filesystem",
    type=click.Choice(["none", "ext3", "ext4", "xfs"]),
    default="none",
    help="Filesystem between fio and the device.",
)
@click.option("--size", metavar="SIZE", help="Bytes from the start of the device that fio used; default: all.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help='Write the result to this file, for calibrated = "FILE".'
)
@json_option
@collect_options(CalibrateArguments)
def calibrate(arguments: CalibrateArguments) -> None:
    """Fit a device model to fio runs on one device: to INPUT, or to measurements that it makes now.

    INPUT is fio's output (JSON or text), a directory of such JSON files, as bench-fio writes one for
    each load, a directory of tables such as reference/, a run of the store (run:42), or the runs of a
    campaign (campaign:3); all are of one disk. Jobs that ran at the same time are one run, whose rates
    are added; after a stonewall, another run begins.

    Most parameters come from data sheets and physics. The few important ones are fitted in stages,
    each to the runs that depend on it. The command prints the interval that holds each of them with a
    probability of 90 %, the parameters on which no run depends, and the error of the fitted model for
    each run.

    --device and --directory measure with fio, under the safety rules of `blklab run --on host`. From
    the same runs, the processor time of an I/O of this host is fitted: the file has the tables [device]
    and [host]. The measurements are stored; after an interruption, --resume continues them.

    --host fits the processor time of an I/O (submit_ns and reap_ns of [settings.host]) to runs of fio
    on any disks of one host. It uses runs of small direct I/Os that keep a CPU busy.

    \b
    Examples:
      blklab calibrate --device /dev/nvme0n1 -o nvme.toml
      blklab calibrate --device /dev/sdb --destroy wwn-0x5000c500a1b2c3d4 -o disk.toml
      blklab calibrate --directory /srv --model ssd-consumer -o disk.toml
      fio --output-format=json --output=nvme.json jobs.fio
      blklab calibrate nvme.json --model pm983 -o nvme.toml
      blklab calibrate nvme.json bench/ run:42 --model pm983 -o nvme.toml
      blklab calibrate --host bench/ run:42 -o host.toml

    \b
    Exit status: 0 success; 2 an input or the model is not valid.
    """
    from blklab.fio.output import refuse_job_files

    refuse_job_files(arguments.inputs)
    if arguments.of_host:
        _calibrate_host(arguments.inputs, arguments.store, arguments.output, as_json=arguments.as_json)
        return
    _check_usage(arguments)
    name = arguments.model or _model_of(arguments.device)
    if arguments.inputs:
        _calibrate_results(arguments, name)
    else:
        _calibrate_disk(arguments, name)


def _calibrate_results(arguments: CalibrateArguments, name: str) -> None:
    """Fits a model to results of fio. Raises UsageError."""
    from blklab.calibrate import fit as analysis
    from blklab.calibrate import report
    from blklab.render import terminal

    table = read_model(name)
    bench = analysis.Bench(arguments.inputs[0], arguments.kernel, arguments.filesystem, arguments.size)
    calibration = fit_model(table, _runs(arguments.inputs, arguments.store), bench)
    text = analysis.as_toml(calibration, name, arguments.inputs)
    tables = report.fit_table(calibration), report.residuals(calibration)
    if arguments.output is not None:
        write(arguments.output, text.encode())
    emit(_as_dict(calibration), arguments.as_json, lambda console: terminal.draw_table(console, *tables))


def _calibrate_disk(arguments: CalibrateArguments, name: str) -> None:
    """Measures a disk of this host, and fits its model and the host. Raises UsageError or BlklabError."""
    from blklab.calibrate import fit as analysis

    table = read_model(name)
    seconds = arguments.length / 1e9
    if arguments.device is not None:
        place = Path(arguments.device)
        experiment = analysis.device_experiment(arguments.device, destroy=arguments.destroy, seconds=seconds)
        size = str(resolve(arguments.device, Roots()).size)
    else:
        place = arguments.directory or Path()  # `_check_usage` has seen to it that one of both is given
        experiment = analysis.directory_experiment(place, size=arguments.size, seconds=seconds)
        size = arguments.size or analysis.FILE_SIZE
    bench = analysis.Bench(place, arguments.kernel, arguments.filesystem, size)
    analysis.check(table, analysis.placeholder_runs(experiment), bench)
    runs = measure_points(experiment, arguments.store, arguments.force, arguments.yes_destroy, resume=arguments.resume)
    measured = fit_and_tell(table, runs, bench)
    if arguments.output is not None:
        write(arguments.output, measured.as_toml(name, [place]).encode())
    document = _as_dict(measured.calibration)
    document["host"] = None if measured.host is None else measured.host.as_dict()
    emit(document, arguments.as_json, lambda console: _draw_measured(console, measured))


def _draw_measured(console: Console, measured: "DiskAndHost") -> None:
    from blklab.calibrate import report
    from blklab.render import terminal

    calibration = measured.calibration
    terminal.draw_table(console, report.fit_table(calibration), report.residuals(calibration))
    if measured.host is not None:
        console.print()
        terminal.draw_table(console, report.host_runs(measured.host))
        console.print()
        terminal.prose(console, report.host_sentences(measured.host))


def _calibrate_host(inputs: Sequence[Path], store: str | None, output: Path | None, *, as_json: bool) -> None:
    from blklab.calibrate import report as calibration
    from blklab.calibrate.host_profile import host_profile
    from blklab.render import terminal

    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if is_given and option.name not in {"inputs", "of_host", "store", "output", "as_json"}:
            raise UsageError(f"{option.opts[0]}: not with --host, which takes results of fio")
    if not inputs:
        raise UsageError("--host: expected INPUT: results of fio, run:42 or campaign:3")
    check_output(output)
    profile = host_profile(_runs(inputs, store))
    if output is not None:
        write(output, profile.as_toml().encode())

    def draw(console: Console) -> None:
        terminal.draw_table(console, calibration.host_runs(profile))
        console.print()
        terminal.prose(console, calibration.host_sentences(profile))

    emit(profile.as_dict(), as_json, draw)


def fit_model(table: "DeviceTable", runs: "Sequence[Observation]", bench: "Bench") -> "Calibration":
    """Fits a model, and prints what the user must know. Raises UsageError."""
    from blklab.calibrate import fit as analysis

    calibration = analysis.calibrate(table, runs, bench, tell)
    _tell_about_fit(calibration, table, runs)
    return calibration


def fit_and_tell(table: "DeviceTable", runs: "Sequence[Observation]", bench: "Bench") -> "DiskAndHost":
    """Fits a disk and its host, and prints what the user must know. Raises UsageError."""
    from blklab.calibrate.disk_and_host import fit_disk_and_host

    measured = fit_disk_and_host(table, runs, bench, tell)
    _tell_about_fit(measured.calibration, table, runs)
    for note in measured.notes:
        tell(note)
    return measured


def _tell_about_fit(calibration: "Calibration", table: "DeviceTable", runs: "Sequence[Observation]") -> None:
    from blklab.calibrate import fit as analysis
    from blklab.compare.sanity_checks import UNWRITTEN_NS

    if calibration.unknown:
        tell(f"unknown, because no run depends on it: {', '.join(calibration.unknown)}")
    worst = calibration.worst
    if abs(worst.error) > analysis.BAD:
        warn(f"the model fits badly: its error for {worst.run.name!r} is {100 * worst.error:+.0f} %")
    for run in runs:
        # Flash that is as slow as the model's did not answer this read.
        if run.seconds_alone * 1e9 < UNWRITTEN_NS < int(str(table.get("page_read_ns", 0))):
            duration_text = f"a read took {1e6 * run.seconds_alone:.0f} µs"
            warn(f"{run.name}: {duration_text}, and flash takes longer. Write the whole disk before you measure it")


def _as_dict(calibration: "Calibration") -> dict[str, object]:
    return {
        "device": dict(calibration.device),
        "fitted": {
            name: {"before": a, "after": b, "interval": calibration.intervals.get(name)}
            for name, (a, b) in calibration.fitted_values.items()
        },
        "unknown": list(calibration.unknown),
        "residuals": [
            {
                "run": residual.run.name,
                "load": residual.run.load,
                "measured": {"read_iops": residual.run.read_iops, "write_iops": residual.run.write_iops},
                "predicted": {"read_iops": residual.read_iops, "write_iops": residual.write_iops},
                "error": residual.error,
            }
            for residual in calibration.residuals
        ],
    }


def _check_usage(arguments: CalibrateArguments) -> None:
    from blklab.devices.identified_disks import refuse_host_managed

    flags = (("INPUT", arguments.inputs), ("--device", arguments.device), ("--directory", arguments.directory))
    sources = [flag for flag, value in flags if value]
    if len(sources) != 1:
        raise UsageError("expected one of INPUT, --device and --directory")
    if arguments.destroy and sources != ["--device"]:
        raise UsageError("--destroy: expected --device")
    if arguments.size and sources == ["--device"]:
        raise UsageError("--size: not with --device, which is measured as a whole")
    if sources != ["INPUT"] and arguments.length < SHORTEST:
        raise UsageError("--time: expected 10s or more for all tests")
    check_output(arguments.output)
    if arguments.device:
        refuse_host_managed(arguments.device, Roots())


def _model_of(device: str | None) -> str:
    """Returns the name of the library's model for a device of this host."""
    from blklab.devices.identified_disks import identify_disks

    if device is None:
        raise UsageError("--model: expected a model like the disk, such as --model pm983: see `blklab devices list`")
    node = resolve(device, Roots()).node
    disk = node.parent.name if (node / "partition").exists() else node.name
    model = {disk.name: disk.model for disk in identify_disks(Roots())}.get(disk)
    if model is None:
        tell(f"{device}: starting from a virtual disk without limits")
        return VIRTUAL
    tell(f"{device}: starting from {model.name}")
    return model.name


def measure_points(
    experiment: "ExperimentSource",
    store: str | None,
    force: Sequence[str] = (),
    yes_destroy: Sequence[str] = (),
    *,
    resume: bool = False,
) -> "list[Observation]":
    """Measures the tests of a disk on this host, and returns the runs. Raises UsageError or BlklabError."""
    from blklab.calibrate.fit import observations
    from blklab.cli.run import measure_campaign
    from blklab.experiment import cells
    from blklab.experiment.host_cell import FORM
    from blklab.runners.host.runner import HostRunner

    runner = HostRunner(force=force, yes_destroy=yes_destroy, warn=warn)
    plan = runner.adapt_plan(cells.plan(experiment, form=FORM))
    with runner.session():
        runner.check(plan)
        outcome = measure_campaign(runner, plan, store, keep=True, resume=resume)
    fail_with(outcome.errors)
    return observations(experiment, ((result.labels["workload"], result.outcome) for result in outcome.results))


def read_model(model: str) -> "DeviceTable":
    """Returns the table of a model: of the library, of a file, or a virtual disk. Raises UsageError."""
    from blklab.devices import stock_models
    from blklab.experiment import load

    if model == VIRTUAL:
        return {"kind": "throttled"}
    if Path(model).suffix == ".toml":
        return load.read_calibrated(Path(model))
    try:
        return stock_models.stock(model, stock_models.MEASURED_HERE)
    except ValueError as error:
        raise UsageError(f"--model: {error}") from None


def _runs(inputs: Sequence[Path], store: str | None) -> "list[Observation]":
    from blklab.calibrate import observations

    runs: list[Observation] = []
    files = []
    for path in inputs:
        kind, colon, selector = str(path).partition(":")
        if colon and kind in {"run", "campaign"}:
            runs += map(observations.from_store, _read_stored_runs(store, kind, selector))
        else:
            files.append(path)
    return runs + observations.from_files(files)


def _read_stored_runs(store: str | None, kind: str, selector: str) -> "Sequence[StoredRun]":
    from blklab.store import query
    from blklab.store.campaigns import Store

    opened_store = Store(store, reading=True)
    if kind == "campaign":
        return query.select_runs(opened_store, selector).runs
    if not (selector.isascii() and selector.isdigit() and len(selector) < 19):
        raise UsageError(f"run:{selector}: expected the number of a run, such as run:42: see `blklab runs show`")
    return [query.run(opened_store, int(selector))]
