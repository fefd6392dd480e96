"""The cells of an experiment in the terms of their runner, and their results: as tables and as explanations.

Those of a fleet have a table of hosts, with those that differ from the others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import fmean, median

from blklab.campaigns import runs
from blklab.campaigns.runs import figure_headings, outcome_figures, split_directions
from blklab.compare.host_outliers import FEWEST, HostOutlier, outliers, values
from blklab.compare.metrics import METRICS, WAYS, lowest_devices
from blklab.compare.sanity_checks import unfair_shares
from blklab.devices.stock_models import library_model
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.grouping import by_key
from blklab.outcome import NOT_KNOWN, LoadRamp, Outcome, PredictionInterval
from blklab.render import formatting, terminal
from blklab.render.console import Console, style_text
from blklab.render.table import TableColumn, TextTable, number_columns, text_column
from blklab.runners.base import RunResult
from blklab.runners.registry import RUNNERS, CellDescriptions, did
from blklab.text.printing import printable

NAMED = ("stack", "workload")  # Columns before those of the runner
FIGURES_OF_CELLS = ("capacity",)  # Columns of numbers
REPEAT = "repeat"  # The label that repeats of a cell differ in


def print_cells(console: Console, plan: ExperimentPlan) -> None:
    terminal.draw_table(console, cells_table(plan))
    for line in RUNNERS[plan.runner].descriptions().notes(plan):
        console.print(f"· {printable(line)}")


def cells_table(plan: ExperimentPlan) -> TextTable:
    """Returns a row for each cell; repeats of a cell share one."""
    descriptions = RUNNERS[plan.runner].descriptions()
    varied_labels = [label for label in plan.varied if label not in {*descriptions.COLUMNS, REPEAT}]
    columns = [TableColumn("#"), *(TableColumn(name, name in FIGURES_OF_CELLS) for name in descriptions.COLUMNS)]
    if varied_labels:
        columns.append(text_column("varied"))
    by_labels: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in plan.cells:
        labels = tuple((name, str(value)) for name, value in cell.labels.items() if name != REPEAT)
        by_labels.setdefault(labels, []).append(cell)
    has_repeats = len(by_labels) < len(plan.cells)
    if has_repeats:
        columns.append(TableColumn("repeats", numeric=True))
    rows = []
    for cells in by_labels.values():
        row = _cell_row(cells[0], descriptions, varied_labels)
        row[0] = formatting.spans_text([cell.number for cell in cells])
        if has_repeats:
            row.append(str(len(cells)))
        rows.append(row)
    title = f"{printable(plan.title) or 'Experiment'}: {formatting.plural(len(plan.cells), 'cell')}"
    return TextTable(title, columns, rows)


def _cell_row(cell: Cell, descriptions: CellDescriptions, varied_labels: Sequence[str]) -> list[str]:
    row = [str(cell.number)]
    for name, describe in descriptions.COLUMNS.items():
        row.append(f"{cell.labels[name]}: {describe(cell)}" if name in NAMED else describe(cell))
    if varied_labels:
        row.append(" ".join(f"{label}={cell.labels[label]}" for label in varied_labels))
    return [printable(text) for text in row]


SPARE = ("in queues", "share", *runs.MEANS)  # Columns that a narrow terminal hides, the first one first


def print_results(
    console: Console, plan: ExperimentPlan, results: Sequence[RunResult], metrics: Sequence[str] = ()
) -> None:
    """Prints the table of results, with columns of these metrics, and what is remarkable."""
    terminal.draw_table(console, results_table(plan, results, metrics))
    for cell, result in _pairs(plan, results):
        if (ramp := result.outcome.load_ramp) is not None:
            is_known = result.outcome.is_known
            terminal.draw_table(console, ramp_table(f"{printable(cell.name)}: load", ramp, is_known=is_known))
    lines = []
    for group in group_repeats(results):
        labels = " ".join(f"{key}={value}" for key, value in group[0].labels.items() if key != "repeat")
        outcomes = [result.outcome for result in group]
        terminal.draw_table(console, hosts_table(labels, outcomes))
        lines += outlier_lines(outcomes)
    rows = [(formatting.cells([result.number]), result.outcome) for result in results]
    terminal.draw_table(console, runs.caches(rows))
    unfair = []
    for cell, result in _pairs(plan, results):
        for sentence, _ in unfair_shares(result.outcome, cell.document.get("jobs") or []):
            unfair.append(printable(f"{formatting.cells([result.number])}: {sentence}; see --per-job"))
    for line in [*lines, *warnings(results), *unfair, *runs.arrays(rows)]:
        console.print(f"note: {line}")


def warnings(results: Sequence[RunResult]) -> list[str]:
    """Returns the warnings of runs, with their cells; those that differ in their numbers only are one line."""
    pairs = []
    for result in results:
        for warning in result.outcome.warnings:
            pairs.append((re.sub(r"\d+(?:[.,]\d+)*", "0", warning), (warning, result.number)))
    lines = []
    for similar_warnings in by_key(pairs).values():
        first_warning = similar_warnings[0][0]
        cells = list(dict.fromkeys(number for _, number in similar_warnings))
        if len({warning for warning, _ in similar_warnings}) > 1:
            lines.append(printable(f"{formatting.cells(cells)}, like this: {first_warning}"))
        elif len(cells) == len(results):
            lines.append(printable(first_warning))
        else:
            lines.append(printable(f"{formatting.cells(cells)}: {first_warning}"))
    return lines


def results_table(plan: ExperimentPlan, results: Sequence[RunResult], metrics: Sequence[str] = ()) -> TextTable:
    """Returns the table of results: IOPS, latencies, metrics that were asked for, each disk's share of the I/Os."""
    varied_labels = [label for label in plan.varied if label not in {"stack", "workload"}]
    has_interval = any(result.outcome.interval is not None for result in results)
    latency_directions = split_directions(result.outcome for result in results)
    headings = figure_headings(latency_directions)
    columns = [
        TableColumn("#"),
        *map(text_column, ("stack", "workload", *varied_labels)),
        *number_columns(*headings[:2]),
    ]
    if has_interval:
        columns.append(text_column("±IOPS"))
    columns += number_columns(*headings[2:])
    has_commands = any(result.outcome.command for result in results)
    if has_commands:
        columns += number_columns("time")
    has_figures = any(METRICS["figure"].compute(result.outcome) is not None for result in results)
    if has_figures and "figure" not in metrics:
        metrics = ["figure", *metrics]
    columns += number_columns(*metrics)
    columns += [text_column("share"), TableColumn("in queues")]
    rows = []
    for cell, result in _pairs(plan, results):
        row = _row(cell, result, varied_labels, latency_directions)
        if has_commands:
            row.insert(-2, formatting.duration(METRICS["wall"].compute(result.outcome)))
        for name in metrics:
            row.insert(-2, _metric_text(name, result.outcome))
        rows.append(row)
    note = "mean and p99: completion latencies"
    if has_commands:
        note += ". time: that of the command"
    note += ". share: each disk's share of the I/Os. in queues: mean number of requests in each disk and its queue."
    if has_interval:
        note += " ±IOPS: the interval in which nine of ten measurements are expected."
    if not all(result.outcome.is_known for result in results):
        note += f" {formatting.UNKNOWN}: its upper bound is more than {NOT_KNOWN:.0f} times the lower one;"
        note += " measure the disks with `blklab calibrate`."
    title = f"{printable(plan.title) or 'Experiment'}: {did(plan.runner)}"
    spare = (*SPARE, *(heading for heading in runs.P99S if heading not in metrics)) if metrics else SPARE
    return TextTable(title, columns, rows, note, spare=spare, explanations={"mean": "mean and "})


def _metric_text(name: str, outcome: Outcome) -> str:
    """Returns a metric of a result with its unit; latencies of all directions if the name has none."""
    names = [name] if name in METRICS else [f"{direction}.{name}" for direction in WAYS]
    values_of_directions = [(METRICS[full_name], METRICS[full_name].compute(outcome)) for full_name in names]
    texts = []
    for metric, value in values_of_directions:
        if value is None:
            continue
        texts.append(formatting.share(value) if metric.kind == "share" else metric.with_unit(value))
    if texts and not outcome.is_known:
        return formatting.UNKNOWN
    return " / ".join(texts) or formatting.NONE


def _pairs(plan: ExperimentPlan, results: Sequence[RunResult]) -> list[tuple[Cell, RunResult]]:
    """Returns each result with its cell; failed cells have none."""
    cells = {cell.number: cell for cell in plan.cells}
    return [(cells[result.number], result) for result in results]


def _row(cell: Cell, result: RunResult, varied_labels: Sequence[str], latency_directions: Sequence[str]) -> list[str]:
    outcome = result.outcome
    disks = lowest_devices(outcome)
    total = max(1, sum(sum(disk.ios) for disk in disks))
    shares = [f"{printable(disk.name)} {formatting.share(sum(disk.ios) / total)}" for disk in disks]
    depths = [f"{sum(disk.ticks_ns) / outcome.observed_ns:.0f}" for disk in disks]
    if len(disks) > 4:
        shares = [f"{len(disks)} disks"]
        depths = [depths[0], "…", depths[-1]]
    read_iops, write_iops, *latencies = outcome_figures(outcome, latency_directions)
    row = [
        str(cell.number),
        printable(cell.labels["stack"]),
        printable(cell.labels["workload"]),
        *(printable(cell.labels[label]) for label in varied_labels),
        read_iops,
        write_iops,
    ]
    if outcome.interval is not None:
        row.append(_interval(outcome.interval, outcome.read.iops + outcome.write.iops))
    row += [*latencies, " ".join(shares), " ".join(depths)]
    return row


def _interval(interval: PredictionInterval, iops: float) -> str:
    if interval.states:
        return " or ".join(map(formatting.number, interval.states))
    if not interval.is_known:
        low, high = (formatting.number(iops * limit) for limit in interval.iops)
        return f"{low} to {high}"
    return formatting.interval(interval.iops)


def explanations(
    console: Console, plan: ExperimentPlan, results: Sequence[RunResult], sentence_lists: Sequence[Sequence[str]]
) -> None:
    """Prints the explanation of each cell, and where the figures of the devices come from."""
    from rich.rule import Rule

    describe_stack = RUNNERS[plan.runner].descriptions().COLUMNS["stack"]
    for (cell, result), sentences in zip(_pairs(plan, results), sentence_lists, strict=True):
        label = " ".join(f"{key}={value}" for key, value in cell.labels.items())
        console.print()
        console.print(Rule(style_text(printable(label), "bold"), align="left", style="cyan"))
        console.print(style_text(f"{printable(describe_stack(cell))} · {_figures(result)}", "dim"))
        for sentence in sentences:
            console.print(style_text(f"· {printable(sentence)}"))
    console.print()
    for line in _sources(plan):
        console.print(style_text(printable(line), "dim"))


def _sources(plan: ExperimentPlan) -> Iterator[str]:
    """Yields where the figures of each device come from."""
    for name, table in plan.raw.get("devices", {}).items():
        model = library_model(table["model"]) if "model" in table else None
        if model:
            yield f"{name}: {model.name}, {model.certainty or 'yours'}: {model.source}"
            continue
        source = table.get("calibrated") or table.get("source") or "parameters of the experiment"
        yield f"{name}: {source}"


def _figures(result: RunResult) -> str:
    outcome = result.outcome
    figures = []
    for direction in ("read", "write"):
        if not outcome.direction(direction).total_ios:
            continue
        iops = f"{outcome.direction(direction).iops:,.0f}"
        if not outcome.is_known:
            iops = formatting.UNKNOWN
        figures.append(f"{direction} {iops} IOPS")
    return ", ".join(figures)


FIGURES = ("p50", "p99")


def ramp_table(title: str, ramp: LoadRamp, *, is_known: bool) -> TextTable:
    """Returns the table of a ramp, with the rate that was searched below it.

    Rates that are offered are shares of the highest one: if it is not known, they are not either.
    """
    keys = []
    for kind in ("read", "write"):
        if any(kind in step.latency_ns for step in ramp.steps):
            keys += [(kind, figure) for figure in FIGURES]
    columns = number_columns("offered IOPS", "IOPS", *(f"{kind} {figure}" for kind, figure in keys))
    rows = []
    for step in ramp.steps:
        row = ["no limit" if step.offered_iops is None else f"{step.offered_iops:,.0f}", f"{step.iops:,.0f}"]
        for kind, figure in keys:
            row.append(formatting.duration(step.latency_ns.get(kind, {}).get(figure)))
        if not is_known:
            row = [text if text == "no limit" else formatting.UNKNOWN for text in row]
        rows.append(row)
    return TextTable(title, columns, rows, best_rate(ramp, is_known=is_known))


def best_rate(ramp: LoadRamp, *, is_known: bool) -> str:
    """Returns a sentence about the highest rate below the limit; empty without a limit."""
    limit = ramp.p99_limit_ns
    best = ramp.best_iops
    if limit is None:
        return ""
    under = f"99th percentile below {formatting.duration(limit)}"
    if not is_known:
        return f"The highest rate with a {under} is not known."
    if best is None:
        return f"No measured rate has a {under}."
    return f"The highest measured rate with a {under}: {best:,.0f} IOPS."


LATENCIES = ("read.p50", "read.p99", "write.p50", "write.p99")


def group_repeats(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Returns the results of fleets, the repeats of a cell together."""
    repeats: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    for result in results:
        if result.outcome.hosts:
            labels = tuple(pair for pair in result.labels.items() if pair[0] != "repeat")
            repeats.setdefault(labels, []).append(result)
    return list(repeats.values())


def as_dicts(results: Sequence[RunResult]) -> list[dict[str, object]]:
    """Returns results for `--json`; those of fleets with the outliers among their hosts."""
    outliers_by_number = {}
    for group in group_repeats(results):
        outlier_dicts = [asdict(outlier) for outlier in outliers([result.outcome for result in group])]
        for result in group:
            outliers_by_number[result.number] = outlier_dicts
    dicts = []
    for result in results:
        document = dict(result.as_dict())
        if result.number in outliers_by_number:
            document["outliers"] = outliers_by_number[result.number]
        dicts.append(document)
    return dicts


def hosts_table(cell: str, outcomes: Sequence[Outcome]) -> TextTable:
    """Returns the table of the hosts of a cell: means of its repeats."""
    names = list(dict.fromkeys(host.name for outcome in outcomes for host in outcome.hosts))
    different = outliers(outcomes)
    metrics = [name for name in LATENCIES if any(values(outcome, name) for outcome in outcomes)]
    means = {name: _means(outcomes, name) for name in ("iops", *metrics)}
    middle = median(means["iops"].values()) if means["iops"] else None
    rows = []
    for name in names:
        iops = means["iops"].get(name)
        row = [
            printable(name),
            formatting.NONE if iops is None else f"{iops:,.0f}",
            formatting.NONE if iops is None or not middle else f"{100 * iops / middle:.0f} %",
        ]
        row += [formatting.duration(means[metric].get(name)) for metric in metrics]
        row.append(_clock(outcomes, name))
        rows.append(row)
    columns = [
        text_column("host"),
        *number_columns("IOPS", "of median", *(metric.replace(".", " ") for metric in metrics), "clock"),
    ]
    strong = frozenset(names.index(outlier.host) for outlier in different)
    return TextTable(
        f"{printable(cell)}: hosts",
        columns,
        rows,
        "of median: share of the median host's IOPS. clock: how far its clock is ahead of this one's.",
        strong=strong,
    )


def outlier_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns a sentence about each outlier, or that there are none if there are enough hosts to tell."""
    different = outliers(outcomes)
    if different:
        return [_sentence(outlier) for outlier in different]
    count = min(len(values(outcome, "iops")) for outcome in outcomes)
    return ["no host differs from the others more than they do from each other"] if count >= FEWEST else []


def _sentence(outlier: HostOutlier) -> str:
    interval = "set repeats = 3 or more for an interval"
    if outlier.low is not None and outlier.high is not None:
        interval = f"{formatting.number(1 + outlier.low)} to {formatting.number(1 + outlier.high)}"
    how = "slower" if outlier.worse else "faster"
    return (
        f"{printable(outlier.host)} is {how} than the other hosts: "
        f"{METRICS[outlier.metric].description}: {formatting.number(1 + outlier.change)} times the median ({interval})"
    )


def _means(outcomes: Sequence[Outcome], metric: str) -> dict[str, float]:
    samples = by_key(pair for outcome in outcomes for pair in values(outcome, metric).items())
    return {name: fmean(of_host) for name, of_host in samples.items()}


def _clock(outcomes: Sequence[Outcome], name: str) -> str:
    hosts = [host for outcome in outcomes for host in outcome.hosts if host.name == name]
    clock = next((host.clock for host in hosts if host.clock), None)
    if clock is None:
        return formatting.NONE
    sign = "-" if clock.offset_ns < 0 else "+"
    return f"{sign}{formatting.duration(abs(clock.offset_ns))} ± {formatting.duration(clock.error_ns)}"
