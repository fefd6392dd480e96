"""`blklab reproduce`: predict what fio measured, and show both."""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import output as out
from blklab.cli.common import DevicesCommand, json_option, note, repeatable, store_option, warn
from blklab.errors import UsageError

if TYPE_CHECKING:
    from blklab.compare.reproduction import MeasuredRun, Table


@click.command(cls=DevicesCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@repeatable(
    "--devices",
    metavar="[NAME=]MODEL,...",
    help="The disks: nvme=pm983,ssd=sm883:10GiB, hdd=4xhdd-7200, disk=./calibrated.toml.",
)
@repeatable(
    "--stack",
    "stacks",
    metavar="NAME=...",
    help="What was measured: fast=nvme, md0=raid1:nvme,ssd, far=raid10:nvme,ssd,layout=f2,chunk=64k.",
)
@click.option("--pattern", metavar="PATTERN", help="Split names of files or jobs: '{stack}_{workload}'.")
@click.option("--name", metavar="NAME", help="Name of the experiment; default: that of the files.")
@click.option("--kernel", default="6.1", help="Kernel that ran.")
@click.option(
    "--filesystem",
    type=click.Choice(["none", "ext3", "ext4", "xfs"]),
    default="none",
    help="Filesystem between fio and the stack.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the experiment to this file; default: NAME.toml.")
@store_option
@json_option
def reproduce(
    *,
    files: tuple[str, ...],
    devices: tuple[str, ...],
    stacks: tuple[str, ...],
    pattern: str | None,
    name: str | None,
    kernel: str,
    filesystem: str,
    output: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Predict what fio measured in FILE..., and show predictions and measurements side by side.

    FILE is fio's output: JSON or text, with its interval logs, of any number of devices and arrays. blklab makes an
    experiment of it, with the load of each run and its figures ([[measured]]), and runs it on the simulator.
    Measurements outside of the interval have a reason, as far as one is known: another disk than the model, options
    that are not simulated, other shares of the disks. Edit the experiment and repeat it with `blklab run`.

    What was measured has the name that --pattern splits from the names of files or jobs, otherwise that of the device
    in fio's disk statistics, or of the file. --stack says what it was: a disk, or a level with its members and the keys
    of docs/reference/experiments.md. Without --devices and --stack, blklab asks on a terminal.

    \b
    Examples:
      blklab reproduce nvme.json --devices nvme0n1=pm983
      blklab reproduce *.json --pattern '{stack}_{workload}' --devices nvme=pm983,ssd=sm883 \\
          --stack raid1=raid1:nvme,ssd --stack far=raid10:nvme,ssd,layout=f2 --kernel 4.19
      blklab run examples/article-2019-mirrors.toml      the same for published figures

    \b
    Exit status: 0 success, also if measurements are outside;
    2 the files, devices or stacks are not valid.
    """
    from blklab.cli.run import predict
    from blklab.compare import reproduction
    from blklab.experiment import cells, load
    from blklab.fio.output import refuse_job_files

    refuse_job_files(files)
    title, runs = _read_measured_runs(files, pattern, name)
    path = Path(output or f"{title}.toml")
    if output is None and path.exists():
        raise UsageError(f"{path}: exists; name the experiment with --name or -o")
    out.check(path)
    tables = _parse_devices(devices)
    settings = {"kernel": kernel, "filesystem": filesystem}
    runs_by_place = {run.place: run for run in runs}
    stack_tables = dict(map(_parse_stack, stacks))
    inner = {member for stack in stack_tables.values() for member in _disks_of(stack)}
    if unknown := [stack for stack in stack_tables if stack not in {*runs_by_place, *inner}]:
        raise UsageError(f"--stack {unknown[0]}: was not measured; the files have {', '.join(runs_by_place)}")
    tables, all_stacks = _ask_for_missing(runs_by_place, tables, stack_tables)
    experiment = reproduction.as_experiment(title, runs, tables, all_stacks, settings, warn)
    text = reproduction.as_toml(experiment)
    cells.plan(load.ExperimentSource(path, tomllib.loads(text)))  # what is not valid is not written
    out.write(path, text.encode())
    note(f"{path}: written")
    predict(path, store, as_json=as_json)


def _read_measured_runs(files: Sequence[str], pattern: str | None, name: str | None) -> "tuple[str, list[MeasuredRun]]":
    """Returns the name of the experiment, and the runs that fio measured."""
    from blklab.compare.reproduction import MeasuredRun
    from blklab.importers.base import ImportSource
    from blklab.importers.collect import batches
    from blklab.importers.run_labels import RunNaming
    from blklab.store.series import unpack_output

    if experiments := [file for file in files if file.endswith(".toml")]:
        raise UsageError(f"{experiments[0]}: expected fio's output; an experiment runs with `blklab run`")
    collection = batches(files, ImportSource(()), RunNaming(name, pattern=pattern))
    for line in [*collection.notes, *(f"{problem}: left out" for problem in collection.errors)]:
        warn(line)
    batch = next((batch for batch in collection.batches if batch.plan.runner == "fio"), None)
    if batch is None:
        raise UsageError(f"{files[0]}: no results of fio; expected its JSON or text output")
    runs = []
    for cell in batch.plan.cells:
        cell_result = batch.finished_runs[cell.key]
        if "kernel" in cell.labels:
            raise UsageError("--pattern: {kernel} is not possible: reproduce the files of each kernel with --kernel")
        complete = '"fio version"' in unpack_output(cell_result.raw)
        runs.append(MeasuredRun(cell.labels, cell_result.outcome, str(cell.document["source"]), complete))
    return batch.plan.name, runs


def _parse_devices(texts: Sequence[str]) -> "dict[str, Table]":
    """Parse `--devices`. Raises UsageError."""
    from blklab.advise.question import read_pools
    from blklab.toml_files.fields import NAME

    tables: dict[str, Table] = {}
    for word in ",".join(texts).split(","):
        text = word.strip()
        if not text:
            continue
        name, equals, model = text.rpartition("=")
        pool = read_pools([model], {}, "used")[0]
        name = name if equals else pool.name
        if NAME.fullmatch(name) is None or name in tables:
            reason = "is named twice" if name in tables else "expected a name of letters, digits, _ and -"
            raise UsageError(f"--devices {text!r}: {reason}")
        # The default of the library is the state of disks in use.
        has_size = ":" in Path(model).name
        table = {key: value for key, value in pool.table.items() if key != "state" and (has_size or key != "size")}
        if pool.count > 1:
            table["count"] = pool.count
        tables[name] = table
    return tables


def _parse_stack(text: str) -> "tuple[str, Table]":
    """Parse `NAME=DEVICE` or `NAME=KIND:MEMBER,...,KEY=VALUE`. Raises UsageError."""
    from blklab.experiment.overrides import parse_set

    name, equals, definition = (part.strip() for part in text.partition("="))
    kind, colon, term_text = definition.partition(":")
    if not (name and equals and definition):
        raise UsageError(f"--stack {text!r}: expected NAME=DEVICE or NAME=LEVEL:MEMBER,..., such as md0=raid1:sda,sdb")
    if not colon:
        return name, {"device": definition}
    terms = [word.strip() for word in term_text.split(",") if word.strip()]
    members = []
    keys = {}
    try:
        for word in terms:
            if "=" in word:
                change = parse_set(word)
                keys[change.key] = change.value
            else:
                members.append(word)
    except ValueError as error:
        raise UsageError(f"--stack {text!r}: {error}; write lists into the file") from None
    if wrong := keys.keys() & {"members", "level", "kind"}:
        raise UsageError(f"--stack {text!r}: {min(wrong)}: expected LEVEL:MEMBER,...,KEY=VALUE")
    level = kind.removeprefix("raid")
    table: Table = {"level": int(level)} if level.isascii() and level.isdigit() else {"kind": kind}
    table |= keys
    if members:
        table["members"] = members
    return name, table


def _ask_for_missing(
    runs_by_place: "Mapping[str, MeasuredRun]", devices: "dict[str, Table]", stacks: "dict[str, Table]"
) -> "tuple[dict[str, Table], dict[str, Table]]":
    """Return the devices and the stack of each measured place; ask on a terminal for those that are missing."""
    all_stacks = dict(stacks)
    for name, run in runs_by_place.items():
        if name in devices or (len(runs_by_place) == len(devices) == 1 and run.may_be_a_disk):
            all_stacks.setdefault(name, {"device": name if name in devices else next(iter(devices))})
        if name not in all_stacks:
            below = f" (on {', '.join(run.disks)})" if run.disks and run.disks != [name] else ""
            example = f"{name}=raid1:sda,sdb" if below else f"{name}=sda"
            remedy = f"Add --stack {example}, and --devices with the models: `blklab devices list`"
            answer = _answer(f"what was {name}{below}?", "A disk, or LEVEL:MEMBER,...,KEY=VALUE", remedy)
            all_stacks[name] = _parse_stack(f"{name}={answer}")[1]
    for member in dict.fromkeys(member for stack in all_stacks.values() for member in _disks_of(stack)):
        known_names = {*devices, *(name for name, stack in all_stacks.items() if "device" not in stack), "missing"}
        if not {member, member.rstrip("0123456789")} & known_names:
            remedy = f"Add --devices {member}=MODEL: `blklab devices list`"
            model = _answer(f"which disk is {member}?", "A model (`blklab devices list`)", remedy)
            devices = {**devices, **_parse_devices([f"{member}={model}"])}
    return devices, all_stacks


def _answer(question: str, form: str, remedy: str) -> str:
    """Return what the user answers on a terminal. Raises UsageError elsewhere."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{question} {remedy}")
    return str(click.prompt(f"{question} {form}", err=True))


def _disks_of(stack: "Table") -> list[str]:
    """Return the disks and stacks that a stack names."""
    names = [stack[key] for key in ("origin", "cache", "device", "data") if isinstance(stack.get(key), str)]
    return [*names, *stack.get("members", [])]
