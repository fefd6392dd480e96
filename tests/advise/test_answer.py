"""Answers: figures, commands, and the experiment that proves them."""

import math
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import altair
import pytest

from blklab.advise import figures, plan_report, report
from blklab.advise import race as racing
from blklab.advise.answer import RULES, Answer, advise, as_toml, join_scripts, script
from blklab.advise.arrangement import Arrangement
from blklab.advise.plan import Plan, PlanPart
from blklab.advise.question import (
    Constraints,
    Question,
    distinct_loads,
    load_of_mix,
    load_of_trace,
    loads_of_experiment,
    loads_of_job_file,
    read_pools,
    split_weight,
)
from blklab.advise.samples import Simulations, ios_of, reduce_outcome
from blklab.errors import BlklabError, UsageError
from blklab.experiment import cells, load
from blklab.md.reliability import Care
from blklab.outcome import NORMAL, DeviceResult, DirectionResult, LatencyResult, Outcome
from blklab.render import picture_export as export

TRACE = Path("tests/data/traces/pgbench-raid1")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "LONGEST", 2_048)


def question(devices: str = "2xhdd-7200:1TiB,1xpm983:64GiB", **limits: object) -> Question:
    loads = [load_of_trace(str(TRACE), "md127", 1)]
    constraints = Constraints(**limits)  # type: ignore[arg-type]
    return Question(read_pools([devices], {}, "fresh"), loads, constraints, {"kernel": "6.1"}, directory=Path.cwd())


def answer(**limits: object) -> Answer:
    return advise(question(**limits))  # type: ignore[arg-type]


def test_rows_have_all_figures() -> None:
    result = answer(excluded_kinds=("bcache", "writecache"))
    best = result.rows[0]
    assert best.headroom is not None and best.headroom > 1
    assert best.rebuild_seconds is not None
    # md rebuilds the smaller member with at most 200 MB/s.
    assert best.rebuild_seconds >= 0.9 * (64 << 30) / 204_800_000
    assert {len(part) for part in (best.today, best.peak, best.degraded, best.rebuilding)} == {1}
    assert best.drive_writes_per_day is not None and best.drive_writes_per_day > 0
    document = report.as_dict(result)
    assert str(document["answer"]).startswith("Build ")
    assert result.result.simulated_ios < result.full_ios


def test_p99_of_merged_directions_is_within_both() -> None:
    (sample,) = answer().rows[0].today
    assert 0 < sample.p50_ns <= sample.p99_ns


def test_the_mean_counts_both_directions_also_if_they_have_as_many_ios() -> None:
    def direction(mean: float) -> DirectionResult:
        return DirectionResult(10, iops=10.0, clat_ns=LatencyResult(10, mean, bins=[[int(mean), 10]]))

    device = DeviceResult("a", [10, 10], sectors=[0, 0], busy_ns=5)
    sample = reduce_outcome(Outcome(10, direction(100.0), direction(300.0), watched_ns=10, devices=[device]))
    assert (sample.mean_ns, sample.p50_ns, sample.p99_ns, sample.busy) == (200.0, 100.0, 300.0, 0.5)


def test_the_experiment_runs(tmp_path: Path) -> None:
    text = as_toml([answer()], {})
    raw = tomllib.loads(text)
    assert raw["workloads"]["trace1"]["timing"] == "recorded"
    plan = cells.plan(load.ExperimentSource(tmp_path / "advice.toml", raw))
    assert len(plan.cells) == min(4, len([name for name in raw["stacks"] if name.startswith("a")])) or plan.cells


def test_a_bound_that_nothing_meets_names_what_is_reached() -> None:
    with pytest.raises(BlklabError, match=r"no arrangement has a 99th percentile below 1 µs: .* relax --p99-below to"):
        answer(p99_ns=1_000)


def test_prices_and_a_bound_choose_the_cheapest() -> None:
    pools = read_pools(["2xhdd-7200:1TiB,2xpm983:64GiB"], {"hdd-7200": 100, "pm983": 400}, "fresh")
    asked = replace(question(), pools=pools, constraints=Constraints(failures=1, p99_ns=10**9))
    best = advise(asked).rows[0]
    # Of the arrays of two such disks, RAID-1 and RAID-10 far 2 differ by less than so short a race can tell.
    assert best.price == 200
    assert sorted(best.arrangement.disks) == ["hdd-7200-1", "hdd-7200-2"]


def test_errors_of_the_same_disks_cancel_between_arrangements() -> None:
    (sample,) = answer().rows[0].today
    known = replace(sample, mean_interval=(0.5, 2.0), devices={"disk": 0.4}, processors=(0.0, 0.0), cached_reads=0.0)
    low, high = known.compare_means(known)
    own = math.sqrt(2) * math.sqrt((math.log(2) / NORMAL) ** 2 - 0.4**2)
    assert [low, high] == pytest.approx([math.exp(-NORMAL * own), math.exp(NORMAL * own)])
    both = math.sqrt(2) * math.log(2)
    assert known.compare_means(replace(known, devices={"other": 0.4}))[1] == pytest.approx(math.exp(both))
    assert known.compare_means(replace(known, cached_reads=10.0))[1] == pytest.approx(math.exp(both))


def test_only_arrangements_that_may_be_as_fast_are_named() -> None:
    result = answer()
    row = result.rows[0]
    (sample,) = row.today

    def with_mean(factor: float) -> figures.ArrangementFigures:
        return replace(row, today=[replace(sample, mean_ns=factor * sample.mean_ns)])

    # The cheapest may be the first one: then number 2, which is surely faster, does not overlap.
    rows = [with_mean(1), with_mean(0.001), with_mean(1.01), with_mean(1000)]
    assert report.numbers_as_fast(replace(result, rows=rows, other_rows=[], present=[])) == ["3"]


def test_data_loss_depends_on_redundancy_and_on_what_a_cache_holds() -> None:
    asked = question("6xhdd-7200:1TiB,1xpm983:64GiB", failures=0)
    hdds = [f"hdd-7200-{number}" for number in range(1, 7)]

    def lost(
        stacks: dict[str, dict[str, object]], of: Question = asked, spares: tuple[str, ...] = (), part: str = "any"
    ) -> float:
        disks = [disk for disk in (*hdds, "pm983-1") if disk in str(stacks)]
        loss = figures.data_loss(of, Arrangement("any", "any", stacks, disks, 1, spares), 36_000)
        return float(getattr(loss, part).mean)

    def array(level: int, count: int, **keys: object) -> dict[str, object]:
        return {"level": level, "members": hdds[:count], **({"chunk": "512K"} if level != 1 else {}), **keys}

    mirror = {"m": array(1, 2)}
    by_level = [lost({"a": array(*of)}) for of in ((6, 4), (1, 2), (5, 4), (5, 6), (0, 4))]
    assert by_level == sorted(by_level)
    assert by_level[0] < 1e-5 < by_level[1] < 1e-2 < by_level[-1]
    near, far = (lost({"a": array(10, 4, layout=layout)}, part="disks") for layout in ("n2", "f2"))
    assert far / near == pytest.approx(2, rel=0.2)  # twice as many pairs of disks share data
    halves = {"b": array(1, 2), "c": {**array(1, 4), "members": hdds[2:4]}}
    assert lost({**halves, "s": {"level": 0, "members": ["b", "c"]}}, part="disks") == pytest.approx(near, rel=0.1)
    cache = {"kind": "lvmcache", "origin": "m", "cache": "pm983-1"}
    assert lost({**mirror, "x": {**cache, "mode": "writethrough"}}) == lost(mirror)
    assert lost({**mirror, "x": {**cache, "mode": "writeback"}}) > 10 * lost(mirror)
    never = replace(asked, care=Care(scrub_days=None, data_age_hours=8766))
    slow = replace(asked, care=Care(replacement_hours=1000))
    assert lost(mirror, never) > 3 * lost(mirror)
    assert lost(mirror, slow) > lost(mirror) > lost(mirror, spares=("hdd-7200-6",))


def test_a_limit_of_data_loss_chooses_a_safer_arrangement() -> None:
    asked = question("4xhdd-7200:1TiB")
    unlimited = advise(asked)
    assert any(row.loss.any.mean > 1e-5 for row in (*unlimited.rows, *unlimited.other_rows))
    limited = replace(asked, constraints=Constraints(loss=1e-5))
    result = advise(limited)
    assert all(row.loss.any.mean <= 1e-5 for row in result.rows)
    assert "loss, 1 in" in [column.heading for column in report.front(result).columns]
    with pytest.raises(
        BlklabError, match=r"every arrangement loses data with a probability above 1e-12 in 5 years: the"
    ):
        advise(replace(asked, constraints=Constraints(loss=1e-12)))


def lines(stacks: dict[str, dict[str, object]], disks: list[str], **keys: object) -> list[str]:
    asked = question()
    of = Arrangement("any", "any", stacks, disks, 1, **keys)  # type: ignore[arg-type]
    pools = read_pools(["6xhdd-7200:1TiB,2xpm983:64GiB"], {}, "fresh")
    node = Simulations(replace(asked, pools=pools)).cell(of, asked.loads[0]).document["stack"]
    return join_scripts([script(of, node, {"hdd-7200-1": "/dev/disk/by-id/ata-A"}, "ext4")])


def test_growth_that_is_not_served_comes_first() -> None:
    result = answer(excluded_kinds=("lvmcache", "bcache", "writecache"))
    grown = replace(result, question=replace(result.question, growth=1000))
    assert report.verdict(grown).startswith("This does not serve 1000 times today's load; no arrangement of the table")
    slow = replace(result.rows[0], headroom=0.5, headroom_is_more=False)
    assert "<1" in report.front(replace(result, rows=[slow])).rows[0]
    owned = replace(result, rows=result.rows[:1], other_rows=[], present=[slow])
    assert (report.present(owned).rows[0][0], as_toml([owned], {})) == ("2", as_toml([replace(owned, present=[])], {}))
    hostile = replace(result.question.loads[0], source="the trace \x1b[2J")
    shown = report.sentences(replace(result, question=replace(result.question, loads=[hostile])))
    assert "\x1b" not in "".join(sentence.text for sentence in shown)
    assert not any("raid" in line for line in result.reasons), result.reasons


def test_a_short_trace_does_not_shorten_a_mix() -> None:
    short = replace(question().loads[0], ios=100)
    asked = replace(question(), loads=[short, load_of_mix("database", 1 << 30)])
    assert (racing.longest(asked), ios_of(short, 2_048)) == (2_048, 100)


def test_the_script_of_an_array() -> None:
    disks = [f"hdd-7200-{number}" for number in range(1, 5)]
    table = {"level": 5, "chunk": "64K", "members": disks, "bitmap": True, "stripe_cache_size": 4096}
    commands = lines({"top": table}, disks)
    assert commands[:3] == [
        "set -eu",
        "disk_1=/dev/disk/by-id/ata-A  # hdd-7200-1",
        "disk_2=/dev/disk/by-id/  # complete this: a hdd-7200",
    ]
    create = "mdadm --create /dev/md/data --run --metadata=1.2 --level=5 --raid-devices=4 --chunk=64K --bitmap=internal"
    assert any(line.startswith(create) for line in commands)
    without = lines({"top": {**table, "bitmap": False}}, disks)
    assert any(line.startswith(create.replace("internal", "none")) for line in without)
    note = next(number for number, line in enumerate(without) if line.startswith("# ") and "Linux 6.19" in line)
    assert note < next(number for number, line in enumerate(without) if line.startswith("mdadm --create"))
    striped = lines({"top": {"level": 0, "chunk": "64K", "members": disks}}, disks)
    assert not any("--bitmap" in line for line in striped), "mdadm 4.2 refuses any, and none exists"
    assert any("CREATE bbl=no" in line for line in commands)
    assert "mkfs.ext4 -E stride=16,stripe_width=48 /dev/md/data" in commands
    assert any('ATTR{md/stripe_cache_size}="4096"' in line for line in commands)


def test_the_scheduler_is_that_of_the_disks_of_the_array_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"level": 1, "members": ["hdd-7200-1", "hdd-7200-2"]}
    commands = lines({"top": table}, ["hdd-7200-1", "hdd-7200-2"], settings={"scheduler": "none"})
    (command,) = [line for line in commands if "queue/scheduler" in line]
    udevadm = tmp_path / "udevadm"
    udevadm.write_text('#!/bin/sh\ncase "$3" in --name=a) echo ID_SERIAL=ATA_A_1;; *) echo ID_MODEL=b;; esac\n')
    udevadm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    rules = tmp_path / "rules"
    script_lines = f"disk_1=a\ndisk_2=b\n{command.replace(RULES, str(rules))}"
    done = subprocess.run(["/bin/sh", "-eu", "-c", script_lines], check=True, capture_output=True, text=True)
    assert done.stderr == "b: udev has no serial number of it: set its scheduler (none) after each boot\n"
    (rule,) = rules.read_text().splitlines()
    assert rule == (
        'SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="ATA_A_1", ATTR{queue/rotational}=="1", '
        'ATTR{queue/scheduler}="none"'
    )


def test_the_script_of_a_cache() -> None:
    stacks: dict[str, dict[str, object]] = {
        "slow": {"level": 1, "members": ["hdd-7200-1", "hdd-7200-2"], "bitmap": True},
        "top": {"kind": "lvmcache", "origin": "slow", "cache": "pm983-1", "mode": "writethrough", "chunk": 65536},
    }
    commands = lines(stacks, ["hdd-7200-1", "hdd-7200-2", "pm983-1"], sizes={"pm983-1": 60 << 30})
    assert [line for line in commands if line.startswith(("vg", "lv"))] == [
        'vgcreate data /dev/md/data-part1 "$disk_3"',
        "lvcreate --yes --name data --extents 100%PVS data /dev/md/data-part1",
        'lvcreate --yes --activate n --name fast --size 60g data "$disk_3"',
        "lvconvert --yes --type cache --chunksize 64k --cachemode writethrough --cachevol fast data/data",
    ]


def test_the_script_stops_before_it_writes(tmp_path: Path) -> None:
    disks = ["hdd-7200-1", "hdd-7200-2"]
    file = tmp_path / "advice.sh"
    file.write_text("\n".join(lines({"top": {"level": 1, "members": disks}}, disks)))
    done = subprocess.run(["/bin/sh", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "/dev/disk/by-id/ata-A: no such disk: complete the names above\n"


def test_the_script_of_a_bcache_finds_its_number() -> None:
    stacks: dict[str, dict[str, object]] = {
        "top": {"kind": "bcache", "backing": "hdd-7200-1", "cache": "pm983-1", "mode": "writeback"}
    }
    commands = lines(stacks, ["hdd-7200-1", "pm983-1"])
    assert 'make-bcache --writeback -B "$disk_1" -C "$disk_2"' in commands
    assert 'mkfs.ext4 "$bcache"' in commands


def test_a_filesystem_over_several_parity_arrays_asks_the_kernel() -> None:
    parts: dict[str, dict[str, object]] = {
        f"part{at}": {"level": 5, "members": [f"hdd-7200-{3 * at + number}" for number in (1, 2, 3)]} for at in (0, 1)
    }
    commands = lines(
        {**parts, "top": {"level": 0, "members": ["part0", "part1"]}}, [f"hdd-7200-{n}" for n in range(1, 7)]
    )
    assert any("/dev/md/data-part2 --run" in line for line in commands)
    assert "mkfs.ext4 /dev/md/data" in commands


def test_the_page_escapes_names() -> None:
    result = answer()
    hostile = replace(result.question.loads[0], source="<script>alert(1)</script>")
    part = PlanPart("data", replace(result, question=replace(result.question, loads=[hostile])))
    page = plan_report.render(Plan([part], []), title="<b>", command="blklab advise")
    assert "<script>alert" not in page
    assert "To build it on Debian" in page


def test_the_page_has_the_answer_and_the_table_before_the_reasons() -> None:
    plan = Plan([PlanPart("data", answer())], [])
    page = plan_report.render(plan, title="advice", command="blklab advise")
    places = [page.index(text) for text in (">Build<", "None of these is better", "Latency and capacity", ">Search<")]
    assert places == sorted(places)
    chart = report.chart(answer())
    assert chart is not None
    altair.Chart.from_dict(export.standalone(chart), validate=True)


def test_labels_of_near_points_are_one_label() -> None:
    points = [(1.0, 10.0, "1"), (1.0, 10.1, "2"), (1.0, 20.0, "3"), (3.0, 10.0, "4")]
    rows = [{"tebibytes": tebibytes, "milliseconds": latency, "name": name} for tebibytes, latency, name in points]
    assert [row["name"] for row in report.merge_labels(rows, 0.1, 0.5)] == ["1, 2", "4", "3"]


def test_loads_of_files(tmp_path: Path) -> None:
    sections = "[a]\nrw=randread\ndirect=1\nsize=1g\n[b]\nstonewall\nrw=write\ndirect=1\nsize=1g\n"
    (tmp_path / "two.fio").write_text(sections)
    first, other = loads_of_job_file(f"{tmp_path}/two.fio=3")
    assert (first.name, other.name, first.weight) == ("two-1", "two-2", 1.5)
    (randomio,) = loads_of_experiment("accuracy/randomio/six.toml")
    assert randomio.table["runtime"] == "60s"
    names = [load.name for load in loads_of_experiment("examples/unbalanced.toml")]
    assert "randread" in names
    with pytest.raises(UsageError, match="two loads are called 'database'"):
        distinct_loads([load_of_mix("database", 1 << 30), load_of_mix("database", 1 << 30)])
    with pytest.raises(UsageError, match="no such mix; did you mean 'database'"):
        load_of_mix("databse", 1 << 30)
    assert split_weight("a=b") == ("a=b", 1.0)
    with pytest.raises(UsageError, match="expected a weight above 0"):
        split_weight("database=0")
