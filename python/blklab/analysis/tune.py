"""Evaluate a sweep: the effect of each setting, with its uncertainty."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blklab.analysis.compare import REPEAT, verdict
from blklab.analysis.metrics import METRICS, Metric
from blklab.analysis.resampling import Difference, RunSample, compare_samples, holm
from blklab.analysis.samples import Measured, Points, run_samples
from blklab.errors import UsageError
from blklab.spec.problems import near
from blklab.spec.sweep import AS_IS, MODE, is_setting
from blklab.store.query import CampaignRow, StoredRun


@dataclass(frozen=True)
class Effect:
    """The effect of one value of a setting, against the baseline."""

    setting: str
    value: str
    baseline: str
    """The baseline: `as is`, or the first value of the sweep."""

    difference: Difference
    verdict: str
    """`better`, `worse`, `same`, `differ` or `unknown`, as in a comparison."""

    runs: int


@dataclass(frozen=True)
class Tuning:
    """The effects of a sweep on one workload and stack."""

    labels: Mapping[str, str]
    metric: str
    baseline: float | None
    effects: Sequence[Effect]
    """The largest effect first, in either direction."""

    note: str = ""
    """Missing combinations."""

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
            "labels": dict(self.labels),
            "metric": self.metric,
            "baseline": self.baseline,
            "note": self.note,
            "effects": [
                {**vars(effect), "difference": vars(effect.difference)} for effect in self.effects
            ],
            "best": {setting: effect.value for setting, effect in self.best.items()},
        }


def tune(
    campaign: CampaignRow,
    runs: Sequence[StoredRun],
    metric: str,
    points: Points,
    confidence: float = 0.95,
) -> list[Tuning]:
    """Returns the effects of a sweep, for each workload and stack.

    In a one-at-a-time sweep, each value is compared with the runs without changes. In a full sweep,
    each value is compared with the first value of its setting: each run is divided by the mean of
    the runs that differ only in this setting. Raises UsageError for a campaign that is not a sweep.
    """
    if metric not in METRICS:
        raise UsageError(f"no metric {metric!r}; {near(metric, METRICS)}")
    settings = [key for key in campaign.experiment.get("sweep", {}) if key != MODE]
    done = [run for run in runs if run.outcome is not None]
    if not settings:
        raise UsageError(
            f"campaign {campaign.number} ({campaign.name}): not a sweep; add [sweep] to"
            " the experiment (docs/reference/experiments.md)"
        )
    if not done:
        raise UsageError(f"campaign {campaign.number}: no run is done")
    contexts: dict[tuple[tuple[str, str], ...], list[StoredRun]] = {}
    for run in done:
        pairs = tuple(pair for pair in run.labels.items() if pair[0] not in {*settings, REPEAT})
        contexts.setdefault(pairs, []).append(run)
    varied = {
        label
        for label in dict(next(iter(contexts)))
        if len({dict(context)[label] for context in contexts}) > 1
    }
    together = campaign.experiment["sweep"].get(MODE) == "all"
    tunings = []
    for context, mine in contexts.items():
        measured = run_samples(mine, METRICS[metric], points)
        if not measured:
            continue
        labels = {label: value for label, value in context if label in varied}
        effects = _effects(measured, settings, together=together, confidence=confidence)
        base = [sample.value for run, sample in measured if _is_baseline(run, settings)]
        mean = sum(base) / len(base) if base else None
        note = _left_out(measured, runs, settings) if together else ""
        tunings.append(Tuning(labels, metric, mean, effects, note))
    if not tunings:
        raise UsageError(f"campaign {campaign.number}: no run has {metric}")
    return _judged(tunings, METRICS[metric], confidence)


def _is_baseline(run: StoredRun, settings: Sequence[str]) -> bool:
    return all(run.labels.get(setting) == AS_IS for setting in settings)


def _effects(
    measured: Sequence[Measured], settings: Sequence[str], *, together: bool, confidence: float
) -> list[Effect]:
    effects = []
    for setting in settings:
        others = [other for other in settings if other != setting]
        values = list(dict.fromkeys(run.labels[setting] for run, _ in measured))
        first = AS_IS if AS_IS in values else values[0]
        for value in values:
            if value == first:
                continue
            if together:
                base, these = _paired(measured, setting, (first, value), others)
            else:
                base, these = (
                    [
                        sample
                        for run, sample in measured
                        if run.labels[setting] == value_compared and _is_baseline(run, others)
                    ]
                    for value_compared in (first, value)
                )
            if base and these and (change := compare_samples(base, these, confidence)) is not None:
                effects.append(Effect(setting, value, first, change, "unknown", len(these)))
    return effects


def _groups(
    measured: Sequence[Measured], others: Sequence[str]
) -> dict[tuple[str, ...], list[Measured]]:
    """Returns runs by the values of the other settings."""
    groups: dict[tuple[str, ...], list[Measured]] = {}
    for run, sample in measured:
        groups.setdefault(tuple(run.labels[other] for other in others), []).append((run, sample))
    return groups


def _paired(
    measured: Sequence[Measured], setting: str, pair: tuple[str, str], others: Sequence[str]
) -> tuple[list[RunSample], list[RunSample]]:
    """Returns the runs of two values, divided by the mean of the first, everything else being
    equal.

    A combination of the other settings without runs for both values is ignored.
    """
    pairs: tuple[list[RunSample], list[RunSample]] = ([], [])
    for members in _groups(measured, others).values():
        sides = [
            [sample for run, sample in members if run.labels[setting] == value] for value in pair
        ]
        mean = sum(sample_.value for sample_ in sides[0]) / len(sides[0]) if sides[0] else 0.0
        if not mean or not sides[1]:
            continue
        for side, kept in zip(sides, pairs, strict=True):
            kept += [
                RunSample(sample_.value / mean, [x / mean for x in sample_.series])
                for sample_ in side
            ]
    return pairs


def _left_out(
    measured: Sequence[Measured], tried: Sequence[StoredRun], settings: Sequence[str]
) -> str:
    """Returns a sentence about missing combinations, if there are any."""
    every = math.prod(len({run.labels[setting] for run in tried}) for setting in settings)
    missing = every - len(_groups(measured, settings))
    if not missing:
        return ""
    return (
        f"{missing} of {every} combinations {'was' if missing == 1 else 'were'} not"
        " measured: values are compared only where both were measured"
    )


def _judged(tunings: Sequence[Tuning], metric: Metric, confidence: float) -> list[Tuning]:
    """Adds verdicts, with p corrected for all effects, and sorts by the size of the effect."""
    adjusted = iter(
        holm([effect.difference.p for effect_ in tunings for effect in effect_.effects])
    )
    judged = []
    for tuning in tunings:
        effects = [
            replace(
                effect,
                verdict=verdict(
                    effect.difference, next(adjusted), metric.more_is_better, 1 - confidence
                ),
            )
            for effect in tuning.effects
        ]
        sign = 1 if metric.more_is_better else -1
        effects.sort(key=lambda effect: -sign * effect.difference.change)
        judged.append(replace(tuning, effects=effects))
    return judged


def settings_of(tunings: Sequence[Tuning]) -> dict[str, str]:
    """Returns the settings of the host that improve the metric wherever they were tried.

    A value is included if it is `better` for at least one workload and `worse` for none.
    """
    chosen: dict[str, str] = {}
    for tuning in tunings:
        for setting, effect in tuning.best.items():
            if is_setting(setting) and not any(
                other.verdict == "worse"
                for each in tunings
                for other in each.effects
                if (other.setting, other.value) == (setting, effect.value)
            ):
                chosen.setdefault(setting, effect.value)
    return chosen
