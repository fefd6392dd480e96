"""What casts doubt on runs, and that nothing does on those that are clean."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blklab.compare.diagnostics import diagnose
from blklab.compare.sanity_checks import most_random_reads
from blklab.diagnostic import Diagnostic
from blklab.outcome import Outcome
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.query import StoredRun
from blklab.store.series import SeriesPoint
from tests.campaigns import made
from tests.conftest import Run as RunCommand

LABELS = {"stack": "raid1", "workload": "randread", "repeat": "1"}
Change = Callable[[dict[str, Any]], object]


def stored_run(number: int = 1, **rest: Any) -> StoredRun:
    """Returns a clean run on a host; `rest` are fields of a Run."""
    values: dict[str, Any] = {
        "campaign": 1,
        "name": "exp",
        "runner": "host",
        "number": number,
        "labels": LABELS,
        "cell": {"jobs": [made.job("randread")], "target": {"name": "raid1"}},
        "state": "done",
        "started": f"2026-01-01T00:00:{number:02}",
        "finished": None,
        "seconds": 10.0,
        "outcome": Outcome.from_document(made.measured(LABELS)),
        "message": None,
        "environment": made.ENVIRONMENT,
        **rest,
    }
    return StoredRun(number, **values)


def of(runs: Sequence[StoredRun], points: Mapping[int, Sequence[SeriesPoint]] | None = None) -> list[Diagnostic]:
    return diagnose(runs, lambda run: (points or {}).get(run, []))


def diagnostics_text(runs: Sequence[StoredRun], code: str, **rest: Any) -> str:
    (result,) = [notice for notice in of(runs, **rest) if notice.code == code]
    return result.message


def with_outcome(change: Change, **rest: Any) -> StoredRun:
    run = stored_run(**rest)
    outcome = run.figures.as_document()
    change(outcome)
    return replace(run, outcome=Outcome.from_document(outcome))


def environment(name: str, **rest: Any) -> dict[str, Any]:
    devices = [{**device, **rest} if device["name"] == name else device for device in made.ENVIRONMENT["devices"]]
    return {**made.ENVIRONMENT, "devices": devices}


def test_nothing_is_said_of_a_clean_run() -> None:
    points = {1: made.series(1e5, 100)}
    assert of([stored_run()], points) == []


@pytest.mark.parametrize("workload", ["randread", "read", "randrw"])
def test_nothing_is_doubted_of_clean_simulations(run: RunCommand, tmp_path: Any, workload: str) -> None:
    path = tmp_path / "clean.toml"
    path.write_text(
        f"""
        repeats = 4
        [devices]
        ssd = {{ model = "sm883", size = "1GiB", count = 2 }}
        hdd = {{ model = "wd10eacs", size = "1GiB", count = 2 }}
        [stacks]
        flash = {{ level = 1, members = ["ssd"] }}
        disks = {{ level = 10, members = ["hdd"] }}
        [workloads]
        work = {{ rw = "{workload}", iodepth = 8 }}
        [settings]
        max_ios = 5_000
        """
    )
    assert run("run", path).status == 0
    store = Store(None)
    result = diagnose(query.select_runs(store, "1").runs, lambda number: query.points(store, number))
    assert [notice for notice in result if notice.severity != "note"] == []


def test_a_disk_that_is_too_fast() -> None:
    spins = environment("sda", queue={"rotational": "1"})
    text = diagnostics_text([stored_run(environment=spins)], "impossible-rate")
    assert "40,000 random reads per second from sda, which claims to rotate" in text
    assert "No disk exceeds 1,883 with 128 in flight" in text
    assert most_random_reads(1) == 400
    assert 1_500 < most_random_reads(32) < 1_700


@pytest.mark.parametrize(
    ("model", "microseconds", "depth", "doubted"),
    [("SAMSUNG MZ7KH960", 20, 1, True), ("SAMSUNG MZ7KH960", 70, 1, False), ("SAMSUNG MZ7KH960", 20, 2, False),
     ("INTEL SSDPE21D280GA", 11, 1, False)],
)  # fmt: skip
def test_flash_that_was_never_written(model: str, microseconds: float, depth: int, *, doubted: bool) -> None:
    def change(outcome: dict[str, Any]) -> None:
        outcome["devices"] = made.mirror(made.direction_result(4e4, 1e6), made.direction_result(0, 1e6), 1)
        for device in outcome["devices"]:
            device["ticks_ns"][0] = device["ios"][0] * microseconds * 1000
            device["sectors"][0] = device["ios"][0] * 8

    job = made.job("randread", iodepth=str(depth), numjobs="1")
    known = environment("sda", hardware={"model": model})
    run_ = with_outcome(change, cell={"jobs": [job], "target": {"name": "raid1"}}, environment=known)
    messages = [notice.message for notice in of([run_]) if notice.code == "unwritten"]
    assert len(messages) == doubted
    assert all("sda answered random reads in 20 µs, one at a time" in message for message in messages)


def test_a_bus_that_is_too_slow_for_it() -> None:
    def change(outcome: dict[str, Any]) -> None:
        outcome["devices"] = made.mirror(made.direction_result(4e5, 1e6), made.direction_result(0, 1e6), 0.9)

    text = diagnostics_text([with_outcome(change)], "impossible-rate")
    assert "1.37 GiB/s read from sda, which is more than 572 MiB/s of SATA" in text


def test_the_page_cache() -> None:
    def change(outcome: dict[str, Any]) -> None:
        outcome["devices"] = made.mirror(made.direction_result(1e4, 1e6), made.direction_result(0, 1e6), 0.5)

    text = diagnostics_text([with_outcome(change)], "page-cache")
    assert "the jobs read 3.81 GiB, but only 391 MiB were read from the devices" in text


def test_data_that_are_too_small() -> None:
    job = made.job("randread", direct="0")
    text = diagnostics_text([stored_run(cell={"jobs": [job], "target": {}})], "small-data")
    assert "2 GiB of data with I/O through the page cache (direct=0) and 128 GiB of memory" in text
    target = {"name": "raid1", "cache_bytes": 4 << 30}
    text = diagnostics_text([stored_run(cell={"jobs": [made.job("randread")], "target": target})], "small-data")
    assert "a cache of 4 GiB in front of it" in text


def twins(times: Sequence[float], ios: Sequence[int]) -> StoredRun:
    hardware = {"hardware": {"model": "X"}, "size": 1}
    devices = [
        made.device(name, [count, 0], [each, 0], above=["md0"])
        for name, each, count in zip(("sda", "sdb"), times, ios, strict=True)
    ]
    known = {"devices": [{"name": name, **hardware} for name in ("sda", "sdb")]}
    return with_outcome(lambda outcome: outcome.update(devices=devices), environment=known)


def test_unequal_twins() -> None:
    text = diagnostics_text([twins((9e6, 3e6), (500_000, 500_000))], "unequal-twins")
    assert "sda took 9 ms for each of its reads, sdb 3 ms for as many: both are the same model" in text
    assert of([twins((3.2e6, 3e6), (500_000, 500_000))]) == []
    # Who has more to do has a longer queue: that is the balancer's, not the disk's.
    assert of([twins((9e6, 3e6), (900_000, 100_000))]) == []


def members_of(target: str, test: str, direction: int) -> StoredRun:
    """Returns a run with the members of an array in the measurements of another author, without their models."""
    devices = []
    for row in csv.DictReader(Path("reference/fio_device_io.csv").read_text().splitlines()):
        if (row["target"], row["test"]) == (target, test) and not row["device"].startswith("md"):
            ios = [int(row["read_ios"]), int(row["write_ios"])]
            ticks = [int(row["read_ticks_ms"]) * 1e6, int(row["write_ticks_ms"]) * 1e6]
            times = [ticks[way] / ios[way] if ios[way] and way == direction else 0.0 for way in (0, 1)]
            counts = [ios[way] if way == direction else 0 for way in (0, 1)]
            devices.append(made.device(row["device"], counts, times, above=["md0"]))
    return with_outcome(lambda outcome: outcome.update(devices=devices), environment={})


def test_members_of_unknown_models_are_compared_by_diskstats() -> None:
    """Of twelve published runs of arrays, one has a disk that takes ten times as long as its twin."""
    tests = {"seqread": 0, "seqwrite": 1, "randread": 0, "randwrite": 1}
    accused = []
    for target in ("fast-raid1", "fast-raid10", "slow-raid1"):
        for test, direction in tests.items():
            run_of_array = members_of(target, test, direction)
            if any(item.code == "unequal-twins" for item in of([run_of_array])):
                accused.append((target, test))
    assert accused == [("slow-raid1", "randwrite")]
    text = diagnostics_text([members_of("slow-raid1", "randwrite", 1)], "unequal-twins")
    assert "sdd took 879 ms for each of its writes, sde 82.8 ms for as many: if both are the same model" in text


def test_a_flash_disk_and_a_rotating_disk_are_no_twins() -> None:
    devices = [made.device(name, [0, 5000], [0, time], above=["md0"]) for name, time in (("sda", 3e5), ("sdb", 9e6))]
    found = of([with_outcome(lambda outcome: outcome.update(devices=devices), environment={})])
    assert "unequal-twins" not in {item.code for item in found}


def test_drift_stalls_and_levels() -> None:
    base = made.series(1e5, 100)
    sinking = [replace(p, read_ios=round(p.read_ios * (1.5 - at / 100))) for at, p in enumerate(base)]
    text = diagnostics_text([stored_run()], "drift", points={1: sinking})
    assert "raid1" not in text
    assert " IOPS in the first third and " in text
    assert "(−5" in text
    stalled = [*base[:40], replace(base[40], read_ios=10), *base[41:]]
    assert "10 IOPS 40 s after the start" in diagnostics_text([stored_run()], "outliers", points={1: stalled})
    switching = [replace(p, read_ios=p.read_ios // (1 + at // 3 % 2 * 3)) for at, p in enumerate(base)]
    assert "IOPS and otherwise about" in diagnostics_text([stored_run()], "two-levels", points={1: switching})


def test_what_runs_say_of_themselves() -> None:
    def change(outcome: dict[str, Any]) -> None:
        outcome["warnings"] = ["sda: it is warm", "no steady state after 5 rounds: as it is"]
        outcome["forced"] = ["device-busy"]
        outcome["steady"] = {"reached": False, "rounds": [100.0, 200.0], "range": 1, "slope": 1}

    runs = [with_outcome(change, number=number) for number in (1, 2, 3, 4)]
    assert diagnostics_text(runs, "warning") == "sda: it is warm (4 runs)."
    assert diagnostics_text(runs, "forced") == "measured despite: device-busy (4 runs)."
    text = diagnostics_text(runs, "not-steady")
    assert "no steady state in 2 rounds (the last ones: 100, 200 IOPS)" in text
    assert text.endswith("3 more runs have similar values.")


def test_failed_runs() -> None:
    failed = stored_run(2, state="failed", outcome=None, message="fio: no space")
    (result,) = of([stored_run(), failed])
    assert (result.code, result.runs) == ("failed", (2,))
    assert "fio: no space" in result.message


def test_limits() -> None:
    def change(outcome: dict[str, Any]) -> None:
        outcome["devices"] = [made.device("sda", [100_000, 0], [1e5, 0], busy_ns=99 * 10**8)]
        outcome["fio"] = {"usr_cpu": 150.0, "sys_cpu": 242.0}  # of four jobs
        outcome["cpu"] = {"user": 0.6, "system": 0.38, "iowait": 0.0, "idle": 0.02}

    run = with_outcome(change)
    busy = next(notice for notice in of([run]) if notice.code == "busy-devices")
    assert "sda in 1 of 1 runs (never idle)" in busy.message
    assert busy.severity == "note"
    assert "each job uses its CPU for 98 % of the time" in diagnostics_text([run], "processor")
    assert diagnostics_text([run], "cpus") == "run 1: only 2 % of the host's CPU time was idle."


def repeats(figures: Sequence[float]) -> list[StoredRun]:
    runs = []
    for number, iops in enumerate(figures, start=1):
        labels = {**LABELS, "repeat": str(number)}
        runs.append(
            replace(stored_run(number, labels=labels), outcome=Outcome.from_document(made.measured(labels, iops)))
        )
    return runs


def test_an_odd_repeat() -> None:
    text = diagnostics_text(repeats([1e5, 1.01e5, 0.99e5, 1e5, 5e4]), "odd-one-out")
    assert "50,000 IOPS; the median of its 5 repeats is 100,000" in text
    assert of(repeats([1e5, 1.01e5, 0.99e5, 1.02e5])) == []


def test_a_campaign_that_drifts() -> None:
    text = diagnostics_text(repeats([1e5 * (1 - at / 100) for at in range(12)]), "drift-of-the-campaign")
    assert text.startswith("Campaign 1: IOPS of later runs differ by −6 %")


def shares(rates: Mapping[str, float], *, clones: Sequence[float] = (), runtime: float = 10) -> StoredRun:
    """Returns a run of equal jobs with these IOPS."""

    def change(outcome: dict[str, Any]) -> None:
        outcome["runtime_ns"] = int(runtime * 1e9)
        outcome["groups"] = [
            {"name": name, "read": {"iops": rate, "total_ios": int(rate * runtime)}, "clones": list(clones)}
            for name, rate in rates.items()
        ]

    jobs = [
        {"name": name, "options": {"rw": "randread", "bs": "4k", "offset": str(at)}} for at, name in enumerate(rates)
    ]
    return with_outcome(change, cell={"jobs": jobs, "target": {"name": "raid1"}})


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (shares({"a": 930, "b": 300}), "job a got 3.1 times the IOPS of job b, with equal options (930 and 300 IOPS)"),
        (shares({"a": 930, "b": 0}), "job a got all I/Os, and none for job b, with equal options (930 and 0 IOPS)"),
        (shares({"a": 400, "b": 300}), ""),
        (shares({"a": 9, "b": 3}, runtime=1), ""),  # chance
        (shares({"a": 900}, clones=[600, 200, 100]), "a clone of job a got 6.0 times the IOPS of another"),
        (shares({"a": 900}, clones=[310, 300, 290]), ""),
    ],
)
def test_unfair_shares_of_equal_jobs(run: StoredRun, said: str) -> None:
    found = [each.message for each in of([run]) if each.code == "unfair-shares"]
    assert [said in message for message in found] == ([True] if said else [])


def test_jobs_with_other_options_may_have_other_shares() -> None:
    run = shares({"a": 930, "b": 300})
    run.cell["jobs"][1]["options"]["iodepth"] = "8"
    assert not [each for each in of([run]) if each.code == "unfair-shares"]
