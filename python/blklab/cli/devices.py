"""`blklab devices`: the library of device models."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from blklab.cli.common import INPUT, csv_option, emit, json_option, repeatable, tell, warn
from blklab.cli.lazy import CommandEntry, LazyGroup
from blklab.cli.value_completion import complete_models
from blklab.errors import UsageError
from blklab.output import check as check_output
from blklab.output import make_directory, write
from blklab.system.roots import Roots

if TYPE_CHECKING:
    from blklab.devices.stock_models import DeviceTable

DEFAULT_KERNEL = "6.1"  # Of a recorded host
TYPICAL_NVME = "nvme-datacenter"  # Where a disk begins whose name only says that it is an NVMe disk

COMMANDS = {
    "list": CommandEntry("blklab.cli.devices:list_", "List the device models of the library"),
    "show": CommandEntry("blklab.cli.devices:show", "Show a model, and its data sheet next to the simulation"),
    "identify": CommandEntry("blklab.cli.devices:identify", "Find the models of this host's disks"),
    "import": CommandEntry("blklab.cli.devices:import_", "Make a model from the figures of io.cost"),
    "refit": CommandEntry("blklab.cli.devices:refit", "Fit models of disks to a block trace"),
    "export": CommandEntry("blklab.cli.devices:export", "Print a model as lines of io.cost"),
}


@click.group(cls=LazyGroup, entries=COMMANDS, subcommand_metavar="COMMAND ...", options_metavar="")
def devices() -> None:
    """Find the device model for a disk: products, typical disks of a class, and cloud volumes."""


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@json_option
@csv_option
def list_(words: tuple[str, ...], *, as_json: bool) -> None:
    """List the device models of the library; with words, those that contain all of them.

    Use a name as `model = "NAME"` of a device in an experiment. Your own models are TOML files in
    ~/.config/blklab/devices, such as `blklab calibrate` writes.

    \b
    Examples:
      blklab devices list
      blklab devices list nvme samsung
    """
    from blklab.devices import tables as report
    from blklab.devices.stock_models import find_models

    models = find_models(words)
    emit([report.as_dict(model) for model in models], as_json, lambda console: report.draw_models(console, models))


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_models)
@json_option
@csv_option
def show(words: tuple[str, ...], *, as_json: bool) -> None:
    """Show the model NAME: product, class, source, and what its maker states next to the simulation.

    A disk may also be written as on its label. If several models have the words, they are listed.

    \b
    Examples:
      blklab devices show pm983
      blklab devices show 990 PRO
      blklab devices show samsung
    """
    from blklab.devices import tables as report
    from blklab.devices.stock_models import find_models, library_model, paths
    from blklab.devices.typed_disks import find_disks
    from blklab.runners.sim.runner import simulate_rated_figures

    name = " ".join(words)
    models = [library_model(name)] if name in paths() else find_models(name.split())
    if len(models) > 1:
        listed = [report.as_dict(model) for model in models]
        emit(listed, as_json, lambda console: report.draw_models(console, models))
        return
    model = models[0] if models else find_disks(name, "NAME").model
    figures = simulate_rated_figures([model])[model.name]
    emit(report.as_dict(model, figures), as_json, lambda console: report.print_model(console, model, figures))


@click.command()
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--this-host", is_flag=True, help="Look at this host's disks; the default without TEXT.")
@json_option
def identify(texts: tuple[str, ...], *, this_host: bool, as_json: bool) -> None:
    """Find the device model for each disk of this host, or for what a disk says it is (TEXT).

    It reads /sys and udev's database, and changes nothing. A disk that the library does not have gets
    one of its family with another capacity, or the typical model of its class, and the reason.

    \b
    Examples:
      blklab devices identify
      blklab devices identify "SAMSUNG MZ7LH480HAHQ-00005" ST16000NM001G-2KK103
      blklab devices identify "WD Red Plus 8TB" "990 PRO 1TB"

    \b
    Exit status: 0 a model for each disk; 1 there is none for a disk.
    """
    from blklab.devices import tables as report
    from blklab.devices.identified_disks import IdentifiedDisk, identify_disks
    from blklab.devices.stock_models import identify as identify_text
    from blklab.devices.typed_disks import find_disks

    disks = identify_disks(Roots()) if this_host or not texts else []
    for text in texts:
        if match := identify_text(text):
            disks.append(IdentifiedDisk("", text, None, match.model, match.why, capacity=match.capacity))
            continue
        try:
            typed = find_disks(text, "TEXT")
        except UsageError:
            obstacle = "no such name is known: see `blklab devices list` for the classes"
            disks.append(IdentifiedDisk("", text, None, None, obstacle=obstacle))
        else:
            disks.append(IdentifiedDisk("", text, None, typed.model, typed.guess, capacity=typed.capacity))
    emit(report.disks_as_dict(disks), as_json, lambda console: report.draw_disks(console, disks))
    if any(disk.model is None for disk in disks):
        raise Exit(1)


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--name", metavar="TEXT", help="The disk's name as the kernel reads it, if no file says it.")
@click.option("--model", metavar="NAME", help="What the figures do not show is that of this model.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the model here instead of stdout.")
def import_(files: tuple[Path, ...], *, name: str | None, model: str | None, output: Path | None) -> None:
    """Make the model of a disk from results of fio, or from its figures for the kernel's io.cost controller.

    FILE is a result of fio, or a directory of them (JSON), as bench-fio writes one for each load: they
    are fitted as `blklab calibrate` does, for the whole disk, without a filesystem and on kernel 6.1.
    Or it is a result of resctl-bench (JSON, also with gzip), or has a line as in io.cost.model: the
    median of each figure of several files counts. These figures say how much a flash disk does when it
    is saturated; its latency stays that of a typical disk, with a wide interval. All files are of one
    disk.

    In ~/.config/blklab/devices, the file is a model of your library.

    \b
    Examples:
      blklab devices import bench-fio/ --model ssd-datacenter -o kingston.toml
      blklab devices import result.json.gz -o ~/.config/blklab/devices/my-disk.toml
      cat /sys/fs/cgroup/io.cost.model | blklab devices import /dev/stdin --model nvme-datacenter

    \b
    Exit status: 0 success; 2 a file has no figures, or there are different disks.
    """
    from blklab.calibrate import iocost, observations
    from blklab.devices import stock_models

    check_output(output)
    of_fio = [observations.is_fio(path) for path in files]
    if len(set(of_fio)) > 1:
        raise UsageError(f"{files[of_fio.index(False)]}: is no result of fio, but other files are: import one kind")
    disks = []
    if not of_fio[0]:
        for path in files:
            disks += iocost.read(path)
    names = sorted({disk.name for disk in disks if disk.name})
    if len(names) > 1:
        raise UsageError(f"{names[0]!r} and {names[1]!r} are different disks: import one at a time")
    name = name or (names[0] if names else "")
    match = stock_models.identify(name) if name else None
    if model is None and match is None:
        raise UsageError("--model: expected a model such as nvme-consumer: no file says which disk it is")
    typical = stock_models.library_model(model or (match.model.device_class if match else ""))
    if disks and typical.kind not in {"ssd", "nvme"}:
        raise UsageError(f"--model: expected a flash disk, found {typical.kind}")
    about: dict[str, object] = {"name": name or "A measured disk", "class": typical.device_class}
    about["certainty"] = "measured"
    if name:
        about["match"] = [f"{name}*"]
    base = stock_models.stock(typical.name, stock_models.MEASURED_HERE)
    if disks:
        source = f"io.cost figures: {', '.join(map(str, files))}"
        capacities = [disk.capacity for disk in disks if disk.capacity]
        if capacities:
            base["capacity"] = capacities[0]
        text = iocost.as_toml(iocost.median(disks), base, about, source)
    else:
        from blklab.calibrate.fit import Bench, as_toml
        from blklab.cli.calibrate import KERNEL, fit_model

        calibration = fit_model(base, observations.from_files(files), Bench(files[0], KERNEL))
        text = as_toml(calibration, typical.name, files, about)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text.encode())
        tell(f"{output}: written")


@click.command()
@click.argument("trace", type=INPUT)
@repeatable("--model", "models", metavar="[DISK=]NAME|FILE", help="Where the fit starts, for all disks or for one.")
@repeatable("--disk", "names", metavar="NAME", help="Only this disk of the trace.")
@click.option("--kernel", default=DEFAULT_KERNEL, help="Kernel of the recorded host.")
@click.option("-o", "--output", metavar="FILE|DIRECTORY", help="Write the model of one disk, or a file for each disk.")
@json_option
def refit(
    trace: str, *, models: tuple[str, ...], names: tuple[str, ...], kernel: str, output: str | None, as_json: bool
) -> None:
    """Fit the model of each disk to a block TRACE of the system in use, without any measurement.

    TRACE is any trace that blklab reads. The disks are its devices that are above no other device. The
    requests of a disk are replayed on its model, in parts of the trace whose load is stable. The first
    half of the trace is fitted. The second half judges the result: its error is printed, and widens the
    interval. A disk that was never busy shows its latency, and not its limits. Flushes are not fitted.

    Without --model, the fit starts from the typical disk of the class if the name says it (nvme0n1),
    and from a virtual disk otherwise.

    \b
    Examples:
      blklab devices refit md4 --model hdd-7200 -o disks/
      blklab devices refit md4 --model sda=sm883 --model nvme0n1=pm983 -o disks/
      blklab devices refit md4 --disk sdb --model sm883 -o sdb.toml

    \b
    Exit status: 0 success; 2 no disk has enough I/O, or a model is not valid.
    """
    from blklab.calibrate import refit as analysis
    from blklab.calibrate import report
    from blklab.calibrate.recorded_disk import read_disks

    disks = read_disks(trace, names)
    bases = _initial_models(models, [disk.name for disk in disks])
    files = _output_files(output, [disk.name for disk in disks])
    results = []
    obstacles = []
    for disk in disks:
        name, table = bases[disk.name]
        try:
            result = analysis.refit(disk, table, trace, kernel, tell)
        except UsageError as error:
            obstacles.append(error)
            continue
        results.append(result)
        if disk.name in files:
            write(files[disk.name], result.as_toml(name, trace).encode())
            tell(f"{files[disk.name]}: written")
    if not results:
        raise obstacles[0]
    for obstacle in obstacles:
        warn(str(obstacle))
    emit([result.as_dict() for result in results], as_json, lambda console: report.draw_refits(console, results))


def _initial_models(models: Sequence[str], disks: Sequence[str]) -> "dict[str, tuple[str, DeviceTable]]":
    """Return the name and the table of each disk's initial model. Raises UsageError."""
    from blklab.cli.calibrate import VIRTUAL, read_model

    by_disk: dict[str, str] = {}
    for text in models:
        disk, equals, name = text.partition("=")
        if not equals:
            by_disk |= {disk_name: text for disk_name in disks if disk_name not in by_disk}
        elif disk in disks:
            by_disk[disk] = name
        else:
            raise UsageError(f"--model {text}: no disk {disk!r} in the trace: it has {', '.join(disks)}")
    bases = {}
    for disk in disks:
        base = by_disk.get(disk)
        if base is None:
            base = TYPICAL_NVME if disk.startswith("nvme") else VIRTUAL
            tell(f"{disk}: starting from {base}, because no --model is given")
        bases[disk] = (base, read_model(base))
    return bases


def _output_files(output: str | None, disks: Sequence[str]) -> dict[str, Path]:
    """Return the file of each disk; none without an output. Raises UsageError."""
    if output is None:
        return {}
    path = Path(output)
    if len(disks) == 1 and not output.endswith("/") and not path.is_dir():
        check_output(path)
        return {disks[0]: path}
    if path.exists() and not path.is_dir():
        raise UsageError(f"-o {output}: is a file, and the trace has {len(disks)} disks: expected a directory")
    make_directory(path)
    # The name of a disk of a trace may contain anything.
    return {disk: path / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', disk).lstrip('.') or 'disk'}.toml" for disk in disks}


@click.command("export")
@click.argument("name")
@click.option("--iocost", is_flag=True, help="As lines of io.cost.model and io.cost.qos; there is no other form yet.")
@click.option(
    "--device", default="MAJ:MIN", show_default=False, metavar="MAJ:MIN", help="The number of the device, as in lsblk."
)
@json_option
def export(name: str, *, iocost: bool, device: str, as_json: bool) -> None:
    """Print the lines of the kernel's io.cost.model and io.cost.qos for the model NAME, from its simulation.

    The first line is for /sys/fs/cgroup/io.cost.model, the second for io.cost.qos. Its latencies are
    one and a half times the 95th percentile at 90 % of the random rates, as resctl-bench chooses them.
    No measurement judges them.

    \b
    Example:
      blklab devices export pm983 --iocost --device 259:0
    """
    from blklab.calibrate import iocost as analysis
    from blklab.devices import stock_models

    if not iocost:
        raise UsageError("expected --iocost")
    table = stock_models.stock(name)
    if table["kind"] == "throttled":
        raise UsageError(f"{name} is a virtual disk: the kernel of its host has the controller")
    figures = analysis.simulate_figures(table)
    qos = analysis.qos(table, figures)
    lines = [
        f"{device} ctrl=user model=linear {analysis.format_figures(figures)}",
        f"{device} {analysis.format_figures(qos)}",
    ]
    emit({"model": figures, "qos": qos}, as_json, lambda console: console.print("\n".join(lines), soft_wrap=True))
