"""Evaluate a sweep: the effect of each setting, with its uncertainty.

Settings persist as shell commands for now, and as a udev rule and a sysctl file for the next boot.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blklab.compare.comparison import REPEAT, compare, comparison_sides
from blklab.compare.decision import FIRST_LOOK, MARGIN, Decision, MetricQuestion, Pair, Rule, decide_family
from blklab.compare.metrics import METRICS, metric_name, with_direction
from blklab.compare.run_conditions import note
from blklab.compare.samples import Measured, Points, mark_unchanged, run_samples
from blklab.compare.variation import RunSample, mean
from blklab.diagnostic import Diagnostic
from blklab.errors import UsageError
from blklab.experiment.sweep import AS_IS, MD, MODE, VM, is_setting, no_effect
from blklab.installed_documents import document_path
from blklab.outcome import Outcome
from blklab.store.query import CampaignRow, StoredRun


@dataclass(frozen=True)
class Effect:
    """The effect of one value of a setting, against the baseline."""

    setting: str
    value: str
    baseline: str  # The baseline: `as is`, or the first value of the sweep
    difference: Decision
    runs: int
    no_effect: str = ""  # Why the setting cannot act on this workload; empty if it may

    @property
    def verdict(self) -> str:
        """That of the decision; `no effect` if the setting cannot act: a difference is then chance or drift."""
        return "no effect" if self.no_effect else self.difference.verdict


@dataclass(frozen=True)
class Tuning:
    """The effects of a sweep on one workload and stack."""

    labels: Mapping[str, str]
    metric: str
    baseline: float | None
    effects: Sequence[Effect]  # The largest effect first, in either direction
    note: str = ""  # Missing combinations
    confidence: float = 0.95  # Of the intervals, if they are not those of the model's error
    known: bool = True  # Whether the baseline is known: not if it is predicted with an interval that is too wide

    @property
    def best(self) -> dict[str, Effect]:
        """The best value of each setting that improves the metric."""
        effects: dict[str, Effect] = {}
        for effect in self.effects:
            if effect.verdict == "better":
                effects.setdefault(effect.setting, effect)
        return effects

    def as_dict(self) -> dict[str, Any]:
        """Returns the tuning for `--json`."""
        return {
            **{name: getattr(self, name) for name in ("labels", "metric", "baseline", "known", "note")},
            "effects": [
                {**vars(effect), "verdict": effect.verdict, "difference": vars(effect.difference)}
                for effect in self.effects
            ],
            "best": {setting: effect.value for setting, effect in self.best.items()},
        }


def tune(
    campaign: CampaignRow,
    runs: Sequence[StoredRun],
    metric: str,
    points: Points,
    confidence: float = 0.95,
    margin: float = MARGIN,
    look: float = FIRST_LOOK,
) -> list[Tuning]:
    """Returns the effects of a sweep, for each workload and stack.

    In a one-at-a-time sweep, each value is compared with the runs without changes. In a full sweep,
    each value is compared with the first value of its setting, everything else being equal. A value
    that the host had before is not a change. Raises UsageError for a campaign that is not a sweep.
    """
    requested_name = metric_name(metric)
    settings = [key for key in campaign.experiment.get("sweep", {}) if key != MODE]
    done = mark_unchanged([run for run in runs if run.outcome is not None])
    present_values = set()
    marked_runs = mark_unchanged(runs)
    for before, after in zip(runs, marked_runs, strict=True):
        for setting in settings:
            if before.labels[setting] != after.labels[setting]:
                present_values.add(f"{setting} = {before.labels[setting]}")
    runs = marked_runs
    if not settings:
        page = document_path("reference/experiments.md")
        raise UsageError(
            f"campaign {campaign.number} ({campaign.name}): not a sweep; add [sweep] to the experiment ({page})"
        )
    if not done:
        raise UsageError(f"campaign {campaign.number}: no run is done")
    ignored_labels = {*settings, REPEAT}
    contexts: dict[tuple[tuple[str, str], ...], list[StoredRun]] = {}
    for run in done:
        context = tuple(pair for pair in run.labels.items() if pair[0] not in ignored_labels)
        contexts.setdefault(context, []).append(run)
    varying_labels = _find_varying([dict(context) for context in contexts])
    together = campaign.experiment["sweep"].get(MODE) == "all"
    by_metric: dict[str, list[_Context]] = {}
    for context, context_runs in contexts.items():
        name = with_direction(requested_name, [[run.figures for run in context_runs]])
        samples = run_samples(context_runs, METRICS[name], points)
        if samples:
            labels = {label: value for label, value in context if label in varying_labels}
            unchanged_note = (
                f"the host already had {', '.join(sorted(present_values))}: this counts as '{AS_IS}'"
                if present_values
                else ""
            )
            note = _missing_note(samples, runs, settings) if together else unchanged_note
            inert = {}
            for key in settings:
                inert[key] = no_effect(key, [run.cell for run in context_runs if run.labels[key] != AS_IS])
            by_metric.setdefault(name, []).append(
                _Context(labels, _by_settings(samples, settings), settings, together, note, inert)
            )
    if not by_metric:
        raise UsageError(f"campaign {campaign.number}: no run has {metric}")
    questions = []
    for name, contexts_of_metric in by_metric.items():
        questions.append(_question(contexts_of_metric, Rule(METRICS[name], confidence, margin, look)))
    decisions_of_metrics = decide_family(questions)
    tunings: list[Tuning] = []
    for question, contexts_of_metric, decisions in zip(
        questions, by_metric.values(), decisions_of_metrics, strict=True
    ):
        tunings += _tunings(contexts_of_metric, question.rule, decisions)
    return tunings


LIVE = "live"  # The key of a stored experiment that was measured under a production load


def default_metric(campaign: CampaignRow) -> str:
    """Returns the metric that a sweep is judged by if the user names none."""
    return str(campaign.experiment.get(LIVE, {}).get("metric", "iops"))


def live_notes(campaign: CampaignRow) -> Iterator[Diagnostic]:
    """Yields what to know about a sweep under a production load."""
    if LIVE in campaign.experiment:
        yield note(
            "load",
            "the load was not blklab's and may have changed: slices are compared as independent runs, not in pairs by "
            "block, so changes of the load make the intervals wider; --metric iops shows whether the load was the same",
        )


def _find_varying(contexts: Sequence[Mapping[str, str]]) -> set[str]:
    """Returns the labels in which workloads and stacks differ."""
    varying_labels = set()
    for label in contexts[0]:
        values = {labels[label] for labels in contexts}
        if len(values) > 1:
            varying_labels.add(label)
    return varying_labels


Values = tuple[str, ...]


def count_undecided(
    campaign: CampaignRow, runs: Sequence[StoredRun], points: Points, margin: float, look: float
) -> int:
    """Returns how many comparisons of a campaign more repeats can decide.

    They are those of a sweep, of interleaved experiments, or of the stacks; with one stack, those of the first label
    that varies. Raises UsageError if there is nothing to compare.
    """
    metric = "wall" if any(run.figures.command for run in runs) else "iops"
    if campaign.experiment.get("sweep"):
        tunings = tune(campaign, runs, metric, points, margin=margin, look=look)
        verdicts = [effect.verdict for tuning in tunings for effect in tuning.effects]
    else:
        labels = [label for label in runs[0].labels if label not in {"stack", "workload", REPEAT}]
        varying_labels = []
        for label in ("experiment", "stack", *labels):
            values = {run.labels.get(label) for run in runs}
            if len(values) > 1:
                varying_labels.append(label)
        if not varying_labels:
            raise UsageError("--until-sure: the cells differ only in their workloads: nothing to compare")
        sides = comparison_sides([(campaign.name, runs)], varying_labels[0])
        rows = compare(sides, [metric], points, side_labels=varying_labels[:1], margin=margin, look=look).rows
        verdicts = [decision.verdict for row in rows for decision in row.differences if decision]
    return sum(verdict in {"unclear", "unknown", "differ"} for verdict in verdicts)


@dataclass(frozen=True)
class _Context:
    """The runs of one workload and stack, by the values of all settings."""

    labels: Mapping[str, str]
    cells: Mapping[Values, Sequence[RunSample]]
    settings: Sequence[str]
    together: bool
    note: str
    inert: Mapping[str, str]  # Why settings cannot act; empty for one that may

    @property
    def baseline(self) -> Sequence[RunSample]:
        return self.cells.get((AS_IS,) * len(self.settings), [])

    def changes(self) -> Iterator[tuple[str, str, str, list[tuple[Values, Values]]]]:
        """Returns each setting, value and baseline, with the pairs of cells that show its effect.

        A combination of the other settings without runs for both values is ignored.
        """
        for index, setting in enumerate(self.settings):
            values = list(dict.fromkeys(cell[index] for cell in self.cells))
            first = AS_IS if AS_IS in values else values[0]
            for value in values:
                pairs = [
                    ((*cell[:index], first, *cell[index + 1 :]), cell) for cell in self.cells if cell[index] == value
                ]
                pairs = [pair for pair in pairs if pair[0] in self.cells]
                if not self.together:
                    pairs = [pair for pair in pairs if set(pair[0]) == {AS_IS}]
                if value != first and pairs:
                    yield (setting, value, first, pairs)


def _by_settings(samples: Sequence[Measured], settings: Sequence[str]) -> dict[Values, list[RunSample]]:
    samples_by_values: dict[Values, list[RunSample]] = {}
    for run, sample in samples:
        values = tuple(run.labels[setting] for setting in settings)
        samples_by_values.setdefault(values, []).append(sample)
    return samples_by_values


def _missing_note(samples: Sequence[Measured], runs: Sequence[StoredRun], settings: Sequence[str]) -> str:
    """Returns a sentence about missing combinations, if there are any."""
    combinations = 1
    for setting in settings:
        combinations *= len({run.labels[setting] for run in runs})
    missing = combinations - len(_by_settings(samples, settings))
    if not missing:
        return ""
    were = "was" if missing == 1 else "were"
    return (
        f"{missing} of {combinations} combinations {were} not measured: "
        "values are compared only where both were measured"
    )


def _question(contexts: Sequence[_Context], rule: Rule) -> MetricQuestion:
    """Returns the comparisons that show all effects on a metric."""
    cells: list[Sequence[RunSample]] = []
    sides: list[int] = []
    pairs: list[Pair] = []
    for number, context in enumerate(contexts):
        indexes = {values: len(cells) + place for place, values in enumerate(context.cells)}
        cells += context.cells.values()
        sides += [number] * len(context.cells)
        for *_, cell_pairs in context.changes():
            pairs.append(([indexes[base] for base, _ in cell_pairs], [indexes[new] for _, new in cell_pairs]))
    return MetricQuestion(cells, sides, pairs, rule)


def _tunings(contexts: Sequence[_Context], rule: Rule, decisions: Sequence[Decision | None]) -> Iterator[Tuning]:
    """Yields the effects on a metric, those of a context sorted by their size."""
    next_decision = iter(decisions)
    for context in contexts:
        effects = []
        for setting, value, first, cell_pairs in context.changes():
            decision = next(next_decision)
            if decision is not None:
                runs = sum(len(context.cells[new]) for _, new in cell_pairs)
                effects.append(Effect(setting, value, first, decision, runs, context.inert[setting]))
        sign = 1 if rule.metric.more_is_better else -1
        effects.sort(key=lambda effect: -sign * effect.difference.change)
        base = mean(context.baseline) if context.baseline else None
        known = all(sample.prediction is None or sample.prediction.is_known for sample in context.baseline)
        yield Tuning(context.labels, rule.metric.name, base, effects, context.note, rule.confidence, known)


def settings_of(tunings: Sequence[Tuning]) -> dict[str, str]:
    """Returns the settings of the host that improve the metric wherever they were tried.

    A value is included if it is `better` for at least one workload and `worse` for none.
    """
    effects = [effect for tuning in tunings for effect in tuning.effects]
    worse = {(effect.setting, effect.value) for effect in effects if effect.verdict == "worse"}
    best_values: dict[str, str] = {}
    for tuning in tunings:
        for setting, effect in tuning.best.items():
            if is_setting(setting) and (setting, effect.value) not in worse:
                best_values.setdefault(setting, effect.value)
    return best_values


UDEV = "/etc/udev/rules.d/60-blklab.rules"
SYSCTL = "/etc/sysctl.d/60-blklab.conf"


@dataclass(frozen=True)
class PersistedSettings:
    commands: Sequence[str]  # Commands for a root shell
    udev: Sequence[str]  # Lines of a rules file
    sysctl: Sequence[str]  # Lines of a sysctl.d file


def persist_settings(settings: Mapping[str, str], outcomes: Iterable[Outcome]) -> PersistedSettings:
    """Returns how to persist settings on the devices that these results changed.

    A disk with a stable identity is matched by it, because `sdb` may be another disk after a boot.
    """
    ids: dict[str, str | None] = {}
    changes: dict[tuple[str, str], None] = {}
    for outcome in outcomes:
        ids |= {device.name: device.id for device in outcome.devices}
        for change in outcome.settings or ():
            changes[change.key, change.where] = None
    commands = []
    rules = []
    lines = []
    for key, value in settings.items():
        if key.startswith(VM):
            commands.append(f"sysctl -w {key}={shlex.quote(value)}")
            lines.append(f"{key} = {value}")
            continue
        path = attribute(key)
        for name in [name for changed_key, name in changes if changed_key == key]:
            file = shlex.quote(f"/sys/block/{name}/{path}")
            commands.append(f"echo {shlex.quote(value)} > {file}")
            rules.append(
                'ACTION=="add|change", SUBSYSTEM=="block", '
                f'ENV{{DEVTYPE}}=="disk", {_match(name, ids.get(name))}, ATTR{{{path}}}="{_escape_text(value)}"'
            )
    return PersistedSettings(commands, rules, lines)


def attribute(key: str) -> str:
    """Returns the path of a setting below /sys/block/NAME."""
    if key in MD:
        return f"md/{key}"
    return "device/queue_depth" if key == "queue_depth" else f"queue/{key}"


def _match(name: str, identity: str | None) -> str:
    identity = identity or ""
    if match := re.fullmatch(r"wwn-(0x[0-9a-f]+)", identity):
        return f'ENV{{ID_WWN_WITH_EXTENSION}}=="{match[1]}"'
    if match := re.fullmatch(r"nvme-(eui\.[0-9a-f]+|uuid\.[0-9a-f-]+)", identity):
        return f'ATTR{{wwid}}=="{match[1]}"'
    if match := re.fullmatch(r"(?:ata|scsi|nvme|usb|virtio)-([\w.:+-]+)", identity, re.A):
        return f'ENV{{ID_SERIAL}}=="{match[1]}"'
    if match := re.fullmatch(r"md-uuid-([0-9a-f:]+)", identity):
        return f'ENV{{MD_UUID}}=="{match[1]}"'
    return f'KERNEL=="{_escape_text(name)}"'


def _escape_text(text: str) -> str:
    return re.sub(r"[^\w.:+ -]", "?", text)
