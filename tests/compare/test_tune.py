"""What a sweep says."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from blklab.compare.tune import persist_settings, settings_of, tune
from blklab.compare.tune_report import conclusion, tuning_table
from blklab.errors import UsageError
from blklab.experiment.sweep import AS_IS
from blklab.outcome import ChangedSetting, DeviceResult, Outcome
from blklab.store.query import CampaignRow, StoredRun
from blklab.store.series import SeriesPoint


def campaign(sweep: dict[str, Any]) -> CampaignRow:
    return CampaignRow(3, "sweep", "", "host", "", "", "", {}, {"sweep": sweep})


def runs(points: dict[tuple[str, str], float], *, spread: float = 1, **labels: str) -> list[StoredRun]:
    """Five repeats of each (scheduler, nr_requests) with this many IOPS, a little apart."""
    generator = random.Random(1)
    result = []
    for (scheduler, requests), iops in points.items():
        for repeat in range(5):
            value = iops + generator.gauss(0, spread)
            direction = {"total_ios": 9, "iops": value, "clat_ns": {"mean": 1e9 / value}}
            tried = {"scheduler": scheduler, "nr_requests": requests, "repeat": str(repeat)}
            outcome = Outcome.from_document({"read": direction})
            result.append(
                StoredRun(1, 3, "sweep", "host", 1, {**labels, **tried}, {}, "done", None, None,
                    1.0, outcome, None, {})
            )  # fmt: skip
    return result


ONE = {(AS_IS, AS_IS): 1000.0, ("none", AS_IS): 1200.0, ("bfq", AS_IS): 700.0, (AS_IS, "64"): 1000.0}


def test_one_at_a_time() -> None:
    sweep = {"scheduler": ["none", "bfq"], "nr_requests": [64]}
    (result,) = tune(campaign(sweep), runs(ONE), "iops", lambda _run: [])
    output = [(effect.setting, effect.value, effect.verdict) for effect in result.effects]
    assert output == [("scheduler", "none", "better"), ("nr_requests", "64", "same"), ("scheduler", "bfq", "worse")]
    assert result.effects[0].difference.change == pytest.approx(0.2, abs=0.01)
    assert result.effects[0].baseline == AS_IS
    (wide,) = tune(campaign(sweep), runs(ONE, spread=60), "iops", lambda _run: [], margin=0.3)
    assert wide.effects[1].verdict == "same"
    assert settings_of([result]) == {"scheduler": "none"}
    assert json.loads(json.dumps(result.as_dict()))["best"] == {"scheduler": "none"}


def test_a_setting_that_cannot_act_is_not_better() -> None:
    """Read-ahead with direct I/O: the difference is chance or drift, however clear it is."""
    jobs = {"jobs": [{"name": "a", "options": {"rw": "read", "direct": "1"}}]}
    every = [
        replace(run, labels={"read_ahead_kb": run.labels["scheduler"], "repeat": run.labels["repeat"]}, cell=jobs)
        for run in runs({(AS_IS, AS_IS): 1000.0, ("0", AS_IS): 1200.0})
    ]
    (result,) = tune(campaign({"read_ahead_kb": [0]}), every, "iops", lambda _run: [])
    (effect,) = result.effects
    assert (effect.verdict, effect.no_effect, effect.difference.verdict) == ("no effect", "direct I/O", "better")
    assert not settings_of([result])
    assert not result.best
    assert conclusion(result) == "read_ahead_kb: cannot act on this workload."
    assert "cannot act: direct I/O" in tuning_table(result).rows[0]


def test_less_latency_is_better() -> None:
    sweep = {"scheduler": ["none", "bfq"], "nr_requests": [64]}
    (result,) = tune(campaign(sweep), runs(ONE), "mean", lambda _run: [])
    assert result.best["scheduler"].value == "none"


def test_every_combination_tells_the_settings_apart() -> None:
    points = {
        (scheduler, requests): base * factor
        for scheduler, base in (("none", 1000.0), ("bfq", 800.0))
        for requests, factor in (("64", 1.0), ("256", 1.1))
    }
    sweep = {"mode": "all", "scheduler": ["none", "bfq"], "nr_requests": [64, 256]}
    (result,) = tune(campaign(sweep), runs(points), "iops", lambda _run: [])
    changes = {(e.setting, e.value): e.difference.change for e in result.effects}
    assert changes[("scheduler", "bfq")] == pytest.approx(-0.2, abs=0.01)
    assert changes[("nr_requests", "256")] == pytest.approx(0.1, abs=0.01)
    assert [effect.verdict for effect in result.effects] == ["better", "worse"]


def test_a_combination_that_is_missing_is_no_effect() -> None:
    """The scheduler changes nothing; the slow half of one of its values was not measured."""
    points = {
        (scheduler, requests): 1000.0 if requests == "64" else 100.0
        for scheduler in ("none", "bfq", "kyber")
        for requests in ("64", "256")
        if (scheduler, requests) not in {("none", "256"), ("kyber", "64")}
    }
    sweep = {"mode": "all", "scheduler": ["none", "bfq", "kyber"], "nr_requests": [64, 256]}
    (result,) = tune(campaign(sweep), runs(points), "iops", lambda _run: [])
    effects = {(e.setting, e.value): (e.difference.change, e.verdict) for e in result.effects}
    change, verdict = effects[("scheduler", "bfq")]
    assert change == pytest.approx(0, abs=0.01)
    assert verdict == "same"
    assert ("scheduler", "kyber") not in effects  # never under what "none" was
    assert effects[("nr_requests", "256")][0] == pytest.approx(-0.9, abs=0.01)
    assert result.as_dict()["note"].startswith("2 of 6 combinations were not measured")


def test_settings_that_were_tried_once_are_not_kept() -> None:
    once = [run for run in runs(ONE) if run.labels["repeat"] == "0"]

    def steady(run: int) -> list[SeriesPoint]:
        iops = round(once[run].figures.read.iops)
        return [SeriesPoint("jobs", at * 10**9, 10**9, iops + at % 3, 0, 0, 0, 1.0, None) for at in range(60)]

    once = [replace(run, id=at) for at, run in enumerate(once)]
    sweep = {"scheduler": ["none", "bfq"], "nr_requests": [64]}
    (result,) = tune(campaign(sweep), once, "iops", steady)
    assert result.effects[0].verdict == "differ"
    assert settings_of([result]) == {}
    assert "scheduler: runs differ, but each was run once: repeats = 2" in conclusion(result)


def test_what_hurts_another_workload_is_not_kept() -> None:
    sweep = {"scheduler": ["none", "bfq"], "nr_requests": [64]}
    hurt = {**ONE, ("none", AS_IS): 900.0}
    both = [*runs(ONE, workload="reads"), *runs(hurt, workload="writes")]
    result = tune(campaign(sweep), both, "iops", lambda _run: [])
    assert [item.labels for item in result] == [{"workload": "reads"}, {"workload": "writes"}]
    assert settings_of(result) == {}


def test_noise_is_no_effect() -> None:
    points = {(AS_IS, AS_IS): 1000.0, **{(f"s{n}", AS_IS): 1000.0 for n in range(12)}}
    sweep: dict[str, Any] = {"scheduler": [], "nr_requests": []}
    (result,) = tune(campaign(sweep), runs(points, spread=100), "iops", lambda _run: [])
    assert {effect.verdict for effect in result.effects} == {"unclear"}
    assert all(effect.difference.repeats for effect in result.effects)


@pytest.mark.parametrize(
    ("sweep", "metric", "output"),
    [
        ({}, "iops", "campaign 3 (sweep): not a sweep"),
        ({"scheduler": []}, "iosp", "no metric 'iosp'; did you mean 'iops'?"),
        ({"scheduler": []}, "wall", "campaign 3: no run has wall"),
    ],
)
def test_mistakes(sweep: dict[str, Any], metric: str, output: str) -> None:
    with pytest.raises(UsageError) as caught:
        tune(campaign(sweep), runs(ONE), metric, lambda _run: [])
    assert output in str(caught.value)


def test_what_makes_settings_last() -> None:
    devices = [
        DeviceResult("md0", [], kind="md", id="md-uuid-1234:abcd"),
        DeviceResult("sda1", [], kind="partition"),
        DeviceResult("sda", [], kind="disk", id="wwn-0x5000c500a1b2c3d4"),
        DeviceResult("vdb", [], kind="disk"),
    ]
    changes = [
        *(ChangedSetting(where, "nr_requests", "", "") for where in ("sda", "vdb")),
        ChangedSetting("md0", "stripe_cache_size", "", ""),
        ChangedSetting("vm", "vm.dirty_ratio", "", ""),
    ]
    kept = persist_settings(
        {"nr_requests": "64", "stripe_cache_size": "4096", "vm.dirty_ratio": "5"},
        [Outcome(devices=devices, settings=changes), Outcome(devices=devices, settings=changes)],
    )
    assert kept.commands == [
        "echo 64 > /sys/block/sda/queue/nr_requests",
        "echo 64 > /sys/block/vdb/queue/nr_requests",
        "echo 4096 > /sys/block/md0/md/stripe_cache_size",
        "sysctl -w vm.dirty_ratio=5",
    ]
    assert kept.sysctl == ["vm.dirty_ratio = 5"]
    assert kept.udev[0] == (
        'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk",'
        ' ENV{ID_WWN_WITH_EXTENSION}=="0x5000c500a1b2c3d4", ATTR{queue/nr_requests}="64"'
    )
    assert 'KERNEL=="vdb"' in kept.udev[1]


def test_hostile_names_do_not_leave_their_place() -> None:
    device = DeviceResult('a$(x)"b', [], kind="disk")
    outcome = Outcome(devices=[device], settings=[ChangedSetting(device.name, "scheduler", "", "")])
    kept = persist_settings({"scheduler": 'x"; rm -rf'}, [outcome])
    assert kept.commands == ["""echo 'x"; rm -rf' > '/sys/block/a$(x)"b/queue/scheduler'"""]
    assert 'KERNEL=="a??x??b"' in kept.udev[0]
    assert kept.udev[0].endswith('ATTR{queue/scheduler}="x?? rm -rf"')


def with_changes(run: StoredRun, changes: list[Any]) -> Outcome:
    return Outcome.from_document({**run.figures.as_document(), "settings": changes})


def test_a_value_that_the_host_had_is_the_baseline() -> None:
    """`none` was set before the sweep: it is no change, although its runs differ by chance."""
    every = runs({(AS_IS, AS_IS): 1000.0, ("none", AS_IS): 1010.0, ("bfq", AS_IS): 700.0})
    changes: Any = {"bfq": [{"where": "sda", "key": "scheduler", "original": "none", "set": "bfq"}]}
    every = [replace(run, outcome=with_changes(run, changes.get(run.labels["scheduler"], []))) for run in every]
    sweep = {"scheduler": ["none", "bfq"], "nr_requests": []}
    (result,) = tune(campaign(sweep), every, "iops", lambda _run: [])
    assert [(effect.value, effect.verdict) for effect in result.effects] == [("bfq", "worse")]
    assert result.baseline == pytest.approx(1005, abs=2)
    assert result.note == "the host already had scheduler = none: this counts as 'as is'"
