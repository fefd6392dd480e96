"""Diagnostics of a set of runs: doubts and notes, each with its figures.

Thresholds are next to their checks: in `sanity_checks` (single measurements), and here. The same diagnostic of several
runs is merged.

Anomalies in a series or among repeats (drift, outliers, two levels) are found by pure functions of numbers. An anomaly
must be large enough to matter (a share of the mean) and too unlikely to be chance. So long, quiet series do not report
a per mille, and short, noisy series do not report their noise.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from blklab.calibrate.host_profile import cores
from blklab.compare import comparison as compare
from blklab.compare import explain
from blklab.compare.metrics import METRICS, lowest_devices, rate_scale
from blklab.compare.run_conditions import drift_notes
from blklab.compare.samples import Points, over_time
from blklab.compare.sanity_checks import check_run, unfair_shares
from blklab.compare.variation import series_variance
from blklab.diagnostic import Diagnostic
from blklab.errors import UsageError
from blklab.grouping import by_key
from blklab.runners.registry import predicts
from blklab.store.query import StoredRun
from blklab.store.series import JOBS, SeriesPoint

DRIFT = 0.10
"""Share of the mean: what the SNIA's Solid State Storage Performance Test Specification 2.0.1,
2.1.24, allows a steady state's best line to rise or fall."""

CERTAIN = 0.001  # Probability that chance looks like a drift: one of a thousand steady runs is reported wrongly
FEWEST = 20  # Minimum number of intervals of a series for these checks
SCORE = 5.0
"""Deviation of an outlier from the median, in normal standard deviations estimated from the median absolute deviation.
Iglewicz and Hoaglin ("How to Detect and Handle Outliers", 1993) use 3.5 for one value; a series has thousands."""

NORMAL = 0.6745  # The median absolute deviation of a normal distribution with standard deviation 1
STALL = 0.5  # Share of the median from which a deviation is reported: half the work was not done
CHANCE = 6.0  # Standard deviations of a Poisson count that are accepted as chance
RARE = 0.05  # Share of intervals above which deviations are normal for the series, and not outliers
REPEAT = 0.05  # Share of the median by which a repeat must differ to be reported
LEVELS = 0.85
"""Share of the variance that two levels must explain. The best cut explains 2/π = 0.64 of the
variance of a normal distribution and 0.75 of that of a straight slope."""

APART = 0.2  # Minimum distance of two levels, as a share of the mean
LEAST_SHARE = 0.1  # Minimum share of intervals at the rarer level


def drift(values: Sequence[float]) -> float | None:
    """Returns how much the last third of a series differs from the first, as a share of the first.

    None if there is no drift. The test takes autocorrelation into account.
    """
    third = len(values) // 3
    if len(values) < FEWEST:
        return None
    still = _without_line(values)
    # The variance within a third must not include the drift itself.
    before = series_variance(still[:third])
    after = series_variance(still[-third:])
    first_mean = sum(values[:third]) / third
    last_mean = sum(values[-third:]) / third
    if not first_mean or before is None or after is None:
        return None
    change = last_mean / first_mean - 1
    chance = _chance(last_mean - first_mean, before[0] + after[0], min(before[1], after[1]))
    return None if abs(change) < DRIFT or chance >= CERTAIN else change


def _chance(difference: float, variance: float, degrees: float) -> float:
    """Returns Student's two-sided p of a difference."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(difference) / math.sqrt(variance))) if variance else 0.0


def _without_line(values: Sequence[float]) -> list[float]:
    """Returns the residuals of a series from the straight line that fits it best."""
    import numpy as np

    series = np.asarray(values, dtype=float)
    place = np.arange(len(series)) - (len(series) - 1) / 2
    slope = float(place @ series) / float(place @ place)
    return [float(value) for value in series - slope * place]


@dataclass(frozen=True)
class Outlier:
    """A value that does not fit the others."""

    index: int
    value: float
    median: float


def stalls(values: Sequence[float], counts: Sequence[float]) -> list[Outlier]:
    """Returns the intervals of a series that are outliers, the largest deviation first.

    `counts` are the I/Os behind each value; their random error is accepted. The first and the last interval are
    ignored, because a run begins and ends in them. Frequent deviations are ignored too.
    """
    if len(values) < FEWEST:
        return []
    middle = median(values)
    spread = median([abs(value - middle) for value in values]) / NORMAL
    usual = median(counts)
    noise = CHANCE / math.sqrt(usual) * middle if usual else math.inf
    outliers = [
        Outlier(index, values[index], middle)
        for index in range(1, len(values) - 1)
        if abs(values[index] - middle) > max(SCORE * spread, STALL * middle, noise)
    ]
    if len(outliers) > RARE * len(values):
        return []
    return sorted(outliers, key=lambda outlier: -abs(outlier.value - outlier.median))


def misfits(values: Sequence[float]) -> list[Outlier]:
    """Returns the repeats that differ from the others; none if there are fewer than four."""
    if len(values) < 4:
        return []
    middle = median(values)
    spread = median([abs(value - middle) for value in values]) / NORMAL
    return [
        Outlier(index, value, middle)
        for index, value in enumerate(values)
        if abs(value - middle) > max(SCORE * spread, REPEAT * middle)
    ]


@dataclass(frozen=True)
class Levels:
    """A series that alternates between two levels."""

    low: float
    high: float
    share_low: float


def levels(values: Sequence[float], counts: Sequence[float]) -> Levels | None:
    """Returns the two levels of a series; None if it does not have exactly two.

    The cut minimises the variance within the levels (Otsu, "A Threshold Selection Method from
    Gray-Level Histograms", IEEE Transactions on Systems, Man and Cybernetics 9(1), 1979).
    """
    sorted_values = sorted(values)
    count = len(sorted_values)
    total = sum(sorted_values)
    if count < FEWEST or total <= 0:
        return None
    mean = total / count
    variance = sum((value - mean) ** 2 for value in sorted_values)
    if variance <= 0:
        return None
    best = 0.0
    cut = 0
    below = 0.0
    for number in range(1, count):
        below += sorted_values[number - 1]
        low = below / number
        high = (total - below) / (count - number)
        between = number * (count - number) / count * (high - low) ** 2
        if between > best:
            best = between
            cut = number
    low = sum(sorted_values[:cut]) / cut
    high = sum(sorted_values[cut:]) / (count - cut)
    share = cut / count
    usual = median(counts)
    noise = CHANCE / math.sqrt(usual) if usual else math.inf
    wide = high - low > mean * max(APART, noise)
    common = min(share, 1 - share) >= LEAST_SHARE
    return Levels(low, high, share) if best / variance >= LEVELS and wide and common else None


def course(ratios: Sequence[float]) -> float | None:
    """Returns how much a campaign drifted from its first runs to its last; None if it did not.

    `ratios` are the figures of runs divided by the mean of their repeats, in the order of the runs.
    The test is Spearman's rank correlation with this order. The halves must differ by 3 % or more,
    because room temperature or clock differences easily cause that.
    """
    count = len(ratios)
    if count < 8:
        return None
    half = count // 2
    first = sum(ratios[:half]) / half
    last = sum(ratios[-half:]) / half
    change = last / first - 1 if first else 0.0
    if abs(change) < 0.03:
        return None
    from scipy.stats import spearmanr

    rho = float(spearmanr(range(count), ratios).statistic)
    # Without correlation, the variance of rho is 1 / (n - 1).
    return change if abs(rho) * math.sqrt(count - 1) >= 3.29 else None


BUSY = 0.98  # Share of time with I/O in flight from which a device counts as always busy (iostat: %util)
PROCESSOR = 0.95  # Share of a CPU from which a job is limited by its CPU
MACHINE = 0.05  # Share of all CPUs, idle or waiting for I/O, below which CPUs are the limit
SHOWN = 3  # Maximum number of runs that a sentence names


SAID = frozenset({"warning", "forced"})
"""Codes whose message comes from a program: one diagnostic for each message."""


def diagnose(runs: Sequence[StoredRun], points: Points) -> list[Diagnostic]:
    """Returns the diagnostics of runs, warnings first.

    The runs may belong to several campaigns. Of runs that are not done, only failures are reported.
    """
    done = [run for run in runs if run.outcome]
    names = _RunNames(runs)
    diagnostics = [*_failure_diagnostics(runs)]
    for run in done:
        diagnostics += _outcome_notes(run)
        diagnostics += _course(run, points(run.id))
        diagnostics += _limits(run)
        for message, ratio in unfair_shares(run.figures, run.cell.get("jobs") or []):
            diagnostics.append(_doubt("unfair-shares", message, run, weight=ratio))
        if not predicts(run.runner):
            diagnostics += check_run(run)
    all_diagnostics = [*_merge_diagnostics(diagnostics, names), *_repeats(done, names), *_campaigns(done)]
    all_diagnostics += [*_predictions(done, points), *_busy(done)]
    for campaign in dict.fromkeys(run.campaign for run in done):
        all_diagnostics += drift_notes(
            f"campaign {campaign}", [run for run in done if run.campaign == campaign], ["iops"]
        )
    return sorted(all_diagnostics, key=lambda diagnostic: diagnostic.rank)


def _doubt(code: str, message: str, *runs: StoredRun, weight: float = 0.0) -> Diagnostic:
    return Diagnostic(code, "warning", "", message, runs=tuple(dict.fromkeys(run.id for run in runs)), weight=weight)


class _RunNames:
    """Names of runs: the labels in which they differ."""

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        self.runs = {run.id: run for run in runs}
        self._told = []
        for label in dict.fromkeys(label for run in runs for label in run.labels):
            values = {run.labels.get(label) for run in runs}
            if len(values) > 1:
                self._told.append(label)
        self._several = len({run.campaign for run in runs}) > 1

    def of(self, run: StoredRun, *, repeat: bool = True) -> str:
        """Returns a name such as `raid1 randread iodepth=4, run 12`."""
        parts = [run.runner] if self._several else []
        for label in self._told:
            if label != compare.REPEAT and label in run.labels:
                plain = label in {"stack", "workload"}
                parts.append(run.labels[label] if plain else f"{label}={run.labels[label]}")
        name = " ".join(parts)
        if not repeat:
            return name or run.name
        return f"{name}, run {run.id}" if name else f"run {run.id}"


def _merge_diagnostics(diagnostics: Sequence[Diagnostic], names: _RunNames) -> Iterator[Diagnostic]:
    """Merges diagnostics with the same code; the one with the largest weight is shown in full."""
    codes: dict[tuple[str, str], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        key = (diagnostic.code, diagnostic.message if diagnostic.code in SAID else "")
        codes.setdefault(key, []).append(diagnostic)
    for (code, message), members in codes.items():
        members.sort(key=lambda diagnostic: -diagnostic.weight)
        ids: dict[int, None] = {}
        for diagnostic in members:
            ids |= dict.fromkeys(diagnostic.runs)
        runs = [names.runs[number] for number in ids]
        if message:
            few = len(runs) <= SHOWN
            run_names = "; ".join(map(names.of, runs)) if few else f"{len(runs)} runs"
            yield _doubt(code, f"{message} ({run_names}).", *runs)
            continue
        shown: dict[str, str] = {}
        for diagnostic in members:  # of repeats, the one with the largest weight
            run = names.runs[diagnostic.runs[0]]
            shown.setdefault(names.of(run, repeat=False), f"{names.of(run)}: {diagnostic.message}")
        parts = list(shown.values())[:SHOWN]
        other_count = len(runs) - len(parts)
        suffix = f"; {other_count} more runs have similar values" if other_count > 1 else ""
        suffix = "; another run has similar values" if other_count == 1 else suffix
        yield _doubt(code, f"{'; '.join(parts)}{suffix}.", *runs)


def _failure_diagnostics(runs: Sequence[StoredRun]) -> Iterator[Diagnostic]:
    for run in runs:
        if run.state == "failed":
            yield _doubt("failed", run.message or "the reason was not recorded", run)


def _outcome_notes(run: StoredRun) -> Iterator[Diagnostic]:
    outcome = run.figures
    steady = outcome.steady
    if steady and not steady.reached:
        last = ", ".join(f"{iops:,.0f}" for iops in steady.rounds[-5:])
        message = f"no steady state in {len(steady.rounds)} rounds (the last ones: {last} IOPS)"
        yield _doubt("not-steady", f"{message}; the result was recorded anyway", run)
    for warning in outcome.warnings:
        if not str(warning).startswith("no steady state"):
            yield _doubt("warning", str(warning).rstrip("."), run)
    if outcome.forced:
        yield _doubt("forced", f"measured despite: {', '.join(outcome.forced)}", run)


def _course(run: StoredRun, points: Sequence[SeriesPoint]) -> Iterator[Diagnostic]:
    values = over_time("iops", points)
    job_points = [point for point in points if point.source == JOBS and point.width_ns > 0]
    counts = [float(point.read_ios + point.write_ios) for point in job_points][: len(values)]
    change = drift(values)
    if change is not None:
        third = len(values) // 3
        first = sum(values[:third]) / third
        last = sum(values[-third:]) / third
        message = f"{first:,.0f} IOPS in the first third and {last:,.0f} in the last ({_percent(change)})"
        yield _doubt("drift", message, run, weight=abs(change))
    elif two_levels := levels(values, counts):
        message = (
            f"{100 * two_levels.share_low:.0f} % of the time about {two_levels.low:,.0f} IOPS and otherwise about "
            f"{two_levels.high:,.0f}: the mean describes neither"
        )
        yield _doubt("two-levels", message, run, weight=two_levels.high / max(1.0, two_levels.low))
    if outliers := stalls(values, counts):
        worst = outliers[0]
        second = job_points[worst.index].time_ns / 1e9
        suffix = f"; {len(outliers)} such intervals" if len(outliers) > 1 else ""
        message = f"{worst.value:,.0f} IOPS {second:.4g} s after the start; the median is {worst.median:,.0f}{suffix}"
        yield _doubt("outliers", message, run, weight=abs(worst.value / worst.median - 1) if worst.median else 0.0)


def _limits(run: StoredRun) -> Iterator[Diagnostic]:
    if (cores := cores_per_job(run)) is not None and cores >= PROCESSOR:
        yield _doubt(
            "processor",
            (
                f"each job uses its CPU for {100 * min(1.0, cores):.0f} % of the time: this measures the CPU, "
                "not the device"
            ),
            run,
            weight=cores,
        )
    cpu = run.figures.cpu or {}
    if cpu and cpu.get("idle", 1) + cpu.get("iowait", 0) < MACHINE:
        idle_share = cpu.get("idle", 0) + cpu.get("iowait", 0)
        yield _doubt("cpus", f"only {idle_share * 100:.0f} % of the host's CPU time was idle", run)


def _busy(runs: Sequence[StoredRun]) -> Iterator[Diagnostic]:
    """Yields the devices that were always busy, and in how many runs."""
    ids_by_part: dict[tuple[str, str, str], list[int]] = {}
    run_counts: dict[tuple[str, str], int] = {}
    for run in runs:
        outcome = run.figures
        runtime = outcome.observed_ns
        for device in lowest_devices(outcome):
            device_key = (run.runner, device.name)
            run_counts[device_key] = run_counts.get(device_key, 0) + bool(sum(device.ios))
            if device.work is not None:
                share, name = explain.saturation(device, runtime)
                part = explain.PARTS[name] if share >= explain.BUSY else ""
            else:
                busy = (device.busy_ns or 0) / runtime
                part = "never idle" if busy >= BUSY else ""
            if part:
                ids_by_part.setdefault((*device_key, part), []).append(run.id)
    several = len({runner for runner, *_ in ids_by_part}) > 1
    parts = []
    for (runner, name, part), ids in sorted(ids_by_part.items(), key=lambda item: -len(item[1])):
        device_name = f"{name} ({runner})" if several else name
        parts.append(f"{device_name} in {len(ids)} of {run_counts[runner, name]} runs ({part})")
    if parts:
        suffix = f", and {len(parts) - 8} more" if len(parts) > 8 else ""
        text = f"Always busy: {', '.join(parts[:8])}{suffix}."
        if any(part == "never idle" for *_, part in ids_by_part):
            text += (
                " A rotating disk is then at its limit. "
                "A flash disk is at its limit only if more I/Os in flight do not increase IOPS."
            )
        all_ids = dict.fromkeys(number for ids in ids_by_part.values() for number in ids)
        yield Diagnostic("busy-devices", "note", "", text, runs=tuple(all_ids))


def cores_per_job(run: StoredRun) -> float | None:
    """Returns the share of a CPU that each job of a run used; None if unknown."""
    jobs = sum(int(job.get("options", job).get("numjobs", 1)) for job in run.cell.get("jobs") or [])
    counts = cores(run.figures)
    return None if counts is None or not jobs else counts / jobs


def _cells(runs: Sequence[StoredRun]) -> Iterable[list[StoredRun]]:
    labels = (tuple(sorted(run.cell_labels)) for run in runs)
    return by_key(((run.campaign, cell_labels), run) for run, cell_labels in zip(runs, labels, strict=True)).values()


def _repeats(runs: Sequence[StoredRun], names: _RunNames) -> Iterator[Diagnostic]:
    for members in _cells(runs):
        for odd in misfits([METRICS["iops"].compute(run.figures) or 0.0 for run in members]):
            run = members[odd.index]
            yield _doubt(
                "odd-one-out",
                (
                    f"{names.of(run)}: {odd.value:,.0f} IOPS; "
                    f"the median of its {len(members)} repeats is {odd.median:,.0f}."
                ),
                run,
            )


def _campaigns(runs: Sequence[StoredRun]) -> Iterator[Diagnostic]:
    """A drift that all cells share has an external cause: temperature, wear, a filling disk, other load."""
    for campaign in dict.fromkeys(run.campaign for run in runs):
        campaign_runs = [run for run in runs if run.campaign == campaign]
        ratios = []
        for members in _cells(campaign_runs):
            values = [METRICS["iops"].compute(run.figures) for run in members]
            positive_values = [value for value in values if value]
            if len(positive_values) < 2:
                continue
            mean = sum(positive_values) / len(positive_values)
            ratios += [
                (run.started or "", run.id, value / mean) for run, value in zip(members, values, strict=True) if value
            ]
        change = course([ratio for *_, ratio in sorted(ratios)])
        if change is not None:
            message = (
                f"Campaign {campaign}: IOPS of later runs differ by {_percent(change)} from earlier repeats of "
                "the same cells: something else changed."
            )
            yield _doubt("drift-of-the-campaign", message, *campaign_runs)


def _predictions(runs: Sequence[StoredRun], points: Points) -> Iterator[Diagnostic]:
    campaigns = {run.campaign: run.runner for run in runs}
    simulated_campaigns = [number for number, runner in campaigns.items() if predicts(runner)]
    measured_campaigns = [number for number, runner in campaigns.items() if not predicts(runner)]
    # The rates of scaled devices have no prediction.
    unscaled_runs = [run for run in runs if rate_scale(run.figures) == 1]
    for sim in simulated_campaigns:
        for other in measured_campaigns:
            sides = []
            for number in (other, sim):
                sides.append(
                    (f"{campaigns[number]} {number}", [run for run in unscaled_runs if run.campaign == number])
                )
            try:
                comparison = compare.compare(compare.comparison_sides(sides), ["iops"], points)
            except UsageError:  # no common cell
                continue
            pairs = [(row.labels, change) for row in comparison.rows for change in row.differences if change]
            off = [(labels, change) for labels, change in pairs if change.verdict == "outside"]
            if off:
                message = (
                    f"Of {len(pairs)} cells that were predicted and measured, {len(off)} are outside of the interval "
                    "of their prediction (1 of 10 is expected)"
                )
                known_off = [(labels, change) for labels, change in off if change.known]
                if known_off:
                    labels, worst = max(known_off, key=lambda item: abs(item[1].change))
                    of_cell = f", {' '.join(labels.values())}," if labels else ""
                    message += (
                        f"; the largest difference{of_cell} is {_percent(worst.change)} "
                        f"({_percent(worst.low)} to {_percent(worst.high)} expected)"
                    )
                yield _doubt("prediction", f"{message}.", *(run for run in runs if run.campaign == sim))


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):+.0f} %".replace("-", "−")
