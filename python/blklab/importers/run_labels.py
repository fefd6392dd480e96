"""Labels of imported runs: what distinguishes them, and which of them are repeats of one cell.

Runs are repeats only if they measured the same device or file, as far as the results show. If this is unknown, or if
the names of the files differ in more than the number or the date of a run, they are kept apart by the label `source`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.importers.base import ImportedRun
from blklab.outcome import target_devices
from blklab.text.name_differences import differing
from blklab.text.printing import printable
from blklab.units import fio_size, parse_size

TOLD = ("rw", "bs", "iodepth", "numjobs", "rwmixread")  # Options that become labels

DISTINGUISHING = (  # Options that become labels only if they distinguish runs of one workload
    *("ioengine", "direct", "buffered", "sync", "fsync", "fdatasync", "size", "io_size", "offset"),
    *("bssplit", "bsrange", "rwmixwrite", "random_distribution", "rate", "rate_iops", "thinktime"),
)

_NUMBERED = re.compile(  # Parts of a name that number or date a run
    r"(?<![a-z])(?:run|rep|repeat|repetition|iter|iteration|try|pass|round|trial|attempt)"
    r"[-_. #]?\d{1,6}(?!\d)"
    r"|(?<!\d)20\d\d[-_.]?\d\d[-_.]?\d\d(?:[-_.T ]?\d\d[-_:.h]?\d\d(?:[-_:.m]?\d\d)?)?(?!\d)"
    r"|(?<!\d)\d{9,19}(?!\d)",
    re.I,
)

UNLIKE_IOPS = 5.0  # The ratio of IOPS from which on runs are no repeats
_LINE = re.compile(r":\d{1,9}$")
_FIELD = re.compile(r"\{([^{}]{0,60})\}")

Labels = dict[str, str]


@dataclass(frozen=True)
class RunNaming:
    name: str | None = None
    title: str = ""
    labels: Mapping[str, str] | None = None  # Labels of all runs; they override those of the source
    new_values: Mapping[tuple[str, str], str] | None = None
    """New values, by label and old value; `device` can be renamed too."""

    pattern: str | None = None  # How names are split into labels: `{stack}_{workload}`


# --- names split by a pattern --------------------------------------------------------------------


def name_pattern(pattern: str) -> "re.Pattern[str]":
    """Returns the expression of a pattern such as `{stack}_{workload}`. Raises UsageError."""
    parts = [f"(?P<{part}>.+?)" if index % 2 else re.escape(part) for index, part in enumerate(_FIELD.split(pattern))]
    try:
        expression = re.compile("".join(parts), re.S)
    except re.error:  # a label twice, or one that is no name
        expression = re.compile("")
    if not expression.groups:
        expected = "expected labels in braces, each once, such as '{stack}_{workload}'"
        raise UsageError(f"--pattern {pattern!r}: {expected}")
    return expression


def split_names(runs: Sequence[ImportedRun], pattern: str | None) -> tuple[list[ImportedRun], list[str], list[str]]:
    """Returns the runs with the labels in their names, a message for each that has none, and notes.

    The name is that of the job, otherwise that of the file, with or without its ending. A pattern with `/` is compared
    with as many directories above the file, too. A pattern without fixed text matches every name: it splits those of
    files.
    """
    if pattern is None:
        return list(runs), [], []
    expression = name_pattern(pattern)
    matching = []
    errors = []
    won: dict[str, list[str]] = {}
    for run in runs:
        path = PurePath(_LINE.sub("", run.location))
        of_job = expression.fullmatch(run.workload)
        directories = path.parts[-1 - pattern.count("/") : -1]
        of_file = expression.fullmatch("/".join([*directories, path.stem])) or expression.fullmatch(
            "/".join([*directories, path.name])
        )
        match = of_job if of_job and (_FIELD.sub("", pattern) or not of_file) else of_file
        if match is None:
            file_name = "/".join([*directories, path.stem])
            errors.append(
                f"{run.location}: neither the file name {file_name!r} nor the job name {run.workload!r} matches "
                f"--pattern {pattern!r}"
            )
            continue
        if of_job and of_file:
            won.setdefault("job" if match is of_job else "file", []).append(run.location)
        split = {key: printable(value) for key, value in match.groupdict().items()}
        workload = split.pop("workload", run.workload)
        matching.append(replace(run, workload=workload, labels={**run.labels, **split}))
    notes = [
        f"--pattern {pattern!r} matches the names of file and job: labels are from the name of the {which} "
        f"({and_more(locations)}); for those of files, add the ending to the pattern"
        for which, locations in won.items()
    ]
    return matching, errors, notes


def and_more(names: Sequence[str]) -> str:
    """Returns the first name, and how many more there are."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


# --- labels --------------------------------------------------------------------------------------


def make_labels(runs: Sequence[ImportedRun], naming: RunNaming) -> tuple[list[Labels], list[str]]:
    """Returns the labels of each run, and notes.

    An option becomes a label if it is the same in all runs, or if it distinguishes runs of one workload. An option that
    follows the workload's name is left out: an experiment has no such label, so the runs would not match.
    """
    new_values = naming.new_values or {}
    extra = dict(naming.labels or {})
    keys = (*TOLD, *DISTINGUISHING)
    facts = []
    for run in runs:
        facts.append({key: _short(run.options[key]) for key in keys if key in run.options})
    label_keys = [key for key in keys if _tells(key, runs, facts)]
    labels_of_runs: list[Labels] = []
    for run, options in zip(runs, facts, strict=True):
        labels = {**run.labels, "workload": run.workload}
        labels |= {key: options[key] for key in label_keys if key in options}
        labels.pop("repeat", None)
        labels_of_runs.append(labels)
    places = [_places(run) for run in runs]
    files = list(dict.fromkeys(place["file"] for place in places if "file" in place))
    short = dict(zip(files, differing(files), strict=True))
    for key in ("host", "device", "file"):
        if any(_differ(key, places, positions) for positions in _group_equal_labels(labels_of_runs)):
            for labels, place in zip(labels_of_runs, places, strict=True):
                if key in place:
                    labels.setdefault(key, short.get(place[key], place[key]))
    has_repeat_field = naming.pattern is not None and "{repeat}" in naming.pattern
    notes = [] if has_repeat_field else _keep_apart(runs, labels_of_runs, places)
    renamed_labels = []
    for labels in labels_of_runs:
        new_labels = {key: new_values.get((key, value), value) for key, value in labels.items()}
        renamed_labels.append(new_labels | extra)
    for positions in _group_equal_labels(renamed_labels):
        for number, position in enumerate(positions, 1):
            renamed_labels[position]["repeat"] = str(number)
    return renamed_labels, notes


def _group_equal_labels(labels_of_runs: Sequence[Labels]) -> list[list[int]]:
    """Returns the positions of runs with equal labels, in groups."""
    positions = []
    for position, labels in enumerate(labels_of_runs):
        key = tuple(sorted(pair for pair in labels.items() if pair[0] != "repeat"))
        positions.append((key, position))
    return list(by_key(positions).values())


def _differ(key: str, places: Sequence[Mapping[str, str]], positions: Sequence[int]) -> bool:
    """Returns whether the runs at some positions have different values of a key."""
    values = {places[position].get(key) for position in positions}
    return len(values) > 1


def _tells(key: str, runs: Sequence[ImportedRun], facts: Sequence[Mapping[str, str]]) -> bool:
    if len({options.get(key) for options in facts}) == 1:
        return key in TOLD and key in facts[0]
    by_workload: dict[tuple[str, ...], set[str | None]] = {}
    for run, options in zip(runs, facts, strict=True):
        context = (run.workload, *run.labels.values())
        if key not in TOLD:
            context += tuple(_places(run).values())
        by_workload.setdefault(context, set()).add(options.get(key))
    return any(len(values) > 1 for values in by_workload.values())


def _places(run: ImportedRun) -> Labels:
    """Returns what is known about where a run measured: host, device, file."""
    options = run.options
    place = {
        "host": options.get("hostname"),
        "device": target_devices(run.outcome),
        "file": options.get("filename") or options.get("directory"),
        **{key: run.labels[key] for key in ("host", "device", "file") if key in run.labels},
    }
    return {key: printable(value)[:200] for key, value in place.items() if value}


def _differ_too_much(runs: Sequence[ImportedRun]) -> bool:
    """Returns whether the IOPS of runs differ by more than repeats of one measurement do."""
    iops = [run.outcome.read.iops + run.outcome.write.iops for run in runs]
    return min(iops) > 0 and max(iops) > UNLIKE_IOPS * min(iops)


def _keep_apart(runs: Sequence[ImportedRun], labels_of_runs: Sequence[Labels], places: Sequence[Labels]) -> list[str]:
    """Adds the label `source` to runs that may not be repeats; returns notes about it."""
    separate_runs = 0
    runs_without_target = 0
    sources: dict[str, None] = {}
    series: list[str] = []
    unlike_runs: list[str] = []
    for group in _group_equal_labels(labels_of_runs):
        group_runs = [runs[position] for position in group]
        if _differ_too_much(group_runs) and len({run.location for run in group_runs}) == len(group):
            unlike_runs += [run.location for run in group_runs]
            for name, position in zip(differing([run.location for run in group_runs]), group, strict=True):
                labels_of_runs[position]["source"] = name
            continue
        series_by_file = _find_numbered_series(group_runs)
        origins: dict[str, list[int]] = {}
        for position in group:
            has_target = "device" in places[position] or "file" in places[position]
            name = _NUMBERED.sub("#", _LINE.sub("", runs[position].location))
            origin = name if has_target else runs[position].location
            origins.setdefault(series_by_file.get(runs[position].location, origin), []).append(position)
        series += dict.fromkeys(series_by_file.values())
        if len(origins) < 2:
            continue
        is_by_directory = len({PurePath(origin).parent for origin in origins}) == len(origins)
        for name, positions in zip(differing(list(origins)), origins.values(), strict=True):
            for position in positions:
                labels_of_runs[position]["source"] = name
                if not is_by_directory:  # Directories are what users compare
                    separate_runs += 1
                    sources[name] = None
                    runs_without_target += not ("device" in places[position] or "file" in places[position])
    notes = []
    if series:
        notes.append(
            f"{and_more(series)}: numbered files with equal options are repeats of one cell; "
            "if they are not, use --pattern '{source}'"
        )
    if unlike_runs:
        notes.append(
            f"{and_more(unlike_runs)}: runs with equal options whose IOPS differ by more than {UNLIKE_IOPS:g} times "
            "are kept apart by the label source: something else differs between them; "
            "if they are repeats, use --pattern with {repeat}, such as --pattern 'NAME-{repeat}'"
        )
    if separate_runs:
        reason = "the names of their files differ"
        if runs_without_target:
            reason = "the results do not show that they measured the same device"
        notes.append(
            f"{separate_runs} runs of equal workloads are kept apart by the label source "
            f"({_list_first(list(sources))}), because {reason}: "
            "if they are repeats, use --pattern with {repeat}, such as --pattern 'NAME-{repeat}'"
        )
    return notes


MOST_NAMED = 3  # Sources that a note names


def _list_first(names: Sequence[str]) -> str:
    """Returns the first names, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


_COUNTED = re.compile(r"(?P<name>.*[a-z0-9])[-_. ](?P<number>\d{1,4})(?P<ending>\.[a-z]\w*)*", re.I | re.S)
_THINGS = re.compile(  # Words whose number names a thing, or is an option
    r"(?:disk|drive|dev|device|host|node|server|vm|raid|md|nvme|ssd|hdd|client|bs|qd|iodepth|depth|jobs?|numjobs|"
    r"threads?|level|port|slot|lun|osd)$",
    re.I,
)


def _find_numbered_series(runs: Sequence[ImportedRun]) -> dict[str, str]:
    """Returns the series of files such as `a-1.json` to `a-3.json`, by file: `a-#.json (1 to 3)`.

    Their jobs have the same options, and they are numbered from 0 or 1 without gaps.
    """
    numbered_files = []
    for run in runs:
        match = _COUNTED.fullmatch(run.location)
        if run.options and match and not _THINGS.search(match["name"]):
            options = tuple(sorted(run.options.items()))
            numbered_files.append(((match["name"], match["ending"], options), (int(match["number"]), run.location)))
    series: dict[str, str] = {}
    for (name, ending, _), files in by_key(numbered_files).items():
        numbers = [number for number, _ in files]
        first, last = min(numbers), max(numbers)
        if first < 2 and len(numbers) > 1 and sorted(numbers) == [*range(first, last + 1)]:
            series |= dict.fromkeys((location for _, location in files), f"{name}-#{ending or ''} ({first} to {last})")
    return series


def _short(value: str) -> str:
    """Returns an option's value as people write it: `4k` for 4096."""
    sizes = []
    for part in str(value).split(","):
        try:
            size = parse_size(part)
        except ValueError:
            return str(value)
        sizes.append(fio_size(size, "mk"))
    return ",".join(sizes)
