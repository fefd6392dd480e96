"""Stored campaigns and runs: tables, rows of figures as CSV and JSON, and the knees of saturation sweeps.

Volumes in the lab have tables with hits, promotions, degraded members and bad blocks.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from blklab import units
from blklab.compare.metrics import METRICS, WAYS, all_metrics, device_shares, directions, with_direction
from blklab.compare.sanity_checks import check_run, unfair_shares
from blklab.compare.saturation import SaturationCurve, curves
from blklab.experiment.cells import ExperimentPlan
from blklab.grouping import by_key
from blklab.outcome import LEAST_SHOWN, Outcome, count_lookups
from blklab.render import formatting, terminal
from blklab.render.console import Console
from blklab.render.table import TableColumn, TextTable, drop_empty_columns, number_columns, text_column
from blklab.store.query import CampaignRow, StoredRun
from blklab.text.printing import printable


def print_campaigns(
    console: Console, rows: Sequence[CampaignRow], store_name: str, tags: Mapping[int, Sequence[str]]
) -> None:
    """Prints the campaigns of the store `store_name`."""
    if not rows:
        console.print(f"no campaigns in {printable(store_name)}: create one with `blklab run EXPERIMENT`")
        return
    terminal.draw_table(console, campaigns(rows, tags))


def campaigns(rows: Sequence[CampaignRow], tags: Mapping[int, Sequence[str]]) -> TextTable:
    columns = [
        TableColumn("#"),
        text_column("experiment"),
        text_column("on"),
        TableColumn("runs"),
        text_column("state"),
    ]
    columns.append(text_column("begun"))
    if tags:
        columns.append(text_column("tags"))
    columns.append(text_column("title"))
    body = []
    for row in rows:
        cells = [
            str(row.number),
            *map(printable, (row.name, row.place)),
            str(sum(row.states.values())),
            _states(row),
            when(row.begun),
        ]
        if tags:
            cells.append(printable(", ".join(tags.get(row.number, ()))))
        cells.append(printable(row.title))
        body.append(cells)
    return TextTable(formatting.plural(len(rows), "campaign"), columns, body, spare=("title",))


def _states(row: CampaignRow) -> str:
    counts = {state: count for state, count in row.states.items() if count}
    if not counts:
        return "empty"
    if set(counts) == {"done"}:
        return "done"
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def print_runs(console: Console, campaign: CampaignRow, stored_runs: Sequence[StoredRun]) -> None:
    terminal.draw_table(console, runs(campaign, stored_runs))
    rows = [(f"run {run.id}", run.figures) for run in stored_runs]
    terminal.draw_table(console, caches(rows))
    failures = [f"run {run.id} failed: {printable(run.message)}" for run in stored_runs if run.message]
    states = [f"* {line}" for line in arrays(rows)]
    doubt_lines = [f"* {line}" for line in doubts(stored_runs)]
    load_points = [(run.labels, run.cell, run.outcome) for run in stored_runs if run.outcome]
    knees = [f"· {saturation_sentence(curve)}" for curve in curves(load_points)]
    for line in (*states, *failures, *origins(stored_runs), *doubt_lines, *knees):
        console.print(line)


MOST_ORIGINS = 6  # Files of imported runs that have a line each


def origins(stored_runs: Sequence[StoredRun]) -> list[str]:
    """Returns where imported runs come from, and when they were measured: a line for each file, or one for many."""
    runs_by_file: dict[tuple[str, str], list[int]] = {}
    for run in stored_runs:
        if origin := run.origin():
            file = re.sub(r":\d+$", "", origin["source"])
            runs_by_file.setdefault((file, origin.get("measured", "")), []).append(run.id)
    if len(runs_by_file) > MOST_ORIGINS:
        return [_summarise_origins(list(runs_by_file))]
    lines = []
    for (file, stamp), run_numbers in runs_by_file.items():
        numbers = ", ".join(map(str, run_numbers))
        if len(run_numbers) > 3:
            numbers = f"{run_numbers[0]} to {run_numbers[-1]}"
        noun = "runs" if len(run_numbers) > 1 else "run"
        time = f", measured {when(stamp)}" if stamp else ""
        lines.append(f"{noun} {numbers}: from {printable(file)}{time}")
    return lines


def _summarise_origins(files: Sequence[tuple[str, str]]) -> str:
    """Returns the number of files, the first and the last one, and when they were measured."""
    line = f"{len(files)} files, {printable(files[0][0])} to {printable(files[-1][0])}"
    stamps = sorted(stamp for _, stamp in files if stamp)
    if stamps:
        line += f", measured {when(stamps[0])} to {when(stamps[-1])}"
    return line


def doubts(stored_runs: Sequence[StoredRun]) -> list[str]:
    """Returns the doubts about runs, each once, with its runs."""
    runs_by_doubt = by_key((doubt, str(run.id)) for run in stored_runs for doubt in _doubts(run))
    lines = []
    for doubt, run_numbers in runs_by_doubt.items():
        noun = "runs" if len(run_numbers) > 1 else "run"
        lines.append(printable(f"{noun} {', '.join(run_numbers)}: {doubt}"))
    return lines


def _doubts(run: StoredRun) -> list[str]:
    outcome = run.figures
    reasons = []
    if outcome.forced:
        options = " ".join(f"--force {name}" for name in outcome.forced)
        reasons.append(f"measured with {options}")
    reasons += outcome.warnings
    reasons += [sentence for sentence, _ in unfair_shares(outcome, run.cell.get("jobs") or [])]
    reasons += [doubt.message for doubt in check_run(run) if doubt.code == "unequal-twins"]
    return reasons


def jobs_table(heading: str, rows: Sequence[tuple[int, Outcome]]) -> TextTable:
    """Returns a row for each job of each run; `heading` is that of the numbers of runs."""
    latency_directions = split_directions(
        Outcome(read=group.read, write=group.write) for _, outcome in rows for group in outcome.groups
    )
    headings = figure_headings(latency_directions)
    names = (*headings, "share", "each clone", "p99 of each clone")
    columns = [TableColumn(heading), text_column("job"), *number_columns(*names)]
    jobs = []
    for number, outcome in rows:
        total = sum(group.iops for group in outcome.groups) or 1
        for group in outcome.groups:
            clones = " ".join(f"{rate:,.0f}" for rate in group.clones)
            if clones and not outcome.is_known:
                clones = formatting.UNKNOWN
            cells = [
                str(number),
                printable(group.name),
                *outcome_figures(
                    Outcome(read=group.read, write=group.write, interval=outcome.interval), latency_directions
                ),
                formatting.share(group.iops / total),
                clones,
                " ".join(map(formatting.duration, group.clone_p99_ns)),
            ]
            jobs.append(cells)
    return drop_empty_columns(
        TextTable(
            "Jobs",
            columns,
            jobs,
            "share: of the IOPS of all jobs of the run. each clone: IOPS of the processes of a job.",
            spare=(*MEANS, "p99 of each clone", "each clone"),
        )
    )


def runs(campaign: CampaignRow, stored_runs: Sequence[StoredRun]) -> TextTable:
    title = printable(campaign.title) or printable(campaign.name)
    note = f"{printable(campaign.path)}, begun {when(campaign.begun)}, blklab {campaign.version}"
    if any(run.origin() for run in stored_runs):
        note = f"Imported by blklab {campaign.version}."
    title = f"Campaign {campaign.number}: {title}, on {printable(campaign.place)}"
    rows = []
    for run in stored_runs:
        state = f"{run.state} *" if _doubts(run) else run.state
        rows.append(([str(run.id), state], run.labels, run.outcome))
    return _table(title, [TableColumn("run"), text_column("state")], rows, note)


def print_measured(
    console: Console, plan: ExperimentPlan, stored_runs: Sequence[tuple[Mapping[str, str], Outcome]]
) -> None:
    title = f"{printable(plan.title) or printable(plan.name)}, on {plan.runner}"
    rows = [([str(number)], labels, outcome) for number, (labels, outcome) in enumerate(stored_runs, 1)]
    terminal.draw_table(console, _table(title, [TableColumn("#")], rows, "Not kept."))


def _table(
    title: str,
    columns: list[TableColumn],
    rows: Sequence[tuple[list[str], Mapping[str, str], Outcome | None]],
    note: str,
) -> TextTable:
    """Returns one row for each run: leading columns, varied labels, figures."""
    labels_of_runs = [labels for _, labels, _ in rows]
    all_labels = list(dict.fromkeys(label for labels in labels_of_runs for label in labels))
    varied_labels = [label for label in all_labels if len({labels.get(label) for labels in labels_of_runs}) > 1]
    values_of_runs = [[labels.get(label, formatting.NONE) for label in varied_labels] for labels in labels_of_runs]
    order = units.row_order(varied_labels, values_of_runs)
    latency_directions = split_directions(outcome for _, _, outcome in rows)
    columns = [*columns, *map(text_column, varied_labels), *number_columns(*figure_headings(latency_directions))]
    sorted_rows = sorted(zip(values_of_runs, rows, strict=True), key=lambda row: order(row[0]))
    cells = []
    for values, (leading, _, outcome) in sorted_rows:
        cells.append([*leading, *map(printable, values), *outcome_figures(outcome, latency_directions)])
    return TextTable(title, columns, cells, note, spare=(*MEANS, "state"))


def split_directions(outcomes: Iterable[Outcome | None]) -> list[str]:
    """Returns the directions that have columns of latencies of their own in a table of these outcomes.

    They are none if each outcome has one direction and no fsyncs: then `mean` and `p99` have one meaning in each row.
    """
    present_outcomes = [outcome for outcome in outcomes if outcome is not None]
    has_syncs = any(METRICS["sync.mean"].compute(outcome) for outcome in present_outcomes)
    if not has_syncs and all(len(directions([outcome])) < 2 for outcome in present_outcomes):
        return []
    columns = [direction for direction in WAYS if direction in directions(present_outcomes)]
    if has_syncs:
        columns.append("sync")
    return columns


DIRECTION_WORDS = {"read": "read", "write": "write", "sync": "fsync"}  # What headings call them


def figure_headings(latency_directions: Sequence[str]) -> list[str]:
    """Returns the headings of `outcome_figures`."""
    headings = ["read IOPS", "write IOPS"]
    if not latency_directions:
        return [*headings, "mean", "p99"]
    for direction in latency_directions:
        headings += [f"{DIRECTION_WORDS[direction]} mean", f"{DIRECTION_WORDS[direction]} p99"]
    return headings


MEANS = ("mean", *(f"{word} mean" for word in DIRECTION_WORDS.values()))  # A narrow table hides them
P99S = ("p99", *(f"{word} p99" for word in DIRECTION_WORDS.values()))  # It hides these if other metrics are asked for


def outcome_figures(outcome: Outcome | None, latency_directions: Sequence[str]) -> list[str]:
    """Returns read IOPS, write IOPS, mean and 99th percentile of the latency, as text.

    Latencies are of each of `latency_directions` (see `split_directions`); without any, of the only direction that the
    outcome has. A missing figure is a dash, and a prediction with a wide interval is `not known`.
    """
    if outcome is None:
        return [formatting.NONE] * len(figure_headings(latency_directions))
    texts = []
    for rate in (outcome.read, outcome.write):
        texts.append(f"{rate.iops:,.0f}" if rate.total_ios else formatting.NONE)
    for direction in latency_directions or [with_direction("mean", [[outcome]]).partition(".")[0]]:
        for key in ("mean", "p99"):
            texts.append(formatting.duration(METRICS[f"{direction}.{key}"].compute(outcome)))
    return texts if outcome.is_known else hide_figures(texts)


def hide_figures(texts: Sequence[str]) -> list[str]:
    """Returns `not known` in the place of each text that is a figure."""
    return [text if text == formatting.NONE else formatting.UNKNOWN for text in texts]


def when(stamp: str) -> str:
    """Returns an ISO time in the local time zone, to the minute: `29 Nov 2026, 15:31`; without a zone, it is local."""
    return formatting.date_time(datetime.fromisoformat(stamp).astimezone())


def run_rows(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Returns one row for each run that is done: labels, metrics, each device's shares.

    Of predictions, `known` is whether the metrics are: `yes` or `no`.
    """
    tabular_rows = []
    for run in runs:
        if run.outcome is None:
            continue
        row: dict[str, Any] = {
            "campaign": run.campaign,
            "run": run.id,
            "experiment": run.name,
            **{name: getattr(run, name) for name in ("runner", "started", "seconds")},
            **run.labels,
            **all_metrics(run.outcome),
        }
        if run.outcome.interval is not None:
            row["known"] = "yes" if run.outcome.is_known else "no"
        for name, (reads, writes) in device_shares(run.outcome).items():
            row |= {f"{name} read share": reads, f"{name} write share": writes}
        tabular_rows.append(row)
    return tabular_rows


def as_csv(runs: Sequence[StoredRun]) -> str:
    """Returns runs as CSV (RFC 4180, with \\n as line end), in the units of blklab.compare.metrics."""
    table = run_rows(runs)
    names = list(dict.fromkeys(name for row in table for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    for row in table:
        writer.writerow({name: _safe(value) for name, value in row.items()})
    return buffer.getvalue()


def _safe(value: Any) -> Any:
    """Returns text that a spreadsheet does not take for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")):
        return "'" + value
    return value


def as_json(runs: Sequence[StoredRun]) -> str:
    """Returns runs as the JSON that `blklab runs show --json` prints."""
    return json.dumps([run.as_dict() for run in runs], indent=2, allow_nan=False) + "\n"


def saturation_sentence(curve: SaturationCurve) -> str:
    """Returns a sentence about the knee of a curve."""
    knee = curve.knee
    full = curve.saturated
    less = curve.overloaded
    labels = " ".join(f"{key}={value}" for key, value in curve.labels.items())
    sentence = (
        f"the knee is at {knee.in_flight} I/Os in flight "
        f"({knee.iops:,.0f} IOPS, {formatting.duration(knee.latency_ns)}); "
        f"saturated from {full.in_flight} ({full.iops:,.0f} IOPS, {formatting.duration(full.latency_ns)})"
    )
    if labels:
        sentence = f"{labels}: {sentence}"
    if less is not None:
        sentence += f"; IOPS fall again at {less.in_flight} ({less.iops:,.0f} IOPS)"
    return printable(sentence + ".")


Rows = Sequence[tuple[str, Outcome]]  # Names of runs or cells with their outcomes


def caches(rows: Rows) -> TextTable:
    """Returns the table of caches."""
    cache_rows = []
    for name, outcome in rows:
        for target in outcome.targets:
            if target.get("kind") in {"lvmcache", "bcache", "writecache"}:
                names = [printable(name), printable(target["name"]), target["kind"]]
                cache_rows.append([*names, _hits(target, outcome), *_counts(target)])
    columns = [text_column("run"), text_column("cache"), text_column("kind")]
    columns += number_columns("hits", "read hits", "write hits", "promoted", "demoted", "used", "dirty")
    return TextTable(
        "Caches",
        columns,
        cache_rows,
        (
            "Since the load began. hits: share of all I/Os, and in brackets that of nine of ten runs; "
            "bcache counts reads, without I/Os that bypassed it. used: share of the cache's blocks or buckets."
        ),
    )


def _hits(target: Mapping[str, Any], outcome: Outcome) -> str:
    hits, misses = count_lookups(target)
    low, high = 0.0, 0.0
    if outcome.interval and outcome.interval.hits:
        low, high = outcome.interval.hits.get(target["name"], (0, 0))
    if high - low < LEAST_SHOWN:
        return _share(hits, misses)
    return f"{100 * hits / (hits + misses):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _counts(target: Mapping[str, Any]) -> list[str]:
    if target["kind"] == "bcache":
        unused_percent = target.get("unused_percent")
        dirty = target.get("dirty_data")
        if dirty is None and "dirty_bytes" in target:
            dirty = formatting.size(target["dirty_bytes"])
        return [
            *("–",) * 4,
            "–" if unused_percent is None else f"{100 - unused_percent} %",
            printable(str(dirty or "–")),
        ]
    if target["kind"] == "writecache":
        reads, hits, writes, writes_around = (
            target.get(key, 0) for key in ("reads", "read_hits", "writes", "writes_around")
        )
        used_blocks = target["blocks"] - target["free_blocks"]
        return [
            _share(hits, reads - hits),
            _share(writes - writes_around, writes_around),
            *("–",) * 2,
            formatting.share(used_blocks / target["blocks"]),
            f"{used_blocks:,}",
        ]
    blocks = target["blocks"]
    return [
        *(_share(target[f"{way}_hits"], target[f"{way}_misses"]) for way in ("read", "write")),
        *(f"{target[key]:,}" for key in ("promotions", "demotions")),
        formatting.share(target["used_blocks"] / blocks) if blocks else "–",
        f"{target['dirty']:,}",
    ]


def _share(hits: int, misses: int) -> str:
    return formatting.share(hits / (hits + misses)) if hits + misses else "–"


def arrays(rows: Rows) -> list[str]:
    """Returns the problems of arrays after the load, one line each."""
    lines = []
    for name, outcome in rows:
        for target in outcome.targets:
            if target.get("kind") != "md":
                continue
            problems = ", ".join(_array_state(target))
            if problems:
                lines.append(printable(f"{name}: array {target['name']}: {problems}"))
    return lines


def _array_state(target: Mapping[str, Any]) -> Iterator[str]:
    if target.get("degraded") not in {None, "0"}:
        yield f"{target['degraded']} members missing"
    if target.get("sync_action") not in {None, "idle"}:
        yield f"{target['sync_action']} at {target.get('sync_completed')}"
    if target.get("mismatch_cnt") not in {None, "0"}:
        yield f"{target['mismatch_cnt']} sectors mismatch"
    for member in target.get("members") or []:
        if member.get("bad_blocks"):
            many = len(member["bad_blocks"])
            yield f"{member['name']} lists {formatting.plural(many, 'bad range')}"
