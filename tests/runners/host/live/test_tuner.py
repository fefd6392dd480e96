"""Slices in this process: balanced, measured, and always restored."""

from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.live.plan import LivePlan
from blklab.runners.host.live.tuner import LiveTuner, claim_host, make_experiment
from blklab.runners.host.live.watch import TracedLatency
from blklab.runners.host.settings import apply_settings
from tests.runners.host.live.conftest import MS, QUICK, Load, plan_for, value_of
from tests.runners.host.live.tuned import MemoryLedger
from tests.system.machine import Machine


def tuner_for(machine: Machine, plan: LivePlan, load: Load) -> LiveTuner:
    return LiveTuner(plan, QUICK, machine.roots, look_ns=20 * MS, sleep=load.sleep, clock=load.clock)


def assert_restored(machine: Machine) -> None:
    assert value_of(machine, "md0/queue/read_ahead_kb") == "1024"
    assert list(machine.roots.state.glob("journal-*")) == []


def test_every_slice_is_measured_under_its_value(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128", "4096"])
    tuner = tuner_for(array, plan, load)
    seen: set[tuple[str, str]] = set()

    def look(state: str) -> None:
        seen.add(
            (state.split("read_ahead_kb ")[1].split(",", maxsplit=1)[0], value_of(array, "md0/queue/read_ahead_kb"))
        )

    tuner.tell = look
    ledger = MemoryLedger(lambda: assert_no_change(array))
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert tuner.ended is None
    assert seen == {("as is", "1024"), ("128", "128"), ("4096", "4096")}
    assert len(ledger.results) == 6
    for cell, finished_run in ledger.results:
        outcome = finished_run.outcome
        value = cell.labels["read_ahead_kb"]
        changes = [(change.where, change.original, change.set) for change in outcome.settings or ()]
        assert changes == ([] if value == "as is" else [("md0", "1024", value)])
        assert outcome.read.total_ios == outcome.write.total_ios > 0
        assert outcome.read.clat_ns.mean == 2 * MS
        assert outcome.read.clat_ns.p99 is None
        assert outcome.read.io_bytes == 4096 * outcome.read.total_ios
        assert {device.name for device in outcome.devices} == {"md0", "sda", "sdb"}
        jobs = [point for point in finished_run.points if point.source == "jobs"]
        assert sum(point.read_ios for point in jobs) == outcome.read.total_ios
    assert_restored(array)


def assert_no_change(machine: Machine) -> None:
    """Between slices, everything is as before."""
    assert value_of(machine, "md0/queue/read_ahead_kb") == "1024"


def test_the_look_tells_of_the_load(array: Machine, load: Load) -> None:
    tuner = tuner_for(array, plan_for(array, "read_ahead_kb", ["128"]), load)
    assert tuner.look() == "500 I/Os a second, mean latency 2 ms"
    load.mean_ms = 500
    with pytest.raises(BlklabError, match=r"md0: the mean latency is .* now, above --p99-below 100 ms"):
        tuner.look()


def test_an_idle_device_is_refused(array: Machine, load: Load) -> None:
    load.ios_each = 0
    tuner = tuner_for(array, plan_for(array, "read_ahead_kb", ["128"]), load)
    with pytest.raises(BlklabError, match=r"md0: idle: no I/O in 20 ms: tune while the load runs"):
        tuner.look()


def test_a_kernel_without_latencies_is_refused(array: Machine, load: Load) -> None:
    load.mean_ms = 0
    load.ios_each = 500
    tuner = tuner_for(array, plan_for(array, "read_ahead_kb", ["128"]), load)
    with pytest.raises(BlklabError, match="does not measure how long its I/Os take"):
        tuner.look()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"md__degraded": "1"}, "md0: degraded: 1 of its members missing"),
        ({"md__sync_action": "resync"}, "md0: found sync_action resync, expected idle"),
    ],
)
def test_an_array_that_fails_ends_it(array: Machine, load: Load, files: dict[str, str], message: str) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)
    ledger = MemoryLedger()

    def fail_in_third_slice(_state: str) -> None:
        if len(ledger.results) == 2:
            array.write(array.roots.sys / "block/md0", files)

    tuner.tell = fail_in_third_slice
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert message in str(tuner.ended)
    assert tuner.ended is not None
    assert tuner.ended.details == ("no setting stays changed",)
    assert len(ledger.results) == 2
    assert_restored(array)


def test_a_latency_above_the_limit_ends_it(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)
    ledger = MemoryLedger()

    def slow_down_under_128(state: str) -> None:
        if len(ledger.results) >= 1 and "read_ahead_kb 128" in state:
            load.mean_ms = 500

    tuner.tell = slow_down_under_128
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "with read_ahead_kb 128, the latency was " in str(tuner.ended)
    assert "above --p99-below 100 ms, in 2 successive intervals" in str(tuner.ended)
    assert_restored(array)


def test_a_device_that_answers_no_more_is_above_any_limit(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"], limit_ms=8)
    tuner = tuner_for(array, plan, load)
    ledger = MemoryLedger()

    def hang(_state: str) -> None:
        if ledger.results:
            load.ios_each = 0
            load.in_flight = 3

    tuner.tell = hang
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "in 2 successive intervals" in str(tuner.ended)
    assert_restored(array)


def test_nothing_is_kept_of_a_tuning_that_ends_in_its_first_slice(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    load.mean_ms = 500
    with pytest.raises(BlklabError, match="in 2 successive intervals"):
        tuner_for(array, plan, load).run(make_experiment(plan, QUICK).cells, MemoryLedger())
    assert_restored(array)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit(143)])
def test_signals_restore(array: Machine, load: Load, error: BaseException) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)

    def interrupt(state: str) -> None:
        if "128" in state:
            raise error

    tuner.tell = interrupt
    with pytest.raises(type(error) if isinstance(error, SystemExit) else KeyboardInterrupt):
        tuner.run(make_experiment(plan, QUICK).cells, MemoryLedger())
    assert_restored(array)


def test_two_tunings_exclude_each_other(array: Machine) -> None:
    with (
        claim_host(array.roots) as restored,
        pytest.raises(BlklabError, match="another blklab is measuring or tuning on this host"),
        claim_host(array.roots),
    ):
        pass
    assert (restored.done, restored.problems) == ([], [])


class RecordedLatencies:
    """A trace whose 99th percentile is 30 ms in the first interval of a slice, then 50 ms."""

    def __init__(self) -> None:
        self.looks = 0

    def take(self, elapsed_ns: int) -> dict[str, list[TracedLatency]]:
        assert elapsed_ns > 0
        self.looks += 1
        return {"read": [TracedLatency(self.looks, 1e6, 1e6, 2e6, 3e6 * self.looks, 9e6)], "write": []}


def test_latencies_of_a_trace(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"], limit_ms=14)
    tuner = tuner_for(array, plan, load)
    trace = RecordedLatencies()

    tuner.trace = trace
    ledger = MemoryLedger()
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "the latency was 18 ms, above --p99-below 14 ms" in str(tuner.ended)
    ((_, finished_run),) = ledger.results
    latency = finished_run.outcome.read.clat_ns
    # The first interval settles; three count, with 2, 3 and 4 I/Os.
    assert latency.count == 9
    assert latency.p99 == pytest.approx(3e6 * (2 * 2 + 3 * 3 + 4 * 4) / 9)
    assert finished_run.outcome.write.clat_ns.mean == 2 * MS  # Without traced writes, that of the counters


def test_slow_writes_that_the_trace_does_not_show_count(array: Machine, load: Load) -> None:
    """A trace has no I/O that is longer than its window: the counters have."""
    plan = plan_for(array, "read_ahead_kb", ["128"], limit_ms=100)
    tuner = tuner_for(array, plan, load)
    tuner.trace = RecordedLatencies()
    ledger = MemoryLedger()

    def slow_down(_state: str) -> None:
        if ledger.results:
            load.mean_ms = 3000

    tuner.tell = slow_down
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "above --p99-below 100 ms" in str(tuner.ended)
    assert_restored(array)


def test_writes_that_hang_while_reads_end_are_above_any_limit(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"], limit_ms=15)
    tuner = tuner_for(array, plan, load)
    ledger = MemoryLedger()

    def hang_writes(_state: str) -> None:
        if ledger.results:
            load.writes_each = 0
            (array.roots.sys / "block/md0/inflight").write_text("       1      500\n")

    tuner.tell = hang_writes
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "above --p99-below 15 ms" in str(tuner.ended)  # The limit is longer than an interval
    assert_restored(array)


def test_a_load_that_ends_ends_the_tuning(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)
    ledger = MemoryLedger()

    def end_load(_state: str) -> None:
        if ledger.results:
            load.ios_each = 0

    tuner.tell = end_load
    tuner.run(make_experiment(plan, QUICK).cells, ledger)
    assert "no I/O in a whole slice" in str(tuner.ended)
    assert len(ledger.results) < len(make_experiment(plan, QUICK).cells)
    assert_restored(array)


def replace_sda(machine: Machine) -> None:
    """Puts another disk in the place of sda, with a value of its own."""
    sda = machine.roots.sys / "block/sda"
    (sda / "diskseq").write_text("99\n")
    (sda / "queue/nr_requests").write_text("200\n")


def test_another_disk_of_the_same_name_is_not_changed(array: Machine) -> None:
    plan = plan_for(array, "nr_requests", ["32"], "sda")
    with (
        HostJournal(array.roots) as journal,
        pytest.raises(BlklabError, match="sda: not restored: another disk has this name now"),
        apply_settings({"nr_requests": "32"}, plan.changed_layers, journal),
    ):
        replace_sda(array)
    assert value_of(array, "sda/queue/nr_requests") == "200"


def test_another_disk_ends_the_tuning(array: Machine, load: Load) -> None:
    plan = plan_for(array, "nr_requests", ["32"], "sda")
    tuner = tuner_for(array, plan, load)

    def replace_under_the_present_value(state: str) -> None:
        if "nr_requests as is" in state:
            replace_sda(array)

    tuner.tell = replace_under_the_present_value
    with pytest.raises(BlklabError, match="sda: the disk is gone, or another one has its name now"):
        tuner.run(make_experiment(plan, QUICK).cells, MemoryLedger())
        raise tuner.ended or AssertionError
    assert value_of(array, "sda/queue/nr_requests") == "200"


def test_a_value_that_another_program_sets_ends_it(array: Machine, load: Load) -> None:
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)

    def meddle(state: str) -> None:
        if "read_ahead_kb 128" in state:
            (array.roots.sys / "block/md0/queue/read_ahead_kb").write_text("777\n")

    tuner.tell = meddle
    with pytest.raises(BlklabError, match="found 777, expected 128: another program changed it meanwhile"):
        tuner.run(make_experiment(plan, QUICK).cells, MemoryLedger())
        raise tuner.ended or AssertionError
    assert_restored(array)


def test_all_disks_are_restored_before_the_journal_is_written(array: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_write(_journal: HostJournal, _number: int) -> None:
        raise BlklabError("no space")

    plan = plan_for(array, "nr_requests", ["32"])
    monkeypatch.setattr(HostJournal, "done", cannot_write)
    with (
        HostJournal(array.roots) as journal,
        pytest.raises(BlklabError, match="no space; no space"),
        apply_settings({"nr_requests": "32"}, plan.changed_layers, journal),
    ):
        assert {value_of(array, f"{disk}/queue/nr_requests") for disk in ("sda", "sdb")} == {"32"}
    assert {value_of(array, f"{disk}/queue/nr_requests") for disk in ("sda", "sdb")} == {"64"}


class BlindTrace:
    """A trace of a kernel that records nothing."""

    def take(self, elapsed_ns: int) -> dict[str, list[TracedLatency]]:
        assert elapsed_ns > 0
        return {"read": [], "write": []}


def test_a_trace_that_shows_nothing_is_not_trusted(array: Machine, load: Load) -> None:
    load.ios_each = 1000
    plan = plan_for(array, "read_ahead_kb", ["128"])
    tuner = tuner_for(array, plan, load)
    tuner.trace = BlindTrace()
    with pytest.raises(BlklabError, match="the trace does not show the I/O of the device"):
        tuner.run(make_experiment(plan, QUICK).cells, MemoryLedger())
    assert_restored(array)
    assert "so the mean latency is compared with the limit" in tuner.look()
    assert tuner.trace is None


def test_the_experiment_is_a_sweep(array: Machine) -> None:
    plan = plan_for(array, "scheduler", ["none", "bfq"])
    experiment = make_experiment(plan, QUICK)
    assert (experiment.name, experiment.path) == ("live-scheduler-md0", Path("live-scheduler-md0.toml"))
    assert experiment.raw["sweep"] == {"scheduler": ["none", "bfq"]}
    assert [cell.turn for cell in experiment.cells] == sorted(cell.turn for cell in experiment.cells)
    assert [cell.number for cell in experiment.cells] == list(range(1, 7))
