"""Plans: which loads get which disks, and what the screen says of it."""

import io
import math
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from blklab.advise import answer as answers
from blklab.advise import plan_report, summary
from blklab.advise import race as racing
from blklab.advise.answer import Answer, advise
from blklab.advise.arrangement import Arrangement
from blklab.advise.figures import YEARS, ArrangementFigures
from blklab.advise.plan import Plan, PlanPart, make_plan
from blklab.advise.question import Constraints, Question, read_pools
from blklab.advise.rated_loads import load_of_name
from blklab.advise.samples import join_loads, runs_together
from blklab.advise.search import required_capacity
from blklab.errors import BlklabError
from blklab.experiment import cells, load
from blklab.render import formatting

CACHES = ("lvmcache", "bcache", "writecache")  # Excluded where only the place of loads matters
HOMELAB = "2x990 PRO 1TB,4xN300:8TB"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "LONGEST", 1_024)


def question(devices: str, *loads: str, **limits: object) -> Question:
    constraints = Constraints(**limits)  # type: ignore[arg-type]
    named_loads = [load_of_name(text, None) for text in loads]
    return Question(read_pools([devices], {}, "steady"), named_loads, constraints, {"kernel": "6.1"})


def find(asked: Question, name: str) -> Answer:
    return advise(asked, name=name)


def plan(devices: str, *loads: str, **limits: object) -> Plan:
    return make_plan(question(devices, *loads, **limits), find, together=False)


@cache
def homelab() -> Plan:
    """The plan that most tests look at, which is made once."""
    return plan(HOMELAB, "vm:12", "media:3")


def disks_of(result: Plan) -> dict[str, set[str]]:
    """The models of the disks of each part."""
    return {
        part.name: {disk.rpartition("-")[0] for disk in part.answer.rows[0].arrangement.disks} for part in result.parts
    }


def test_machines_get_flash_and_films_get_rotating_disks() -> None:
    result = homelab()
    assert disks_of(result) == {"fast": {"990-pro"}, "large": {"n300-8tb"}}
    assert [part.load_names for part in result.parts] == ["vm", "media"]
    assert (result.unused, result.together_reason) == ([], "")
    fast, large = (part.answer.rows[0] for part in result.parts)
    assert fast.arrangement.level == "1"
    # RAID-5 has more room, but it loses data more often than the usual limit.
    assert large.loss.any.mean <= answers.USUAL_LOSS
    risky = [row for row in result.parts[1].answer.rows if row.arrangement.level == "5"]
    assert risky and all(row.loss.any.mean > answers.USUAL_LOSS for row in risky)


def test_disks_that_no_load_needs_are_free() -> None:
    only_machines = plan(HOMELAB, "vm:12")
    assert disks_of(only_machines) == {"fast": {"990-pro"}}
    assert only_machines.unused == ["4 × n300-8tb, 29.1 TiB: free for other data; vm fits on the flash disks."]
    only_films = plan(HOMELAB, "media:3")
    assert disks_of(only_films) == {"large": {"n300-8tb"}}
    assert len(only_films.unused) == 1 and only_films.unused[0].startswith("2 × 990-pro, 1.82 TiB: free for other data")


def test_loads_that_do_not_fit_on_flash_share_all_disks() -> None:
    result = plan(HOMELAB, "vm:60", excluded_kinds=CACHES)  # 60 × 19.4 GB
    assert list(disks_of(result)) == ["data"]
    assert "The flash disks alone cannot serve vm: no arrangement of these disks has 1.06 TiB" in result.together_reason
    assert "n300-8tb" in disks_of(result)["data"]


def test_loads_that_share_an_array_need_room_for_all() -> None:
    with pytest.raises(BlklabError, match=r"no arrangement of these disks has 72.3 GiB"):
        plan("2xpm983:64GiB", "vm:2", "vm:2")
    assert [part.name for part in plan("2xpm983:128GiB", "vm:2", "vm:2").parts] == ["data"]


def test_a_safer_array_without_a_drawback_is_the_answer() -> None:
    asked = question("2xpm983:64GiB,2xhdd-7200:1TiB", "database", excluded_kinds=("bcache", "writecache"))
    first, *_ = make_plan(asked, find, together=True).answers[0].rows
    risky = replace(first, loss=first.loss._replace(any=first.loss.any._replace(mean=0.002)))
    safe = replace(first, loss=first.loss._replace(any=first.loss.any._replace(mean=0.0005)))
    small = replace(safe, arrangement=replace(first.arrangement, capacity=first.arrangement.capacity // 2))
    assert answers._prefer_safe(asked, [risky, safe]) == [safe, risky]
    assert answers._prefer_safe(asked, [risky, small]) == [risky, small]
    # Of rotating disks, what loses data more often than usual comes last.
    disks = ["hdd-7200-1", "hdd-7200-2"]
    rotating = replace(risky, arrangement=replace(risky.arrangement, disks=disks))
    assert answers._prefer_safe(asked, [rotating, small]) == [small, rotating]


def test_an_array_that_never_lost_data_can_be_sorted() -> None:
    asked = replace(question("4xhdd-7200:1TiB", "media:2"), largest_first=True)
    first, *_ = homelab().parts[1].answer.rows
    never = replace(first, loss=first.loss._replace(any=first.loss.any._replace(mean=0.0)))
    assert answers._sort_by_capacity(asked, [first, never]) == [never, first]


def test_a_single_flash_disk_is_no_place_for_what_must_survive_a_failure() -> None:
    result = plan("1x990 PRO 1TB,2xN300:8TB", "vm:4", excluded_kinds=CACHES)
    assert list(disks_of(result)) == ["data"]
    assert "survives 1 failure" in result.together_reason


def test_room_that_is_asked_for_is_on_the_rotating_disks() -> None:
    result = plan(HOMELAB, "vm:12", "media:3", capacity=20 * 10**12)
    large = result.parts[1].answer.rows[0].arrangement
    assert large.capacity >= 20 * 10**12
    alone = plan(HOMELAB, "vm:12", capacity=10 * 10**12, excluded_kinds=CACHES)
    assert list(disks_of(alone)) == ["data"]
    assert alone.answers[0].rows[0].arrangement.capacity >= 10 * 10**12


@pytest.mark.parametrize("limits", [{"drives": 4}, {"comparisons": [["10"]]}, {"budget": 100.0}])
@pytest.mark.parametrize("together", [False, True])
def test_limits_for_all_disks_ask_for_one_array(limits: dict[str, object], together: bool) -> None:
    searched = []

    def record(_asked: Question, name: str) -> Answer:
        searched.append(name)
        raise BlklabError("enough")

    asked = question(HOMELAB, "vm:4", "media:2", **({} if together else limits))
    with pytest.raises(BlklabError, match="enough"):
        make_plan(asked, record, together=together)
    assert searched == ["data"]


def test_the_plan_fits_on_one_screen() -> None:
    result = homelab()
    output = io.StringIO()
    console = Console(width=80, file=output)
    plan_report.print_plan(console, result, full=False, script=False)
    text = output.getvalue()
    lines = text.rstrip("\n").split("\n")
    assert len(lines) <= 24, text
    assert max(len(line.rstrip()) for line in lines) <= 80
    topics = [line.split("  ")[0] for line in lines if line[:1] not in {" ", ""}]
    assert topics == ["Build", "Gives", "Or", "Failure", "Wear", "Basis", "More"]
    assert "more room (21.8 TiB instead of" in " ".join(text.split())


def test_what_is_lost_without_redundancy_is_said() -> None:
    result = plan("2xpm983:64GiB", "postgresql:100tps", failures=0)
    best = result.answers[0].rows[0]
    bare = replace(result.answers[0], rows=[replace(best, arrangement=replace(best.arrangement, failures=0))])
    part = replace(result.parts[0], answer=bare)
    (failure,) = [line.text for line in summary.sentences(Plan([part], [])) if line.topic == "Failure"]
    assert failure.startswith(f"all data are lost. Within {YEARS} years: ")
    assert "; a block that cannot be read: " in failure


def test_a_rebuild_that_does_not_end_is_said() -> None:
    result = plan("4xhdd-7200:1TiB", "media:2")
    best = replace(result.answers[0].rows[0], rebuild_seconds=1e8)
    part = replace(result.parts[0], answer=replace(result.answers[0], rows=[best]))
    (failure,) = [line.text for line in summary.sentences(Plan([part], [])) if line.topic == "Failure"]
    # 1 TiB at md's limit of 200,000 KiB a second
    assert "Filling a new disk takes 1h 29m at least, and more than a month if the load never pauses." in failure


def test_a_cache_that_wears_out_does_not_win_by_little() -> None:
    asked = question("2xpm983:64GiB,2xhdd-7200:1TiB", "database", excluded_kinds=("bcache", "writecache"))
    result = make_plan(asked, find, together=True).answers[0]
    plain = next(row for row in [*result.rows, *result.other_rows] if "cache" not in row.arrangement.top_table)
    cached = next(row for row in [*result.rows, *result.other_rows] if "cache" in row.arrangement.top_table)
    (sample,) = plain.today
    near = replace(cached, today=[replace(sample, mean_ns=0.95 * sample.mean_ns)], rated_years=1.0)
    far = replace(near, today=[replace(sample, mean_ns=0.5 * sample.mean_ns)])
    lasting = replace(near, rated_years=math.inf, arrangement=two_cache_disks(near))
    assert answers._prefer_durable(asked, [near, plain]) == [plain, near]
    assert answers._prefer_durable(asked, [far, plain]) == [far, plain]
    assert answers._prefer_durable(asked, [lasting, plain]) == [lasting, plain]


def two_cache_disks(row: ArrangementFigures) -> Arrangement:
    """The arrangement with a cache of copies, which no single disk holds alone."""
    return row.arrangement.change_stack(row.arrangement.top, mode="writethrough")


def test_the_script_checks_all_disks_before_it_writes_to_any(tmp_path: Path) -> None:
    lines = homelab().script()
    assert lines[0] == "set -eu"
    variables = [line.split("=")[0] for line in lines if "# complete this" in line]
    assert len(variables) == len(set(variables)) == 6
    writes = [number for number, line in enumerate(lines) if line.startswith(("mdadm --create", "mkfs", "echo"))]
    checks = [number for number, line in enumerate(lines) if line.startswith("for ")]
    assert max(checks) < min(writes)
    for name in ("fast", "large"):
        assert sum(f"mdadm --create /dev/md/{name} " in line for line in lines) == 1
        assert f"mount /srv/{name}" in lines
    file = tmp_path / "plan.sh"
    file.write_text("\n".join(lines))
    done = subprocess.run(["/bin/sh", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "/dev/disk/by-id/: no such disk: complete the names above\n")


def test_the_experiment_has_each_load_on_its_own_disks(tmp_path: Path) -> None:
    raw = tomllib.loads(homelab().experiment({}))
    planned = cells.plan(load.ExperimentSource(tmp_path / "advice.toml", raw))
    pairs = {(str(cell.labels["workload"]), "990-pro" in str(cell.labels["stack"])) for cell in planned.cells}
    assert pairs == {("vm", True), ("media", False)}


def test_the_page_has_all_parts() -> None:
    page = plan_report.render(homelab(), title="Which array to build", command="")
    for text in ("Arrangements for vm", "Arrangements for media", "mdadm --create /dev/md/large", ">Failure<"):
        assert text in page
    assert page.count('id="front-fast"') == page.count('id="front-large"') == 1


EXPERTS = [
    # Large disks for media, fast ones for virtual machines
    ([HOMELAB, "vm:12", "media:3"], {"fast": "1", "large": "6"}, "https://rogersmith.codeberg.page/homelab/storage"),
    # "For drives 8TB and above, RAID 6"
    (
        ["4xWD Red Plus 8TB", "media:3"],
        {"data": "6"},
        "https://needtoknowit.com.au/blog/is-raid-5-still-safe-with-large-drives/",
    ),
    # Six disks and more: RAID 6
    (["6xN300 8TB", "media:4"], {"data": "6"}, "https://thediskguide.com/tools/raid-calculator"),
    # RAID 1 for transactions
    (
        ["2xPM983 960GB", "postgresql:800tps"],
        {"data": "1"},
        "https://shiviyer.hashnode.dev/impact-of-raid-configurations-on-postgresql-performance-a-detailed-analysis",
    ),
    # RAID 5 for cameras
    (
        ["4xWD Purple 8TB", "surveillance:16"],
        {"data": "5"},
        "http://www.securityinfowatch.com/article/10552688/understanding-raid-systems-for-surveillance-storage",
    ),
    # RAID 6 for all disks above 1 TB
    (
        ["6xExos X16 16TB", "backup"],
        {"data": "6"},
        "https://www.ibm.com/docs/en/ds8000-10th-generation/10.0?topic=implementation-raid-10-overview",
    ),
]


@pytest.mark.parametrize(("asked", "levels", "source"), EXPERTS)
def test_answers_are_those_of_experts(asked: list[str], levels: dict[str, str], source: str) -> None:
    result = homelab() if asked[0] == HOMELAB else plan(*asked, excluded_kinds=CACHES)
    assert {part.name: part.answer.rows[0].arrangement.level for part in result.parts} == levels, source


TOGETHER = ("vm:20", "postgresql:800tps")


def test_loads_with_rates_that_share_an_array_run_at_the_same_time() -> None:
    asked = question("2xpm983:960GB", *TOGETHER)
    assert runs_together(asked)
    both = advise(asked)
    alone = [advise(question("2xpm983:960GB", load)) for load in TOGETHER]
    first = both.rows[0]
    for one, sample in zip(asked.loads, first.today, strict=True):
        assert sample.iops == pytest.approx(one.rate, rel=0.1), one.name
        assert 0 < sample.p50_ns < 1.2 * sample.mean_ns < sample.p99_ns
    assert (first.headroom or 0) < min(answer.rows[0].headroom or 0 for answer in alone)
    for sample, answer in zip(first.today, alone, strict=True):
        # Each load finds some bits of the bitmap set by the other, and disks that are busier.
        assert 0.5 < sample.mean_ns / answer.rows[0].today[0].mean_ns < 2
        assert 0.4 < sample.p99_ns / answer.rows[0].today[0].p99_ns < 2.5
    # What both write is written once.
    separate = sum(answer.rows[0].drive_writes_per_day or 0 for answer in alone)
    assert first.drive_writes_per_day == pytest.approx(separate, rel=0.15)
    part = PlanPart("data", both)
    gives = [line.text for line in summary.sentences(Plan([part], []))]
    assert any(line.endswith("times these rates, all loads together.") for line in gives)


def test_each_load_has_a_region_of_its_own() -> None:
    asked = question("2xpm983:960GB", *TOGETHER)
    jobs: Any = join_loads(asked.loads).table["jobs"]
    regions = sorted((int(job["offset"]), int(job["offset"]) + int(job["size"])) for job in jobs.values())
    assert all(end <= begin for (_, end), (begin, _) in pairwise(regions))
    assert regions[-1][1] <= required_capacity(asked)


@pytest.mark.parametrize("loads", [("vm:2",), ("vm:2", "database"), ("vm:2", "media:2")])
def test_other_loads_run_one_after_another(loads: Sequence[str]) -> None:
    """A mix would use all that the others leave, and a cache cannot hold films at first and machines not."""
    assert not runs_together(question("2xpm983:960GB", *loads))


def gives(result: Plan) -> str:
    """What the summary says of the loads."""
    sentences = summary.sentences(result)
    start = [sentence.topic for sentence in sentences].index("Gives")
    lines = [sentences[start].text]
    for sentence in sentences[start + 1 :]:
        if sentence.topic:
            break
        lines.append(sentence.text)
    return " ".join(lines)


def test_headroom_is_said_in_machines_and_streams() -> None:
    fast, large = homelab().parts
    row = replace(fast.answer.rows[0], headroom=10.5)
    assert summary._count_units(row, fast.loads[0]) == " (126 virtual machines) and has room for 51"
    # A library of films does not grow with the streams.
    row = replace(large.answer.rows[0], headroom=2.5)
    assert summary._count_units(row, large.loads[0]) == " (7 streams)"
    assert "streams)." in gives(homelab())


def test_disks_that_are_too_slow_say_what_they_serve() -> None:
    text = gives(plan("4xN300:8TB", "vm:20"))
    assert "This does not serve this load; no arrangement of these disks does. It serves " in text
    assert " virtual machines. SSDs or more disks must do " in text
    text = gives(plan("4xN300:8TB", "vm:400"))
    assert "It serves less than 1/16 of it. SSDs or more disks are needed." in text


def test_a_load_without_a_rate_has_a_bandwidth() -> None:
    result = plan("2xN300:8TB", "backup")
    (sample,) = result.answers[0].rows[0].today
    low, high = sample.mean_interval
    bounds = f"{formatting.rate(sample.bandwidth / high)} – {formatting.rate(sample.bandwidth / low)}"
    assert f"backup: {formatting.rate(sample.bandwidth)} (nine of ten: {bounds}); an I/O takes " in gives(result)


def test_data_grow_with_machines_and_cameras() -> None:
    asked = question("2x990 PRO 1TB", "vm:10")
    assert required_capacity(replace(asked, growth=3.0)) == 3 * required_capacity(asked)
    films = question("2xN300:8TB", "media:3")
    assert required_capacity(replace(films, growth=3.0)) == required_capacity(films)
