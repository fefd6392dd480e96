"""The race finds what simulating every arrangement in full finds."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from blklab.advise import race as racing
from blklab.advise.answer import advise
from blklab.advise.question import Constraints, Question, load_of_mix, load_of_trace, read_pools
from blklab.advise.race import SAME, race
from blklab.advise.samples import BATCHES, Sample, SampleRequest, Simulations, difference
from blklab.advise.search import parse_keywords, space
from blklab.cluster import Parallel
from blklab.errors import UsageError


def question(devices: str, mix: str, failures: int = 1, seed: int = 1) -> Question:
    is_trace = "/" in mix
    pools = read_pools([devices], {}, "used" if is_trace else "fresh")
    load = load_of_trace(mix, "md127", 1) if is_trace else load_of_mix(mix, 8 << 30)
    limits = Constraints(failures=failures, capacity=1 << 40 if is_trace else 0)
    return Question(pools, [load], limits, {"kernel": "6.1"}, seed=seed, directory=Path.cwd())


def sample(batches: list[float]) -> Sample:
    mean = sum(batches) / len(batches)
    return Sample(mean, mean, mean, 1, 1, 0.5, "a", 1, 100, batches, {})


SEARCHES = [
    ("4xhdd-7200", "database", 1),
    ("6xhdd-5400", "virtual-machines", 1),
    ("1xpm983,1xsm883", "database", 1),
    ("4xsm883", "file-server", 1),
    ("6xhdd-7200", "backup", 2),
    ("5xhdd-10000", "file-server", 1),
    ("4xssd-consumer", "virtual-machines", 1),
    ("2xssd-datacenter:64GiB,2xhdd-7200", "database", 1),
    ("3xnvme-consumer", "database", 0),
    ("8xhdd-15000", "backup", 1),
    # The first quarter of the trace does not show what a cache that writes back is good for.
    ("2xpm983:200GiB,4xhdd-7200", "tests/data/traces/pgbench-raid1", 1),
]


@pytest.mark.parametrize(("devices", "mix", "failures"), SEARCHES)
def test_the_winner_is_that_of_brute_force(
    monkeypatch: pytest.MonkeyPatch, devices: str, mix: str, failures: int
) -> None:
    if "/" not in mix:
        monkeypatch.setattr(racing, "LONGEST", 16_384)
    asked = question(devices, mix, failures)
    simulations = Simulations(asked)
    fitting = space(asked, simulations).fitting
    raced = race(asked, fitting, simulations)
    every = race(asked, fitting, Simulations(asked), rounds=(1,))
    levels = {of.level for of in fitting}
    assert {each.arrangement.level for each in (*raced.kept, *raced.others)} == levels
    slower, half = raced.kept[0].slowdown(every.kept[0], [1.0])
    names = (raced.kept[0].arrangement.name, every.kept[0].arrangement.name)
    assert slower - half <= SAME, names
    assert raced.kept[0].mean_ns([1.0]) <= 1.1 * every.kept[0].mean_ns([1.0]), names
    assert raced.simulated_ios <= 0.1 * every.simulated_ios


def test_what_is_to_be_compared_is_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "LONGEST", 4_096)
    asked = question("4xhdd-7200", "database")
    words = [parse_keywords(text) for text in ("raid10,x2", "RAID-5,64k", "far", "raid0")]
    compared = replace(asked, constraints=replace(asked.constraints, comparisons=words[1:3]))
    simulations = Simulations(compared)
    result = race(compared, space(compared, simulations).fitting, simulations)
    tables = [of.arrangement.top_table for of in (*result.kept, *result.others)]
    assert any((table["level"], table.get("chunk")) == (5, "64K") for table in tables)
    assert any((table["level"], table.get("layout")) == (10, "f2") for table in tables)
    with pytest.raises(UsageError, match="--compare raid10,x2: no arrangement of these disks is one; expected levels"):
        space(replace(asked, constraints=replace(asked.constraints, comparisons=words[:1])), simulations)
    # RAID-0 does not survive a failure: the user sees it nevertheless.
    answer = advise(replace(asked, constraints=replace(asked.constraints, comparisons=words[3:])))
    (unsafe,) = [row for row in answer.other_rows if row.arrangement.level == "0"]
    assert unsafe.arrangement.failures == 0
    assert all(row.arrangement.failures for row in answer.rows)


def test_the_same_seed_gives_the_same_answer_on_any_number_of_cores() -> None:
    asked = question("4xhdd-7200", "database")
    answers = []
    for jobs in (1, 3):
        simulations = Simulations(asked, parallel=Parallel(jobs))
        kept = race(asked, space(asked, simulations).fitting, simulations).kept
        answers.append([(each.arrangement.name, each.samples) for each in kept])
    assert answers[0] == answers[1]


def test_a_difference_is_that_of_paired_parts() -> None:
    slow, fast = sample([2e6] * BATCHES), sample([1e6] * BATCHES)
    doubled, half = difference([slow], [fast], [1.0])
    assert doubled == pytest.approx(math.log(2))
    assert half == 0
    # Both vary alike: the pairs differ by 10 % each time.
    waves = [1e6 * (1 + at % 4) for at in range(BATCHES)]
    ratio, half = difference([sample([1.1 * wave for wave in waves])], [sample(waves)], [1.0])
    assert ratio == pytest.approx(math.log(1.1))
    assert 0 < half < 0.05
    # The mean of two loads, by weight.
    both, _ = difference([slow, fast], [fast, fast], [3.0, 1.0])
    assert both == pytest.approx(0.75 * math.log(2))


def test_finished_simulations_are_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    asked = question("2xhdd-7200", "database")
    first = Simulations(asked, file)
    arrangement = space(asked, first).fitting[0]
    request = SampleRequest(arrangement, asked.loads[0], 500)
    measured = first.run([request])
    whole = [line for line in file.read_text().splitlines() if line]
    build, key, figures = json.loads(whole[0])
    with file.open("ab") as stream:
        # Of another build of the simulator, of an older blklab, and cut off by a kill.
        for other in ([["0.1.0", build[1]], key, figures], [key, figures]):
            stream.write(f"\n{json.dumps(other)}".encode())
        stream.write(b'\n["cut off by a kill", {"mean\xff')
    again = Simulations(asked, file)
    assert file.read_text().splitlines() == whole
    assert again.run([request]) == measured
    lines = file.read_text(errors="replace").splitlines()
    again.run([request])
    assert file.read_text(errors="replace").splitlines() == lines
    assert Simulations(asked, tmp_path).run([request]) == measured  # a directory in the place of the file
