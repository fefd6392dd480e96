#!/usr/bin/env python3
"""Write the tables of docs/explanation/verdicts.md: simulations of decisions, with fixed seeds.

The figures of the former code (bootstrap, Holm) are kept in verdicts-before.json next to the page.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/verdicts.md"
BEFORE = ROOT / "docs/explanation/verdicts-before.json"
IDENTICAL = ROOT / "tests/data/identical-campaigns.json"
MARK = "<!-- `scripts/verdicts.py` writes the rest of this page. -->\n"

TRIALS = 1000
COUNTS = (2, 3, 5, 10)

Cells = Sequence[Sequence[float]]
Answer = tuple[float | None, float | None, str]
"""The ends of the interval, and the verdict."""

Decide = Callable[[Cells, Cells], list[Answer]]
"""Compares cells of two sides; each cell is a list of values."""

Single = Callable[[Sequence[float], Sequence[float]], Answer]
"""Compares two runs, given as series."""


def present(base: Cells, other: Cells) -> list[Answer]:
    """Decide with the present code."""
    from blklab.analysis.decision import Rule, decide
    from blklab.analysis.metrics import METRICS
    from blklab.analysis.variation import RunSample

    cells = [[RunSample(value) for value in cell] for cell in [*base, *other]]
    sides = [0] * len(base) + [1] * len(base)
    pairs = [([at], [at + len(base)]) for at in range(len(base))]
    known = decide(cells, sides, pairs, Rule(METRICS["iops"]))
    return [(each.low, each.high, each.verdict) for each in known if each]


def present_single(base: Sequence[float], other: Sequence[float]) -> Answer:
    """Decide about two runs with the present code."""
    from blklab.analysis.decision import Rule, decide
    from blklab.analysis.metrics import METRICS
    from blklab.analysis.variation import RunSample

    cells = [[RunSample(float(np.mean(series)), list(series))] for series in (base, other)]
    known = decide(cells, [0, 1], [([0], [1])], Rule(METRICS["iops"]))
    return next((each.low, each.high, each.verdict) for each in known if each)


def draw(generator: np.random.Generator, shape: str, cv: float, count: int) -> Sequence[float]:
    """Return values with the mean 1."""
    if shape == "normal":
        return list(np.maximum(generator.normal(1, cv, size=count), 0.01))
    sigma = math.sqrt(math.log1p(cv**2))
    return list(np.exp(generator.normal(-(sigma**2) / 2, sigma, size=count)))


def series(generator: np.random.Generator, count: int, rho: float) -> Sequence[float]:
    """Return a first-order autoregressive series with the mean 100."""
    noise = generator.normal(size=count)
    values = np.empty(count)
    values[0] = noise[0] / math.sqrt(1 - rho**2)
    for at in range(1, count):
        values[at] = rho * values[at - 1] + noise[at]
    return list(values + 100)


def holds(answer: Answer) -> bool:
    """Return whether an interval includes 0."""
    return answer[0] is not None and answer[1] is not None and answer[0] <= 0 <= answer[1]


def share(count: float, of: float = TRIALS) -> str:
    return f"{100 * count / of:.0f} %" if of else "none"


def measured(decide: Decide, single: Single) -> dict[str, str]:
    """Return all figures of the tables, by row and column."""
    figures: dict[str, str] = {}
    for shape, (first, second), count in itertools.product(
        ("normal", "lognormal"), ((0.01, 0.01), (0.05, 0.05), (0.3, 0.3), (0.05, 0.15)), COUNTS
    ):
        generator = np.random.default_rng(1)
        answers = [
            decide([draw(generator, shape, first, count)], [draw(generator, shape, second, count)])
            for _ in range(TRIALS)
        ]
        figures[f"coverage {shape} {first:.0%} {second:.0%} {count}"] = share(
            sum(holds(answer[0]) for answer in answers)
        )
    for cv, count in itertools.product((0.01, 0.05, 0.15, 0), COUNTS):
        generator = np.random.default_rng(2)
        variations = [cv] * 5 if cv else [0.01, 0.3, 0.05, 0.1, 0.02]
        false = gates = power = 0
        for _ in range(TRIALS):
            base, other = ([draw(generator, "normal", each, count) for each in variations]
                           for _ in range(2))  # fmt: skip
            answers = decide(base, other)
            false += any(answer[2] in {"better", "worse"} for answer in answers)
            gates += any(answer[1] is not None and answer[1] < 0 for answer in answers)
            faster = [[1.1 * value for value in cell] for cell in other]
            power += sum(answer[2] == "better" for answer in decide(base, faster))
        name = f"{cv:.0%}" if cv else "1 to 30 %"
        figures[f"false {name} {count}"] = share(false)
        figures[f"gates {name} {count}"] = share(gates)
        figures[f"power {name} {count}"] = share(power, 5 * TRIALS)
    for rho, samples in itertools.product((0.0, 0.5, 0.9), (30, 60, 300)):
        generator = np.random.default_rng(3)
        answers = [single(series(generator, samples, rho), series(generator, samples, rho)) for _ in range(TRIALS // 2)]
        given = [answer for answer in answers if answer[0] is not None]
        text = share(sum(map(holds, given)), len(given))
        part = "" if len(given) in {0, len(answers)} else f" of {share(len(given), len(answers))}"
        figures[f"single {rho} {samples}"] = text + part
    return {**figures, **real(decide)}


def values(run: Any, metric: str) -> float:
    """Return a metric of a measured run: `iops`, or a latency of its busier direction."""
    if metric == "iops":
        return float(sum(direction["iops"] for direction in run.values()))
    return float(run["read" if "read" in run else "write"]["clat_ns"][metric])


def real(decide: Decide) -> dict[str, str]:
    """Return the false verdicts and gates of all ordered pairs of identical campaigns."""
    campaigns = json.loads(IDENTICAL.read_text())
    figures = {}
    for metric in ("iops", "mean", "p99"):
        false = gates = 0
        for base, other in itertools.permutations(campaigns, 2):
            answers = decide(
                *([[values(run, metric) for run in side[cell]] for cell in base]
                  for side in (base, other))
            )  # fmt: skip
            false += any(answer[2] in {"better", "worse"} for answer in answers)
            gates += any(answer[1] is not None and answer[1] < 0 for answer in answers)
        figures[f"real {metric} false"] = f"{false} of 56"
        figures[f"real {metric} gates"] = f"{gates} of 56"
    return figures


def table(title: str, rows: dict[str, list[str]], head: Sequence[str]) -> str:
    """Return a table in Markdown under a title; cells are names of figures."""
    old, new = json.loads(BEFORE.read_text()), FIGURES
    lines = [f"## {title}\n", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, keys in rows.items():
        lines.append(f"| {name} | {' | '.join(f'{old[key]} → {new[key]}' for key in keys)} |")
    return "\n".join(lines) + "\n"


FIGURES: dict[str, str] = {}


def page() -> str:
    """Return the generated part of the page."""
    counts = [f"{count} repeats" for count in COUNTS]
    spreads = ((0.01, 0.01), (0.05, 0.05), (0.3, 0.3), (0.05, 0.15))
    parts = [
        f"""{MARK}
The tables below show the former code (bootstrap, Holm's correction) → the present code, in
{TRIALS:,} simulations for each figure, with fixed seeds. "Runs vary" is the standard deviation of
runs as a share of their mean.
""",
        table(
            "How often a 95 % interval holds the true change",
            {
                f"{shape}, {first:.0%} and {second:.0%}": [
                    f"coverage {shape} {first:.0%} {second:.0%} {count}" for count in COUNTS
                ]
                for shape in ("normal", "lognormal")
                for first, second in spreads
            },
            ["runs vary", *counts],
        ),
        *(
            table(
                title,
                {name: [f"{key} {name} {count}" for count in COUNTS] for name in ("1%", "5%", "15%", "1 to 30 %")},
                ["runs vary", *counts],
            )
            for key, title in (
                ("false", 'Five equal cells: a false "better" or "worse" in any of them'),
                ("gates", "Five equal cells: a false `--fail-if 'iops < baseline' --sure`"),
                ("power", "Five cells that are 10 % faster: how many are found"),
            )
        ),
        table(
            "One run each, with autocorrelation: how often the interval holds the true change",
            {f"correlation {rho}": [f"single {rho} {samples}" for samples in (30, 60, 300)] for rho in (0.0, 0.5, 0.9)},
            ["", "30 intervals", "60 intervals", "300 intervals"],
        ),
        table(
            "Eight identical campaigns on a loop device",
            {metric: [f"real {metric} false", f"real {metric} gates"] for metric in ("iops", "mean", "p99")},
            ["metric", 'pairs with a false "better" or "worse"', "false gates"],
        ),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    FIGURES.update(measured(present, present_single))
    text = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(text + page())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
