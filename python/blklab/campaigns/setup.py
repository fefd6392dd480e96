"""The set-up: host, devices, settings, and the commands to build and measure it again."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from blklab.campaigns.view import ExperimentView, ReportCell, group_cells
from blklab.fio.text import MIXED
from blklab.md.levels import REDUNDANT, layout_name
from blklab.outcome import Outcome
from blklab.render import formatting
from blklab.render.shell import Details, PageSection, PlainText
from blklab.render.table import TableColumn, TextTable, only, text_column
from blklab.runners.sim.descriptions import describe_job
from blklab.text.printing import printable

QUEUE = ("scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb", "rotational", "write_cache", "wbt_lat_usec")
"""The queue settings that matter most; the store has the others."""


def section(view: ExperimentView, experiments: Mapping[str, Any]) -> PageSection:
    """Returns the section. `experiments` are the tables of the experiment files, by series."""
    tables = [_machines(view), _md(view), _devices(view), _settings(view)]
    listings = [*_builds(view), *_jobs(view)]
    files = []
    for name, table in experiments.items():
        title = f"The experiment ({name})" if len(experiments) > 1 else "The experiment"
        lines = json.dumps(table, indent=2, ensure_ascii=False).split("\n")
        files.append(PlainText(title, printable_lines(lines), "As JSON, without the comments of the file."))
    folds = []
    if listings:
        folds.append(Details("Commands to build and measure it", listings))
    if files:
        folds.append(Details("Experiment files", files))
    return PageSection("setup", "Set-up", "Set-up", [table for table in tables if table], "", folds)


def _environments(view: ExperimentView) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Returns each different environment once, with the name of its first series."""
    environments: list[Mapping[str, Any]] = []
    for series in view.series:
        for run in series.runs:
            if run.environment and run.environment not in environments:
                environments.append(run.environment)
                yield series.name, run.environment


def _machines(view: ExperimentView) -> TextTable:
    """Returns one column for each environment: kernel, CPUs, versions, writeback settings."""
    environments = list(_environments(view))
    facts_of_hosts = [_facts(environment) for _, environment in environments]
    keys = dict.fromkeys(key for facts in facts_of_hosts for key in facts)
    names = [name if len(environments) > 1 else "" for name, _ in environments]
    body = []
    for key in keys:
        body.append([key, *(facts.get(key, formatting.NONE) for facts in facts_of_hosts)])
    return TextTable("Host and versions", [text_column(""), *map(text_column, names)], body)


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    kernel = environment.get("kernel") or {}
    cpu = environment.get("cpu") or {}
    memory = environment.get("memory_bytes")
    facts = {
        "kernel": " ".join(filter(None, (kernel.get("system"), kernel.get("release")))),
        "machine": kernel.get("machine"),
        "CPU": f"{cpu.get('count')} × {cpu.get('model') or 'unknown'}" if cpu else None,
        "governor": ", ".join(cpu.get("governor") or []),
        "memory": formatting.size(memory) if memory else None,
        **(environment.get("programs") or {}),
        "blklab": environment.get("blklab"),
        **{f"vm.{key}": value for key, value in (environment.get("vm") or {}).items()},
    }
    return {printable(str(key)): printable(str(value)) for key, value in facts.items() if value}


def _columns(view: ExperimentView, *headings: str) -> list[TableColumn]:
    columns = [text_column("campaign")] if view.several else []
    columns += [text_column(heading) for heading in headings]
    return columns


def _row(view: ExperimentView, series: str, cells: Iterable[str]) -> tuple[str, ...]:
    """Returns a row of a table with `_columns`; the name of the series is in it if there are several."""
    if view.several:
        return (series, *map(printable, cells))
    return tuple(map(printable, cells))


def _devices(view: ExperimentView) -> TextTable:
    columns = _columns(view, "device", "kind", "model", "size", "on", *QUEUE, "stable id")
    body: dict[tuple[str, ...], None] = {}
    for name, environment in _environments(view):
        for device in environment.get("devices") or []:
            hardware = device.get("hardware") or {}
            queue = device.get("queue") or {}
            model = " ".join(str(hardware[key]) for key in ("vendor", "model", "rev") if hardware.get(key))
            size = device.get("size")
            row = (
                str(device.get("name")),
                str(device.get("kind")),
                model,
                formatting.size(size) if isinstance(size, int) else "",
                ", ".join(map(str, device.get("above") or [])),
                *(_parse_choice(str(queue.get(key, ""))) for key in QUEUE),
                next(iter(map(str, device.get("ids") or [])), ""),
            )
            body[_row(view, name, row)] = None
    table = TextTable("Devices and their queues", columns, [list(row) for row in body])
    if not table:
        return table
    filled_columns = [number for number in range(len(columns)) if any(row[number] for row in body)]
    return only(table, filled_columns)


def _parse_choice(value: str) -> str:
    """Returns the active choice: `none [mq-deadline] kyber` is mq-deadline."""
    match = re.search(r"\[([^\]]+)\]", value)
    return match[1] if match else value


def _md(view: ExperimentView) -> TextTable:
    columns = _columns(view, "array", "attribute", "value")
    body: dict[tuple[str, ...], None] = {}
    for name, environment in _environments(view):
        for device in environment.get("devices") or []:
            md = device.get("md") or {}
            for key, value in md.items():
                text = _members(value) if isinstance(value, Mapping) else str(value)
                if key == "layout" and (word := _layout(str(md.get("level")), text)):
                    text = f"{text} ({word})"
                body[_row(view, name, (str(device.get("name")), key, text))] = None
    return TextTable("Arrays", columns, [list(row) for row in body])


def _members(members: Mapping[str, Any]) -> str:
    parts = []
    for name, member in members.items():
        parts.append((str(member.get("slot", "")), f"{name} ({member.get('state', '?')})"))
    return ", ".join(f"{slot}: {member}" for slot, member in sorted(parts))


def _settings(view: ExperimentView) -> TextTable:
    """Returns the settings that blklab changed for the runs, with their original values."""
    body: dict[tuple[str, ...], set[int]] = {}
    for series in view.series:
        for run in series.runs:
            for setting in run.figures.settings or ():
                row = _row(view, series.name, astuple(setting))
                body.setdefault(row, set()).add(run.id)
    columns = _columns(view, "device", "setting", "original", "set to", "in")
    rows = [[*row, formatting.plural(len(runs), "run")] for row, runs in body.items()]
    return TextTable("Settings that were changed and restored", columns, rows)


# --- commands -------------------------------------------------------------------------------------


def _builds(view: ExperimentView) -> Iterator[PlainText]:
    commands_shown: set[str] = set()
    for series in view.series:
        stacks = series.campaign.experiment.get("stacks")
        lines = list(_kernel_commands(series.runs[0].environment)) if series.runs else []
        lines = lines or list(_spec_built(stacks if isinstance(stacks, Mapping) else {}))
        commands = printable_lines(lines)
        if commands and commands not in commands_shown:
            commands_shown.add(commands)
            title = f"Building the stacks ({series.name})" if view.several else "Building the stacks"
            note = "They overwrite the devices: read them before use. Devices of the experiment are called /dev/NAME."
            yield PlainText(title, commands, note)


def printable_lines(lines: Sequence[str]) -> str:
    """Returns lines without control characters."""
    return "\n".join(printable(line) for line in lines)


def _kernel_commands(environment: Mapping[str, Any]) -> Iterator[str]:
    """Returns the commands of mdadm and mkfs for the arrays that the kernel reported (md.rst)."""
    for device in environment.get("devices") or []:
        md = device.get("md") or {}
        members = md.get("members") or {}
        if md.get("level") and members:
            slots = sorted(members.items(), key=lambda member: _slot(member[1]))
            arguments = ["mdadm", "--create", f"/dev/{device['name']}", f"--level={md['level']}"]
            arguments.append(f"--raid-devices={md.get('raid_disks', len(members))}")
            if layout := _layout(str(md["level"]), str(md.get("layout", ""))):
                arguments.append(f"--layout={layout}")
            chunk = str(md.get("chunk_size", "0"))
            if chunk.isdigit() and int(chunk):
                arguments.append(f"--chunk={int(chunk) // 1024}K")
            lockless = "[llbitmap]" in str(md.get("bitmap_type"))
            arguments += _bitmap(str(md["level"]), "lockless" if lockless else str(md.get("bitmap/location", "none")))
            if str(md.get("metadata_version", ""))[:1].isdigit():
                arguments.append(f"--metadata={md['metadata_version']}")
            yield shlex.join([*arguments, *(f"/dev/{name}" for name, _ in slots)])
        for mount in device.get("mounts") or []:
            kind = str(mount.get("type"))
            point = str(mount.get("point"))
            if kind and not kind.startswith(("tmpfs", "overlay")) and md:
                yield shlex.join([f"mkfs.{kind}", f"/dev/{device['name']}"])
                yield shlex.join(["mount", "-o", str(mount.get("options")), f"/dev/{device['name']}", point])


def _slot(member: Mapping[str, Any]) -> tuple[int, str]:
    slot = str(member.get("slot", ""))
    return (int(slot), "") if slot.isdigit() else (1 << 16, slot)


def _layout(level: str, layout: str) -> str:
    """Returns md's layout number as mdadm's word: near + far << 8 + offset << 16 (drivers/md/raid10.c)."""
    if not layout.isdigit() or level in {"raid0", "raid1", "linear"}:
        return ""
    number = int(layout)
    if level == "raid10":
        near = number & 255
        far = number >> 8 & 255
        has_offset = number >> 16 & 1
        if far <= 1:
            return f"n{near}"
        return f"o{far}" if has_offset else f"f{far}"
    return layout_name("raid5", number) or layout


def _bitmap(level: str, kind: str) -> list[str]:
    """Returns --bitmap, without which mdadm 4.4 asks, or makes none; mdadm 4.2 refuses it for arrays that have none."""
    if level not in REDUNDANT:
        return []
    if kind in {"none", "lockless"}:
        return [f"--bitmap={kind}"]
    return ["--bitmap=internal"]


def _spec_built(stacks: Mapping[str, Any]) -> Iterator[str]:
    """Returns mdadm's commands for the stacks of an experiment (docs/reference/experiments.md)."""
    for name, stack in stacks.items():
        if not isinstance(stack, Mapping) or "level" not in stack:
            continue
        level = str(stack["level"]).lower().removeprefix("raid").lstrip("-")
        members = [str(member_name) for member_name in stack.get("members") or []]
        arguments = ["mdadm", "--create", f"/dev/md/{name}", f"--level={level}"]
        arguments.append(f"--raid-devices={len(members)}")
        if level == "10":
            arguments.append(f"--layout={stack.get('layout', 'n2')}")
        if level in {"0", "10", "4", "5", "6"}:
            arguments.append(f"--chunk={stack.get('chunk', '512K')}")
        arguments += _bitmap(level if level == "linear" else f"raid{level}", str(stack.get("bitmap") or "none"))
        mostly = {str(member_name) for member_name in stack.get("write_mostly") or []}
        arguments += [_path(member, stacks) for member in members if member not in mostly]
        write_mostly = [_path(member, stacks) for member in members if member in mostly]
        if write_mostly:
            arguments += ["--write-mostly", *write_mostly]  # mdadm applies it to the members after it
        yield shlex.join(arguments)


def _path(member: str, stacks: Mapping[str, Any]) -> str:
    if member == "missing":
        return member
    stack = stacks.get(member)
    table = stack if isinstance(stack, Mapping) else {}
    return f"/dev/md/{member}" if "level" in table else f"/dev/{table.get('device', member)}"


def _jobs(view: ExperimentView) -> Iterator[PlainText]:
    jobs_shown: dict[str, None] = {}
    directions: dict[str, None] = {}
    for members in group_cells(view.order(view.cells), view.labels, series=True).values():
        if job_text := _job(view, members[0]):
            jobs_shown[printable_lines(job_text.split("\n"))] = None
        fio = members[0].runs[0].figures.fio
        if fio is not None and fio.command:
            directions[shlex.join(fio.command)] = None
    if jobs_shown:
        yield PlainText(
            "fio jobs",
            "\n\n".join(jobs_shown),
            "fio job files, one for each cell; the seed is that of the first repeat.",
        )
    if directions:
        yield PlainText("fio commands", printable_lines(list(directions)), "The paths exist only during a run.")


def _job(view: ExperimentView, cell: ReportCell) -> str:
    run = cell.runs[0]
    lines = [f"# {view.name(cell, series=True)}"]
    for job in run.cell.get("jobs") or []:
        lines.append(f"[{job.get('name', 'job')}]")
        if "options" in job:
            lines += [f"{key}={value}" for key, value in job["options"].items()]
            if len(run.cell["jobs"]) == 1:
                lines += _measured_mix(job["options"], run.figures)
        elif "read_share" in job:
            lines += describe_job(job).split()
            engine = "io_uring" if job.get("io_uring") else "libaio"
            lines += [f"ioengine={engine}", "direct=1"]
    if run.cell.get("runtime_ns"):
        lines.append(f"runtime={run.cell['runtime_ns'] / 1e9:g}s")
    if command := run.cell.get("command"):
        lines.append(f"# {shlex.join(map(str, command.get('argv') or []))}")
    return "\n".join(lines) if len(lines) > 1 else ""


def _measured_mix(options: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """Returns the share of reads as it was measured, if fio's output does not have the one that was asked for."""
    way = str(options.get("rw", options.get("readwrite", ""))).partition(":")[0]
    ios = outcome.read.total_ios + outcome.write.total_ios
    if way not in MIXED or {"rwmixread", "rwmixwrite"} & options.keys() or not ios:
        return []
    return [f"rwmixread={100 * outcome.read.total_ios / ios:.0f}"]
