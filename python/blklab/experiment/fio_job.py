"""fio job files as workloads: fio(1), "Job file format".

Jobs have fio's own defaults. Options that blklab sets itself are named in a note; options that no
cell can have are errors.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from blklab.errors import UsageError
from blklab.experiment import schema
from blklab.experiment.workload import Job
from blklab.fio import known_options
from blklab.toml_files import problems
from blklab.toml_files.fields import show_value
from blklab.toml_files.files import read_text

Tables = dict[str, dict[str, Any]]  # Valid tables of jobs, by name, as in an experiment file
STONEWALL = frozenset({"stonewall", "wait_for_previous"})

DEFAULTS = {"ioengine": "psync", "direct": "0"}  # fio's defaults where those of experiment files differ
WITHOUT_EFFECT = frozenset({"name", "description"})


def read(path: Path) -> tuple[list[tuple[str, Tables]], list[str]]:
    """Returns the groups of jobs that run at the same time: (the first one's name, jobs by name),
    and notes about options that blklab sets itself.

    A group ends at a job with `stonewall`. Raises UsageError naming section and option.
    """
    groups: list[tuple[str, Tables]] = []
    sections = _sections(path)
    notes = _notes(path, [options for _, options in sections])
    for name, options in sections:
        wall = any(options.pop(word, "0") not in {"0", "false"} for word in STONEWALL)
        job = _job(path, name, options)
        if wall or not groups:
            groups.append((name, {}))
        _, jobs = groups[-1]
        jobs[make_unique(name, jobs)] = job
    if not groups:
        raise UsageError(f"{path}: found no job, only [global]")
    return groups, notes


def make_unique(name: str, used_names: Mapping[str, Any]) -> str:
    """Returns the name, with a number behind it if it is taken."""
    candidates = (f"{name}-{number}" for number in itertools.count(2))
    return next(label for label in itertools.chain([name], candidates) if label not in used_names)


def _notes(path: Path, jobs: Sequence[Mapping[str, str]]) -> list[str]:
    own_options = known_options.HARMLESS - known_options.OPTIONS - WITHOUT_EFFECT - {"thread"}
    options = dict.fromkeys(option for job in jobs for option in job)
    ignored_options = [option for option in options if option in own_options]
    notes = []
    if ignored_options:
        suffix = ""
        if "filename" in ignored_options or "directory" in ignored_options:
            suffix = " (jobs use the stack's device or file)"
        notes.append(f"{path}: blklab sets these options itself: {', '.join(ignored_options)}{suffix}")
    several = len(jobs) > 1 or any(job.get("numjobs", "1") != "1" for job in jobs)
    if several and any(job.get("thread", "0") in {"0", "false"} for job in jobs):
        notes.append(f"{path}: jobs run as threads, not as processes, so that they end with blklab")
    return notes


def _sections(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Returns every job with its options, including those of the global sections before it."""
    global_options: dict[str, str] = {}
    sections: list[tuple[str, dict[str, str]]] = []
    options: dict[str, str] | None = None
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.split(";")[0].split("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]") and line != "[]":
            name = line[1:-1]
            if name == "global":
                options = global_options
            else:
                sections.append((name, dict(global_options)))
                options = sections[-1][1]
            continue
        if line.split()[0] == "include":
            raise UsageError(f"{path}: line {number}: include is not supported: copy the content of that file here")
        if options is None or line.startswith("["):
            raise UsageError(
                f"{path}: line {number}: found {show_value(line)}, expected [JOB]: a fio job file begins with a section"
            )
        option, equals, value = (part.strip() for part in line.partition("="))
        if "$" in value and option not in known_options.HARMLESS:
            raise UsageError(f"{path}: line {number}: found {value!r}: variables are not supported, write the value")
        options[known_options.ALIASES.get(option, option)] = value if equals else "1"
    return sections


def _job(path: Path, name: str, options: dict[str, str]) -> dict[str, Any]:
    section = f"{path}: [{name}]"
    passed_on: dict[str, str] = {}
    table: dict[str, Any] = {}
    if "buffered" in options:
        options["direct"] = "0" if options.pop("buffered").lower() in {"1", "true"} else "1"
    if ":" in options.get("filename", "").replace("\\:", ""):
        raise UsageError(
            f"{section}: filename: found {options['filename']!r}, expected one file or device: "
            "write a job for each, or build a stack of several devices"
        )
    for option, value in {**DEFAULTS, **options}.items():
        if fixed_option := known_options.FIXED.get(option):
            if value.lower() not in fixed_option["values"]:
                raise UsageError(f"{section}: {option}: found {value!r}: {fixed_option['reason']}")
        elif option in Job.model_fields:
            table[option] = value
        elif option in known_options.OPTIONS | known_options.IGNORED:
            passed_on[option] = value
        elif option not in known_options.HARMLESS:
            hint = problems.near(option, Job.model_fields)
            raise UsageError(f"{section}: {option}: no such option; {hint}")
    if passed_on:
        table["options"] = passed_on
    try:
        Job.model_validate(table)
    except ValidationError as error:
        raise problems.usage_error(section, problems.translate_errors(error, schema.KNOWN_KEYS)) from error
    return table
