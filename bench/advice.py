"""Ask `blklab advise` and the lab the same questions: examples/advice/scenarios.toml.

    .venv/bin/python bench/advice.py [SCENARIO...]

For each question, it builds the advised arrangement, the best of each other level and the worst of all on a real
kernel, several times each. It prints the mean latency in ms as predicted and measured, the rank correlation
(Spearman), and how much slower the advised one is than the lab's best. A trace has its recorded rate.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

from scipy.stats import spearmanr

from blklab import _core
from blklab.advise.answer import as_toml
from blklab.advise.arrangement import Arrangement
from blklab.advise.question import Constraints, Question, load_of_mix, load_of_trace, read_pools
from blklab.advise.race import Candidate, race, simulate_candidates
from blklab.advise.samples import Simulations
from blklab.advise.search import space
from blklab.trace.fio import make_plan
from blklab.trace.profile import characterise

DIRECTORY = Path(__file__).parent.parent / "examples/advice"
WORKING_SET = 1 << 30
MOST = 6  # Arrangements of a scenario, if there are not more levels
SETTINGS = 'runtime = "8s"\nramp_time = "2s"'
SHORT = 2_048  # I/Os with which the worst arrangement is found


def main(names: list[str]) -> None:
    """Print a line for each arrangement, and a summary for each scenario."""
    scenarios = tomllib.loads((DIRECTORY / "scenarios.toml").read_text())
    os.chdir(DIRECTORY)
    good = 0
    for name in names or scenarios:
        good += ask(name, scenarios[name])
    print(f"the advised arrangement is the lab's best, or within 5 %: {good} of {len(names or scenarios)}")


def ask(name: str, scenario: dict[str, object]) -> bool:
    """Print a scenario; whether the advised arrangement is the lab's best or within 5 %."""
    trace = scenario.get("trace")
    load = load_of_trace(str(trace), None, 1) if trace else load_of_mix(str(scenario["load"]), WORKING_SET)
    constraints = Constraints(failures=int(str(scenario.get("failures", 1))))
    pools = read_pools([str(scenario["devices"])], {}, "fresh")
    question = Question(pools, [load], constraints, {"kernel": "6.1"}, directory=Path.cwd())
    arrangements = chosen(question)
    plans = {}
    if trace:
        profile = characterise([str(trace)], _core.Filter(devices=[str(load.table["device"])]))
        plans[load.name] = make_plan(profile)
    answer = SimpleNamespace(question=question, rows=[SimpleNamespace(arrangement=each) for each in arrangements])
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "advice.toml"
        file.write_text(
            as_toml(answer, plans, max_rows=len(arrangements))
            .replace('runtime = "30s"', SETTINGS)
            .replace("seed =", "repeats = 3\nseed =")
        )
        predicted, lab = (latencies(file, runner) for runner in ("sim", "lab"))
    print(f"\n{name}")
    for number, arrangement in enumerate(arrangements):
        print(f"  {predicted[number]:7.3g} {lab[number]:7.3g}  {arrangement.words}")
    rank = spearmanr(predicted, lab).statistic
    behind = lab[0] / min(lab) - 1
    print(f"  rank correlation {rank:.2f}; the advised one is {behind:.1%} slower than the lab's best", flush=True)
    return bool(behind <= 0.05)


def chosen(question: Question) -> list[Arrangement]:
    """Return the advised arrangement, the best of each other level, and the worst of all: at least MOST of them."""
    simulations = Simulations(question)
    fitting = [of for of in space(question, simulations).fitting if not of.spares]
    result = race(question, fitting, simulations)
    every = simulate_candidates(question, [Candidate(of, None) for of in fitting], simulations, SHORT)
    every.sort(key=lambda candidate: candidate.samples[0].mean_ns)
    best, *others = [candidate.arrangement for candidate in (*result.kept, *result.others)]
    by_level = list({of.level: of for of in reversed(others)}.values())
    slow = [candidate.arrangement for candidate in reversed(every)]
    listed = {of.name: of for of in (best, *reversed(by_level), slow[0], *others, *slow)}
    return list(listed.values())[: max(MOST, 2 + len(by_level))]


def latencies(file: Path, runner: str) -> list[float]:
    """Return the mean latency of each stack on a runner in ms, in the order of the file."""
    store = file.with_suffix(".db")
    command = [sys.executable, "-m", "blklab.cli", "run", str(file), "--on", runner, "--json", "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{runner}: {done.stderr}")
    means: dict[str, list[float]] = {}
    for run in json.loads(done.stdout):
        directions = [run[name] for name in ("read", "write") if run[name].get("total_ios")]
        total = sum(direction["total_ios"] for direction in directions)
        mean = sum(each["total_ios"] * each["clat_ns"]["mean"] for each in directions) / total / 1e6
        means.setdefault(run["labels"]["stack"], []).append(mean)
    return [fmean(repeats) for repeats in means.values()]


if __name__ == "__main__":
    main(sys.argv[1:])
