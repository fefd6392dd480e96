"""`blklab reproduce`: predict what fio measured, and show both."""

import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blklab import output as out
from blklab.cli.common import DevicesCommand, is_given, json_option, note, repeatable, store_option, warn
from blklab.errors import UsageError

if TYPE_CHECKING:
    from blklab.compare.reproduction import MeasuredRun, Table


MOST_ANSWERS = 5  # Answers to a question that are not valid


@click.command(cls=DevicesCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@repeatable(
    "--devices",
    metavar="[NAME=]MODEL,...",
    help="The disks, or one model for all: pm983:100GiB, sda=sm883, hdd=4xhdd-7200, ./calibrated.toml.",
)
@repeatable(
    "--stack",
    "stacks",
    metavar="NAME=...",
    help="What was measured: fast=nvme, md0=raid10:4*sda, far=raid10:nvme,ssd,layout=f2,chunk=64k.",
)
@click.option("--pattern", metavar="PATTERN", help="Split names of files or jobs: '{stack}_{workload}'.")
@click.option("--workload", metavar="OPTION=VALUE,...", help="Options of fio that its output lacks: rw=read,bs=256k.")
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
    workload: str | None,
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
    of docs/reference/experiments.md; `4*sda` is four disks like sda. A model of --devices without a name is that of
    all disks that have none; add the size of a partition. What is missing, blklab asks on a terminal.

    fio's text without the options of its jobs needs the command line of fio in it, or --workload.

    \b
    Examples:
      blklab reproduce nvme.json --devices pm983:100GiB              :SIZE if it was a partition
      blklab reproduce md0.json --devices pm983 --stack 'md0=raid10:4*nvme0n1'
      blklab reproduce fio.txt --devices sda=hdd-7200 --workload rw=read,bs=256k
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
    if workload is not None:
        options = _parse_workload(workload)
        runs = [run.add_options(options) for run in runs]
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
    tables, all_stacks = _find_missing(runs_by_place, tables, stack_tables, _typed_command())
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
        outcome = cell_result.outcome
        has_command = outcome.fio is not None and bool(outcome.fio.command)
        complete = has_command or '"fio version"' in unpack_output(cell_result.raw)
        runs.append(MeasuredRun(cell.labels, outcome, str(cell.document["source"]), complete))
    return batch.plan.name, runs


def _parse_workload(text: str) -> dict[str, str]:
    """Parse `rw=randrw,bs=4k,8k,rwmixread=70`: a part without `=` belongs to the value before. Raises UsageError."""
    from blklab.compare.reproduction import LOAD_KEYS
    from blklab.fio.known_options import ALIASES
    from blklab.toml_files import problems

    options: dict[str, str] = {}
    key = ""
    for part in text.split(","):
        word, equals, value = part.strip().partition("=")
        if not equals and key:
            options[key] += f",{word}"
            continue
        key = ALIASES.get(word, word)
        if not equals or key not in LOAD_KEYS:
            raise UsageError(f"--workload: found {part!r}, expected rw=read,bs=256k; {problems.near(key, LOAD_KEYS)}")
        options[key] = value
    return options


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
        table = {
            key: value
            for key, value in pool.table.items()
            if key not in {"state", "slc_fill"} and (has_size or key != "size")
        }
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


def _typed_command() -> list[str]:
    """Return the command with its files and options."""
    context = click.get_current_context()
    words = ["blklab", "reproduce"]
    for parameter in context.command.params:
        if not is_given(str(parameter.name)):
            continue
        value = context.params[str(parameter.name)]
        values = value if isinstance(value, tuple) else (value,)
        for text in values:
            if isinstance(parameter, click.Option):
                words.append(parameter.opts[0])
            if text is not True:
                words.append(str(text))
    return words


@dataclass(frozen=True)
class _Question:
    """What to ask about what fio measured."""

    text: str  # Without the end
    form: str  # What an answer may be
    guesses: Sequence[str]  # The most likely first
    remedy: Sequence[str]  # The options that answer it with the first guess


def _find_missing(
    runs_by_place: "Mapping[str, MeasuredRun]",
    devices: "dict[str, Table]",
    stacks: "dict[str, Table]",
    command: Sequence[str] = ("blklab", "reproduce", "FILE"),
) -> "tuple[dict[str, Table], dict[str, Table]]":
    """Return the devices and the stack of each measured place; ask on a terminal for those that are missing.

    `command` is what the user typed, for the message elsewhere. Raises UsageError.
    """
    from blklab.compare import measured_disks
    from blklab.devices import stock_models

    all_stacks = dict(stacks)
    for name, run in runs_by_place.items():
        is_single = len(runs_by_place) == len(devices) == 1 and run.may_be_a_disk
        is_disk = run.may_be_a_disk and measured_disks.is_disk_name(name)
        if name in devices or (name not in all_stacks and (is_single or is_disk)):
            all_stacks.setdefault(name, {"device": name})
        if name not in all_stacks:
            question = _ask_stack(name, run, has_devices=bool(devices))
            all_stacks[name] = _ask(question, command, partial(_parse_definition, name))
    for name, stack in all_stacks.items():
        disks = runs_by_place[name].disks if name in runs_by_place else []
        all_stacks[name], devices = measured_disks.expand_members(stack, disks, devices)
    for name in _unknown_disks(all_stacks, devices):
        if name in stock_models.names():
            devices = {**devices, name: {"model": name}}
    devices = _use_unnamed_model(_unknown_disks(all_stacks, devices), all_stacks, devices)
    for names in measured_disks.group_alike(_unknown_disks(all_stacks, devices)):
        run = runs_by_place.get(names[0], next(iter(runs_by_place.values())))
        answer = _ask(_ask_model(names, run), command, partial(_parse_models, names))
        devices = {**devices, **answer}
    return devices, all_stacks


def _parse_definition(name: str, text: str) -> "Table":
    return _parse_stack(f"{name}={text}")[1]


def _parse_models(names: Sequence[str], text: str) -> "dict[str, Table]":
    """Parse the models of some disks: one for all, or `sda=sm883,sdb=hdd-7200`. Raises UsageError."""
    tables = _parse_devices([text])
    if len(tables) == 1 and "=" not in text:
        return {name: dict(table) for name in names for table in tables.values()}
    if missing := [name for name in names if name not in tables]:
        raise UsageError(f"{missing[0]}: has no model, expected {missing[0]}=MODEL as well")
    return tables


def _unknown_disks(stacks: "Mapping[str, Table]", devices: "Mapping[str, Table]") -> list[str]:
    """Return the disks of the stacks that have no model."""
    known_names = {*devices, *(name for name, stack in stacks.items() if "device" not in stack), "missing"}
    members = dict.fromkeys(member for stack in stacks.values() for member in _disks_of(stack))
    return [member for member in members if not {member, member.rstrip("0123456789")} & known_names]


def _use_unnamed_model(
    unknown_disks: Sequence[str], stacks: "Mapping[str, Table]", devices: "dict[str, Table]"
) -> "dict[str, Table]":
    """Return the devices, with `--devices MODEL` as the model of all disks that have none. Raises UsageError."""
    used_names = {member for stack in stacks.values() for member in _disks_of(stack)}
    used_names |= {name.rstrip("0123456789") for name in used_names}
    unused = [name for name in devices if name not in used_names]
    if not unknown_disks or len(unused) != 1:
        return devices
    table = dict(devices[unused[0]])
    count = int(table.pop("count", len(unknown_disks)))
    if count != len(unknown_disks):
        raise UsageError(f"--devices {unused[0]}: found {count}, expected {len(unknown_disks)} for {unknown_disks[0]}")
    other_devices = {name: other for name, other in devices.items() if name != unused[0]}
    return other_devices | {name: dict(table) for name in unknown_disks}


def _ask_stack(name: str, run: "MeasuredRun", *, has_devices: bool) -> _Question:
    """Return the question what fio measured under this name."""
    from blklab.compare import measured_disks

    disks = [disk for disk in run.disks if disk != name]
    below = f" (on {measured_disks.name_disks(disks)})" if disks else ""
    iops = measured_disks.random_iops(run.outcome, len(disks))
    models = measured_disks.guess_models(disks[0] if disks else name, iops)
    is_array = run.is_array or name.startswith(("md", "dm-"))
    guesses = measured_disks.guess_stacks(disks, is_array=is_array)
    remedy = ["--stack", f"{name}={guesses[0]}"]
    if disks and not has_devices:
        remedy += ["--devices", models[0]]
    if run.may_be_a_disk and not is_array:
        guesses = [*models, *guesses]
        remedy = ["--devices", models[0]]
    return _Question(f"what was {name}{below}", "a disk's model, or LEVEL:MEMBER,...,KEY=VALUE", guesses, remedy)


def _ask_model(names: Sequence[str], run: "MeasuredRun") -> _Question:
    """Return the question which model some disks are."""
    from blklab.compare import measured_disks

    guesses = measured_disks.guess_models(names[0], measured_disks.random_iops(run.outcome, len(run.disks)))
    if len(names) == 1:
        form = "a model"
        text = f"which disk is {names[0]}"
    else:
        form = f"a model for all, or {names[0]}=MODEL,{names[1]}=MODEL,..."
        text = f"which disks are {measured_disks.name_disks(names)}"
    models = ",".join(f"{name}={guesses[0]}" for name in names)
    return _Question(text, form, guesses, ["--devices", models])


def _describe_guess(guess: str) -> str:
    from blklab.devices import stock_models

    if guess not in stock_models.names():
        return guess
    return f"{guess:<16} {stock_models.library_model(guess).product}"


def _ask(question: _Question, command: Sequence[str], parse: "Callable[[str], Table]") -> "Table":
    """Return what the user answers on a terminal: one of the guesses, or another one. Raises UsageError elsewhere."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        typed = shlex.join([*command, *question.remedy])
        raise UsageError(f"{question.text}? Say it, for example: `{typed}`; `blklab devices list` has the models")
    notes = [f"{question.text}? Type a number, or {question.form}; q ends. `blklab devices list` has the models."]
    notes += [f"  {number}  {_describe_guess(guess)}" for number, guess in enumerate(question.guesses, 1)]
    for _ in range(MOST_ANSWERS):
        for line in notes:
            click.echo(line, err=True)
        answer = str(click.prompt("answer", default="1", err=True)).strip()
        if answer.lower() in {"q", "quit", "exit"}:
            raise click.Abort
        if answer.isascii() and answer.isdigit():
            if not 1 <= int(answer) <= len(question.guesses):
                notes = [f"{answer}: expected a number from 1 to {len(question.guesses)}"]
                continue
            answer = question.guesses[int(answer) - 1]
        try:
            return parse(answer)
        except UsageError as error:
            notes = [str(error)]
    raise UsageError(f"{question.text}? No answer is valid; add {shlex.join(question.remedy)}")


def _disks_of(stack: "Table") -> list[str]:
    """Return the disks and stacks that a stack names."""
    names = [stack[key] for key in ("origin", "cache", "device", "data") if isinstance(stack.get(key), str)]
    return [*names, *stack.get("members", [])]
