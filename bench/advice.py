"""Ask `blklab advise` and the lab the same questions: examples/advice/scenarios.toml.

    .venv/bin/python bench/advice.py [SCENARIO...]

For each question, it builds the three best arrangements of the answer and the worst one on a real kernel. It prints
the mean latency in ms as predicted and measured, the rank correlation (Spearman), and how much slower the advised one
is than the lab's best. A trace has its recorded rate.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

from scipy.stats import spearmanr

from blklab import _core
from blklab.advice.answer import as_toml
from blklab.advice.arrangement import Arrangement
from blklab.advice.question import Constraints, Question, load_of_trace, published_load, read_pools
from blklab.advice.race import Candidate, measured, race
from blklab.advice.samples import Simulations
from blklab.advice.search import space
from blklab.trace.fio import make_plan
from blklab.trace.profile import characterise

DIRECTORY = Path(__file__).parent.parent / "examples/advice"
WORKING_SET = 1 << 30
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
    load = load_of_trace(str(trace), None, 1) if trace else published_load(str(scenario["load"]), WORKING_SET)
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
        file.write_text(as_toml(answer, plans).replace('runtime = "30s"', 'runtime = "12s"\nramp_time = "3s"'))
        predicted, lab = (latencies(file, runner) for runner in ("sim", "lab"))
    print(f"\n{name}")
    for number, arrangement in enumerate(arrangements):
        print(f"  {predicted[number]:7.1f} {lab[number]:7.1f}  {arrangement.words}")
    rank = spearmanr(predicted, lab).statistic
    behind = lab[0] / min(lab) - 1
    print(f"  rank correlation {rank:.2f}; the advised one is {behind:.1%} slower than the lab's best", flush=True)
    return bool(behind <= 0.05)


def chosen(question: Question) -> list[Arrangement]:
    """Return the three best arrangements, of different kinds, and the worst."""
    simulations = Simulations(question)
    fitting = space(question, simulations).fitting
    kept = [candidate.arrangement for candidate in race(question, fitting, simulations).kept]
    every = measured(question, [Candidate(of, None) for of in fitting if not of.spares], simulations, SHORT)
    every.sort(key=lambda candidate: candidate.samples[0].mean_ns)
    best = [*kept[:3], *(candidate.arrangement for candidate in every)]
    words: dict[str, Arrangement] = {}
    for arrangement in best:
        words.setdefault(arrangement.words.split(",")[0], arrangement)
    top = list(words.values())[:3]
    worst = every[-1].arrangement
    return top if worst in top else [*top, worst]


def latencies(file: Path, runner: str) -> list[float]:
    """Return the mean latency of each stack on a runner in ms, in the order of the file."""
    store = file.with_suffix(".db")
    command = [sys.executable, "-m", "blklab.cli", "run", str(file), "--on", runner, "--json", "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{runner}: {done.stderr}")
    means = []
    for run in json.loads(done.stdout):
        directions = [run[name] for name in ("read", "write") if run[name].get("total_ios")]
        total = sum(direction["total_ios"] for direction in directions)
        means.append(sum(each["total_ios"] * each["clat_ns"]["mean"] for each in directions) / total / 1e6)
    return means


if __name__ == "__main__":
    main(sys.argv[1:])
