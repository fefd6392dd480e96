#!/usr/bin/env python3
"""Write the tables of docs/explanation/verdicts.md: simulations of decisions, with fixed seeds.

The truth is known: two sides are equal, or one is 10 % faster. blklab decides next to Welch's test, the exact test of
Mann and Whitney, and limma's moderated t; these take Šidák's level for several cells.
"""

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import digamma, polygamma

from blklab.compare.change_points import LIMIT, find_change_points
from blklab.compare.decision import Decision, MetricQuestion, Rule, decide, decide_family, history_share, look_share
from blklab.compare.metrics import METRICS
from blklab.compare.variation import FEWEST_CAMPAIGNS, RunSample, _inverse_trigamma, between_campaigns

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/verdicts.md"
IDENTICAL = ROOT / "tests/data/identical-campaigns.json"
MARK = "<!-- `make verdicts` writes the rest of this page. -->\n"

TRIALS = 400
LOOKS = (3, 5, 8, 13, 21, 34)  # The repeats at each look of a reader who follows the advice
FASTER = math.log(1.1)

Array = NDArray[np.float64]
Judge = Callable[[Array, Array, float], list[int]]
"""Takes the logarithms of the runs of two sides (cells, runs), and the share of 5 % for this look. Returns for each
cell: 1 for faster, -1 for slower, 0 for no verdict."""


def normal(generator: np.random.Generator, cells: int, runs: int) -> Array:
    return generator.normal(0, 0.05, size=(cells, runs))


def skewed(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Rates whose slow tail is long: the logarithm of a gamma distribution with a deviation of 5 %."""
    return 0.05 * (np.log(generator.gamma(2, size=(cells, runs))) - digamma(2)) / math.sqrt(polygamma(1, 2))


def heavy(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Student's distribution with three degrees of freedom."""
    return 0.05 * generator.standard_t(3, size=(cells, runs)) / math.sqrt(3)


def spoiled(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """One run in ten is 15 to 45 % slower."""
    noise = normal(generator, cells, runs)
    return noise - generator.uniform(3, 9, size=noise.shape) * 0.05 * (generator.random(noise.shape) < 0.1)


def two_modes(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Three runs in ten are in a slow mode, 15 % below."""
    noise = normal(generator, cells, runs)
    return noise - 0.15 * (generator.random(noise.shape) < 0.3)


def unlike_cells(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Cells vary by 1 to 30 %."""
    deviations = np.resize([0.01, 0.3, 0.05, 0.1, 0.02], cells)
    return generator.normal(0, 1, size=(cells, runs)) * deviations[:, None]


def drift(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Noise, and a drift of the same size that two successive runs share by 0.8, in each side for itself."""
    noise, level = normal(generator, cells, runs), generator.normal(0, 0.05, size=cells)
    for run in range(runs):
        noise[:, run] += level
        level = 0.8 * level + 0.6 * generator.normal(0, 0.05, size=cells)
    return noise


def dependent(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Successive runs of a side share 0.3 of their deviation: a first-order process with a deviation of 5 %."""
    noise = normal(generator, cells, runs)
    for run in range(1, runs):
        noise[:, run] = 0.3 * noise[:, run - 1] + math.sqrt(1 - 0.3**2) * noise[:, run]
    return noise


def tight_modes(generator: np.random.Generator, cells: int, runs: int) -> Array:
    """Three runs in ten are in a slow mode, 26 % below; within a mode, runs vary by 0.5 %."""
    noise = generator.normal(0, 0.005, size=(cells, runs))
    return noise - 0.3 * (generator.random(noise.shape) < 0.3)


SHAPES = {
    "normal": normal,
    "skewed": skewed,
    "heavy tails": heavy,
    "1 of 10 spoiled": spoiled,
    "two modes": two_modes,
    "1 to 30 %": unlike_cells,
}


def decisions(base: Array, other: Array, share: float) -> list[Decision]:
    cells = [[RunSample(float(value)) for value in row] for row in np.exp([*base, *other])]
    count = len(base)
    pairs = [([at], [at + count]) for at in range(count)]
    known = decide(cells, [0] * count + [1] * count, pairs, Rule(METRICS["iops"], look=share))
    return [each for each in known if each]


def blklab(base: Array, other: Array, share: float) -> list[int]:
    return [{"better": 1, "worse": -1}.get(each.verdict, 0) for each in decisions(base, other, share)]


def _signs(base: Array, other: Array, p: Array) -> list[int]:
    level = 1 - 0.95 ** (1 / len(base))
    signs = np.sign(other.mean(axis=1) - base.mean(axis=1))
    return [int(sign) for sign in np.where(p <= level, signs, 0)]


def welch(base: Array, other: Array, _share: float) -> list[int]:
    return _signs(base, other, stats.ttest_ind(base, other, axis=1, equal_var=False).pvalue)


def mann_whitney(base: Array, other: Array, _share: float) -> list[int]:
    return _signs(base, other, stats.mannwhitneyu(base, other, axis=1, method="exact").pvalue)


def limma(base: Array, other: Array, _share: float) -> list[int]:
    """Smyth (2004), with both sides pooled; Student's test for fewer than three cells."""
    runs, free = base.shape[1], 2.0 * (base.shape[1] - 1)
    variances = (base.var(axis=1, ddof=1) + other.var(axis=1, ddof=1)) / 2
    degrees = free
    if len(base) > 2:
        logs = np.log(variances) - digamma(free / 2) + math.log(free / 2)
        excess = logs.var(ddof=1) - polygamma(1, free / 2)
        prior = 2 * _inverse_trigamma(excess) if excess > 0 else math.inf
        usual = math.exp(logs.mean() + (digamma(prior / 2) - math.log(prior / 2) if math.isfinite(prior) else 0))
        weight = free / (free + prior) if math.isfinite(prior) else 0.0
        variances = weight * variances + (1 - weight) * usual
        degrees = min(free + prior, len(base) * free)
    t = (other.mean(axis=1) - base.mean(axis=1)) / np.sqrt(2 * variances / runs)
    return _signs(base, other, 2 * stats.t.sf(np.abs(t), degrees))


JUDGES: dict[str, Judge] = {"blklab": blklab, "Welch": welch, "Mann-Whitney": mann_whitney, "limma": limma}


def share(count: float, of: float = TRIALS) -> str:
    return f"{100 * count / of:.1f} %"


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"## {title}", "", f"| {' | '.join(headings)} |", "|" + " --- |" * len(headings)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def followed(shape: Callable[..., Array], cells: int, judge: Judge) -> tuple[int, float]:
    """Return how many of the equal sides get a false verdict at any look, and the mean number of repeats at the end."""
    generator, false, spent = np.random.default_rng(7), 0, 0
    for _ in range(TRIALS):
        base, other = shape(generator, cells, LOOKS[-1]), shape(generator, cells, LOOKS[-1])
        for look, count in enumerate(LOOKS):
            if any(judge(base[:, :count], other[:, :count], look_share(look))):
                false += 1
                break
        spent += count
    return false, spent / TRIALS


METRIC_NAMES = ("iops", "read.mean", "read.p99")
FAMILIES: Sequence[tuple[str, Callable[..., Array], int, float, Sequence[int]]] = (
    ("one metric", normal, 1, 0.0, (1, 5)),
    ("three independent metrics", normal, 3, 0.0, (1, 5, 20)),
    ("three metrics, correlated by 0.5", normal, 3, 0.5, (1, 5)),
    ("successive runs correlated by 0.3", dependent, 1, 0.0, (1, 5, 20)),
    ("three metrics, successive runs correlated by 0.3", dependent, 3, 0.5, (1, 5)),
    ("two tight modes, 26 % apart", tight_modes, 1, 0.0, (5, 20)),
    ("three metrics, two tight modes", tight_modes, 3, 0.5, (5, 20)),
)


def family_decisions(sides: Sequence[tuple[Array, Array]], count: int, look: float) -> list[Decision]:
    """Return the decisions about all metrics after `count` runs; `sides` has both sides of each metric."""
    questions = []
    for name, (base, other) in zip(METRIC_NAMES, sides, strict=False):
        cells = [[RunSample(float(value)) for value in row[:count]] for row in np.exp([*base, *other])]
        size = len(base)
        pairs = [([cell], [cell + size]) for cell in range(size)]
        questions.append(MetricQuestion(cells, [0] * size + [1] * size, pairs, Rule(METRICS[name], look=look)))
    return [decision for of_metric in decide_family(questions) for decision in of_metric if decision]


def draw_metrics(
    generator: np.random.Generator, shape: Callable[..., Array], metrics: int, correlation: float, cells: int
) -> list[tuple[Array, Array]]:
    """Return both sides of each metric; metrics share a part of their deviation."""
    common = [shape(generator, cells, LOOKS[-1]) for _ in range(2)]
    if metrics == 1:
        return [(common[0], common[1])]
    sides = []
    for _ in range(metrics):
        own = [shape(generator, cells, LOOKS[-1]) for _ in range(2)]
        mixed = [math.sqrt(correlation) * all_metrics + math.sqrt(1 - correlation) * one
                 for all_metrics, one in zip(common, own, strict=True)]  # fmt: skip
        sides.append((mixed[0], mixed[1]))
    return sides


def false_families(row: int, cells: int) -> int:
    """Return in how many trials equal sides get a false verdict in any metric, cell or look."""
    _, shape, metrics, correlation, _ = FAMILIES[row]
    generator = np.random.default_rng(5)
    false = 0
    for _ in range(TRIALS):
        sides = draw_metrics(generator, shape, metrics, correlation, cells)
        for look, count in enumerate(LOOKS):
            verdicts = {decision.verdict for decision in family_decisions(sides, count, look_share(look))}
            if verdicts & {"better", "worse"}:
                false += 1
                break
            if "unclear" not in verdicts:
                break
    return false


def families() -> str:
    cases = []
    for row, (*_, cell_counts) in enumerate(FAMILIES):
        cases += [(row, cells) for cells in cell_counts]
    rows = []
    for (row, cells), false in zip(cases, in_parallel(false_families, cases), strict=True):
        rows.append([FAMILIES[row][0], str(cells), share(false)])
    title = 'All that is printed: a false "better" or "worse" in any metric, cell or look'
    return table(title, ["equal sides", "cells", "false"], rows)


NIGHTS = 14
NIGHT_TOPICS = ("since the one before", "since the first", "change of level")


def false_nights(seed: int, trials: int) -> list[int]:
    """Return how many histories of equal nights have a false verdict on any night, for each of `NIGHT_TOPICS`."""
    generator = np.random.default_rng(seed)
    false = [0, 0, 0]
    for _ in range(trials):
        level = generator.normal(0, 0.03, size=NIGHTS)
        runs = np.exp(level[None, :, None] + generator.normal(0, 0.02, size=(2, NIGHTS, 3)))
        wrong = [False, False, False]
        for night in range(FEWEST_CAMPAIGNS, NIGHTS):
            earlier = [[list(map(float, of_night)) for of_night in cell[:night]] for cell in runs]
            rule = Rule(METRICS["iops"], look=history_share(night + 1), campaigns=between_campaigns(earlier))
            for topic, base in enumerate((night - 1, 0)):
                cells = [[RunSample(float(value)) for value in cell[at]] for at in (base, night) for cell in runs]
                found = decide(cells, [0, 0, 1, 1], [([0], [2]), ([1], [3])], rule)
                wrong[topic] |= any(one is not None and one.verdict in {"better", "worse"} for one in found)
            means = [[float(np.log(of_night).mean()) for of_night in cell[: night + 1]] for cell in runs]
            wrong[2] |= any(find_change_points(cell, LIMIT / 2) for cell in means)
        false = [count + is_wrong for count, is_wrong in zip(false, wrong, strict=True)]
    return false


def nights() -> str:
    counts = in_parallel(false_nights, [(seed, TRIALS // 2) for seed in (21, 22)])
    totals = [sum(column) for column in zip(*counts, strict=True)]
    rows = [[topic, share(total)] for topic, total in zip(NIGHT_TOPICS, totals, strict=True)]
    title = f"{NIGHTS} equal nights, 3 % between nights: histories with a false verdict on any night"
    return table(title, ["verdict", "false"], rows)


def found_changes(cells: int, change: float, deviation: float) -> tuple[float, float]:
    """Return the mean number of runs until all is decided, and the share of changed figures that are found."""
    generator = np.random.default_rng(11)
    runs = 0
    found = 0
    trials = TRIALS // 4
    for _ in range(trials):
        sides = []
        for _metric in METRIC_NAMES:
            base, other = (generator.normal(0, deviation, size=(cells, LOOKS[-1])) for _ in range(2))
            sides.append((base, other + math.log1p(change)))
        for look, count in enumerate(LOOKS):
            verdicts = [decision.verdict for decision in family_decisions(sides, count, look_share(look))]
            if "unclear" not in verdicts:
                break
        runs += count
        found += sum(verdict in {"better", "worse"} for verdict in verdicts)
    return runs / trials, found / trials / cells / len(METRIC_NAMES)


def power() -> str:
    cases = [
        (cells, change, deviation)
        for change, deviation in ((0.05, 0.02), (0.05, 0.03), (0.1, 0.03), (0.1, 0.05))
        for cells in (1, 5)
    ]
    rows = []
    for (cells, change, deviation), (runs, found) in zip(cases, in_parallel(found_changes, cases), strict=True):
        rows.append([f"{100 * change:.0f} %", f"{100 * deviation:.0f} %", str(cells), f"{runs:.1f}", share(found, 1)])
    title = "A change in all of three metrics: runs of each side until all is decided, and figures found"
    return table(title, ["change", "runs vary by", "cells", "runs", "found"], rows)


def in_parallel(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the results of a function for all arguments, by as many processes as the machine has processors."""
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        futures = [executor.submit(function, *arguments) for arguments in cases]
        return [future.result() for future in futures]


def false_advice(name: str, cells: int) -> list[str]:
    shape = {**SHAPES, "drift": drift}[name]
    return [share(followed(shape, cells, judge)[0]) for judge in JUDGES.values()]


def advice() -> str:
    cases = []
    for name, cells in itertools.product([*SHAPES, "drift"], (1, 5, 20)):
        if SHAPES.get(name) is not unlike_cells or cells > 1:  # One cell is not unlike others.
            cases.append((name, cells))
    rows = []
    for (name, cells), texts in zip(cases, in_parallel(false_advice, cases), strict=True):
        rows.append([name, str(cells), *texts])
    return table(
        'Equal sides: a false "better" or "worse" after following the advice', ["runs are", "cells", *JUDGES], rows
    )


def look_once(name: str, cells: int, runs: int) -> list[str]:
    texts = []
    shape = SHAPES[name]
    for judge in JUDGES.values():
        generator, false, found, wrong = np.random.default_rng(8), 0, 0, 0
        for _ in range(TRIALS):
            base, other = shape(generator, cells, runs), shape(generator, cells, runs)
            false += any(judge(base, other, 1.0))
            changed = judge(base, other + FASTER, 1.0)
            found += changed.count(1)
            wrong += changed.count(-1)
        texts.append(f"{share(false)} / {share(found, TRIALS * cells)} / {share(wrong, TRIALS * cells)}")
    return texts


def one_look() -> str:
    cases = []
    for name, (cells, runs) in itertools.product(SHAPES, ((1, 5), (5, 3), (20, 3), (20, 5), (20, 10))):
        if SHAPES[name] is not unlike_cells or cells > 1:
            cases.append((name, cells, runs))
    rows = []
    for (name, cells, runs), texts in zip(cases, in_parallel(look_once, cases), strict=True):
        rows.append([name, str(cells), str(runs), *texts])
    return table(
        "One look (`--final`): false in any cell / cells found that are 10 % faster / wrong direction",
        ["runs are", "cells", "repeats", *JUDGES],
        rows,
    )


def coverage_of(name: str) -> list[str]:
    shape = SHAPES[name]
    texts = []
    for cells, runs in ((1, 2), (1, 5), (5, 3), (20, 5)):
        generator, held = np.random.default_rng(9), 0
        for _ in range(TRIALS):
            known = decisions(shape(generator, cells, runs), shape(generator, cells, runs), 1.0)
            held += all((each.low or 0) <= 0 <= (each.high or 0) for each in known)
        texts.append(share(held))
    return texts


def coverage() -> str:
    texts_of_shapes = in_parallel(coverage_of, [(name,) for name in SHAPES])
    rows = [[name, *texts] for name, texts in zip(SHAPES, texts_of_shapes, strict=True)]
    headings = ["runs are", "1 cell, 2 repeats", "1 cell, 5", "5 cells, 3", "20 cells, 5"]
    return table("How often all 95 % intervals of one look hold the true change", headings, rows)


def series(generator: np.random.Generator, count: int, rho: float) -> Sequence[float]:
    """Return a first-order autoregressive series with the mean 100."""
    noise = generator.normal(size=count)
    values = np.empty(count)
    values[0] = noise[0] / math.sqrt(1 - rho**2)
    for at in range(1, count):
        values[at] = rho * values[at - 1] + noise[at]
    return list(values + 100)


def single_runs() -> str:
    rows = []
    for rho in (0.0, 0.5, 0.9):
        texts = []
        for samples in (60, 300):
            generator, held, given = np.random.default_rng(3), 0, 0
            for _ in range(TRIALS):
                two = [series(generator, samples, rho) for _ in range(2)]
                cells = [[RunSample(float(np.mean(values)), values)] for values in two]
                (known,) = decide(cells, [0, 1], [([0], [1])], Rule(METRICS["iops"], look=1.0))
                if known is not None and known.low is not None and known.high is not None:
                    given += 1
                    held += known.low <= 0 <= known.high
            texts.append(share(held, given) + ("" if given == TRIALS else f" of {share(given)}"))
        rows.append([f"{rho}", *texts])
    title = "One run each, with autocorrelation: how often the interval holds the true change"
    return table(title, ["correlation", "60 intervals", "300 intervals"], rows)


def values(run: Any, metric: str) -> float:
    """Return a metric of a measured run: `iops`, or a latency of its busier direction."""
    if metric == "iops":
        return float(sum(direction["iops"] for direction in run.values()))
    return float(run["read" if "read" in run else "write"]["clat_ns"][metric])


def identical_campaigns() -> str:
    campaigns = json.loads(IDENTICAL.read_text())
    rows = []
    for metric in ("iops", "mean", "p99"):
        false = gates = 0
        for two in itertools.permutations(campaigns, 2):
            base, other = (np.log([[values(run, metric) for run in side[cell]] for cell in two[0]]) for side in two)
            known = decisions(base, other, look_share(0))
            false += any(each.verdict in {"better", "worse"} for each in known)
            gates += any((each.high or 0) < 0 for each in known)
        rows.append([metric, f"{false} of 56", f"{gates} of 56"])
    headings = ["metric", 'pairs with a false "better" or "worse"', "`--fail-if 'iops < baseline'` fails"]
    return table("Eight identical campaigns on a loop device", headings, rows)


def page() -> str:
    error = 100 * math.sqrt(0.05 * 0.95 / TRIALS)
    note = f"""{MARK}
In the tables, each figure is from {TRIALS} simulations with fixed seeds; the standard error of a figure near 5 % is
{error:.1f} points. Runs vary by 5 % if the row does not say otherwise. "1 to 30 %": cells vary by so much. "Following
the advice" means to look at 3, 5, 8, 13, 21 and 34 repeats until there is a verdict. limma is the moderated t with a
fitted prior, both sides pooled. With drift, no test of this table is valid: the sides must take turns.
"""
    parts = (families, nights, power, advice, one_look, coverage, single_runs, identical_campaigns)
    return "\n".join([note, *(part() for part in parts)])


if __name__ == "__main__":
    if sys.argv[1:]:  # Names of tables to print, such as `families`
        for name in sys.argv[1:]:
            sys.stdout.write(globals()[name]() + "\n")
        sys.exit()
    PAGE.write_text(PAGE.read_text().partition(MARK)[0].partition("<!-- `scripts/verdicts.py`")[0] + page())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
