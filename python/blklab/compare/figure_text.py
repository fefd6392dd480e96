"""The figures of comparisons as text: values, changes, intervals and numbers of repeats."""

import math

from blklab.compare.comparison import CellValue
from blklab.compare.decision import MOST_REPEATS, Decision
from blklab.compare.metrics import METRICS
from blklab.render import formatting


def figure(metric: str, amount: float) -> str:
    match METRICS[metric].kind:
        case "time":
            return formatting.duration(amount)
        case "bandwidth":
            return formatting.rate(amount)
        case "number":
            return f"{amount:,.6g}"
        case "cpus":
            return f"{amount:.2f}"
    return f"{amount:,.0f}"


def cell_figure(metric: str, value: CellValue) -> str:
    """Returns the value of a row; `not known` for a prediction with a wide interval."""
    return figure(metric, value.mean) if value.known else formatting.UNKNOWN


def change(share: float) -> str:
    """Returns a change in percent with its sign; a factor of 100 or more is shown as a factor."""
    if share >= 100:
        return ">+10,000 %"
    return f"{100 * share:+.1f} %".replace("-", "−")


def change_of(decision: Decision) -> str:
    """Returns the change of a decision; `not known` if its predictions are not, and their ratio is not either."""
    return change(decision.change) if decision.known else formatting.UNKNOWN


def interval(difference: Decision) -> str:
    """Returns the confidence interval, or a dash."""
    if difference.low is None or difference.high is None:
        return formatting.NONE
    return f"{change(difference.low)} to {change(difference.high)}"


def probability(p: float | None) -> str:
    if p is None:
        return formatting.NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def more_repeats(count: int) -> str:
    """Returns how many more repeats are needed."""
    if count > MOST_REPEATS:
        return f"over {MOST_REPEATS} more repeats"
    return formatting.plural(count, "more repeat")


def deviation(cell_value: CellValue) -> float:
    """Returns the largest distance of a run from the mean, as a share of the mean; 0 of a single run."""
    if cell_value.runs == 1 or not cell_value.mean:
        return 0.0
    return max(cell_value.most - cell_value.mean, cell_value.mean - cell_value.least) / cell_value.mean


def chance(change: float) -> float:
    """Returns the standard deviation of runs with which one run each differs at least so much in 5 % of cases."""
    return math.expm1(abs(math.log(max(1 + change, 1e-9))) / (1.96 * math.sqrt(2)))
