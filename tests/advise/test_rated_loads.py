"""Loads with a rate: figures of models are computed by hand from their sources."""

from typing import Any

import pytest

from blklab.advise import rated_loads
from blklab.advise.rated_loads import load_of_name, mean_sizes, models, read_model
from blklab.errors import UsageError
from blklab.experiment.jobs import job_document
from blklab.experiment.workload import Job


@pytest.mark.parametrize("name", models())
def test_each_model_names_its_source(name: str) -> None:
    model = read_model(name)
    assert "http" in model.source or "tests/data/traces" in model.source
    assert model.assumed
    assert model.ios_per_second() > 0
    load = load_of_name(name, None)
    assert f"Source: {model.source}" in load.assumption
    assert load.assumption.startswith("1 ")


def test_jobs_have_the_rate_of_the_load_together() -> None:
    for text in ("vm:12", "vm:100", "postgresql:800tps", "media:3", "surveillance:16cameras"):
        load = load_of_name(text, 1 << 40)
        jobs: Any = load.table["jobs"]
        total = 0.0
        for name, table in jobs.items():
            job = Job.model_validate(table)
            total += job_document(name, job, "workloads.x", "stack", 1 << 40)["rate_iops"]
        assert total == pytest.approx(load.rate, rel=0.001), text
        assert len(jobs) <= rated_loads.MAX_JOBS


def test_virtual_machines_are_as_their_source_says() -> None:
    load = load_of_name("vm:12", None)
    assert load.rate == pytest.approx(12 * 37.1)
    assert load.span == pytest.approx(12 * 19.4e9, rel=1e-6)
    # The source: means of 54.2 kB and 20.1 kB, 25.6 GB written a day by each disk.
    reads, writes = mean_sizes(read_model("vm").workload)
    assert reads == pytest.approx(54_196, rel=0.06)
    assert writes == pytest.approx(20_147, rel=0.06)
    assert 37.1 * 0.4 * writes * 86_400 == pytest.approx(25.6e9, rel=0.05)


def test_virtual_machines_agree_with_a_hosting_provider() -> None:
    """The md arrays of a provider set nothing of this model: see the mix `virtual-machines`."""
    provider_reads, provider_writes = 17.6 * 1024, 13.7 * 1024
    reads, writes = mean_sizes(read_model("vm").workload)
    assert provider_reads / 4 < reads < provider_reads * 4
    assert provider_writes / 2 < writes < provider_writes * 2
    assert rated_loads.read_share(read_model("vm").workload) == pytest.approx(0.49, abs=0.15)


def test_films_agree_with_the_sizes_of_320_discs() -> None:
    """Their mean, 27 GB without extras, set nothing: https://mikepellegrini.com/weblog/index.php/2008/06."""
    model = read_model("media")
    assert model.working_set is not None and model.bit_rate is not None
    assert model.working_set.typical == pytest.approx(27e9, rel=0.2)
    two_hours = 27e9 * 8 / 7200
    assert model.bit_rate.typical == pytest.approx(two_hours, rel=0.2)
    assert model.bit_rate.low and model.bit_rate.high
    assert model.bit_rate.low < two_hours < model.bit_rate.high


def test_cameras_agree_with_calculators_of_others() -> None:
    """They set nothing: https://www.keydigital.org/tools/nvr-storage-calculator (H.264),
    https://genba-dentaku.com/us/tools/network/cctv-storage (H.265)."""
    model = read_model("surveillance")
    assert model.working_set is not None and model.bit_rate is not None
    assert model.bit_rate.typical == pytest.approx(4e6, rel=0.1)  # 1080p in H.264, 30 days: 1.3 TB
    assert model.working_set.typical == pytest.approx(1.3e12, rel=0.1)
    assert model.bit_rate.low and model.bit_rate.high
    for megabits in (1, 2, 3, 4, 5, 7, 8):  # 720p to 8 megapixels in H.265, 4 megapixels in H.264
        assert model.bit_rate.low < megabits * 1e6 < model.bit_rate.high
    assert model.bit_rate.high < 16e6, "8 megapixels in H.264 with 30 frames a second have more: the model says so"


def test_streams_have_the_bit_rate_of_their_source() -> None:
    films = load_of_name("media:3streams", None)
    assert films.rate == pytest.approx(3 * 32.8e6 / 8 / (128 * 1024))
    assert films.is_cold
    cameras = load_of_name("surveillance:16", None)
    # 95 % of the I/Os are writes, of 45 GB a day.
    assert cameras.rate == pytest.approx(16 * 45e9 / 86_400 / (1280 * 1024) / 0.95, rel=0.01)
    assert cameras.span == pytest.approx(16 * 30 * 45e9, rel=1e-6)


def test_transactions_are_as_in_the_trace() -> None:
    load = load_of_name("postgresql:800tps", None)
    assert load.rate == pytest.approx(800 * (2_910 + 1_459) / 1_293, rel=0.001)


def test_the_range_of_many_machines_is_narrower() -> None:
    one = load_of_name("vm", None).assumption
    assert "(nine of ten virtual machines have 6 to 119)" in one
    twelve = load_of_name("vm:12", None).assumption
    assert "nine of ten such groups 223 to 770" in twelve


def test_amount_unit_and_weight() -> None:
    assert load_of_name("vm:12=2", None).weight == 2
    assert load_of_name("vm: 12 VMs", None).rate == load_of_name("vm:12", None).rate
    mix = load_of_name("database=3", None)
    assert (mix.weight, mix.rate, mix.span) == (3, None, 8 << 30)
    assert load_of_name("vm:12", 1 << 30).span == 1 << 30


def test_simulations_of_low_rates_are_short() -> None:
    assert rated_loads.simulated_ios(1_000) == 60_000
    assert rated_loads.simulated_ios(10) == 2_048
    assert rated_loads.simulated_ios(1) == 600
    assert rated_loads.simulated_ios(0.001) == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql:5users", "postgresql is counted in transactions per second: expected postgresql:12tps"),
        ("vm:", "expected an amount of virtual machines, such as vm:12vm"),
        ("vm:x", "expected an amount of virtual machines"),
        ("vm:0", "expected an amount above 0"),
        ("vm:1e9", "expected an amount of virtual machines"),
        ("vm:9999999", "at most 1,000,000"),
        ("database:5", "database runs as fast as the disks allow and has no amount"),
        ("mail:200users", "no published measurement has the rate, sizes and directions of mail"),
        ("games:3", "no such load; allowed: backup, database, file-server, media"),
        ("postgres:5", "no such load; did you mean 'postgresql'"),
    ],
)
def test_other_amounts_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        load_of_name(text, None)
    assert "\n" not in str(error.value)
