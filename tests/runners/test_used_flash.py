"""Used flash disks: what the translation layer and the write cache do to figures that users see."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.runners import changed_device


def simulate(run: Run, directory: Path, device: str, workload: str, runtime: str = "1s") -> Any:
    return changed_device.simulate(run, directory, f'model = "pm983", {device}', workload, runtime)


RANDOM_WRITES = 'rw = "randwrite"\nbs = "4k"\niodepth = 32\nnumjobs = 8'


def test_a_used_disk_writes_slower_the_fuller_it_is(run: Run, tmp_path: Path) -> None:
    fresh, full_80, steady = (
        simulate(run, tmp_path, f'state = "{state}"', RANDOM_WRITES, "4s") for state in ("fresh", "full:80%", "steady")
    )
    iops = [result["write"]["iops"] for result in (fresh, full_80, steady)]
    assert iops[0] > 2 * iops[1] > 4 * iops[2]
    # The data sheet of this disk states 50,000 sustained random writes a second.
    assert iops[2] == pytest.approx(50_000, rel=0.1)
    assert any("bytes of flash for each byte written" in sentence for sentence in steady["explanation"])
    assert not any("bytes of flash" in sentence for sentence in fresh["explanation"])


def test_reads_of_a_used_disk_are_as_fast(run: Run, tmp_path: Path) -> None:
    reads = 'rw = "randread"\nbs = "4k"\niodepth = 32\nnumjobs = 4'
    fresh, steady = (simulate(run, tmp_path, f'state = "{state}"', reads) for state in ("fresh", "steady"))
    assert steady["read"] == fresh["read"]


def test_writes_are_slower_when_the_cache_of_single_bit_cells_is_full(run: Run, tmp_path: Path) -> None:
    writes = 'rw = "write"\nbs = "128k"\niodepth = 32'
    # 1 GB at 1.8 GB/s, then as fast as all bits are programmed: four times slower.
    slow = "state = 'fresh', slc_bytes = 1_000_000_000, fold_ns = 14_165_028"
    cached, short, long = (
        simulate(run, tmp_path, device, writes, runtime)["write"]["bw_bytes"]
        for device, runtime in (("units = 64", "1s"), (slow, "500ms"), (slow, "3s"))
    )
    assert short == pytest.approx(cached, rel=0.05)
    assert long == pytest.approx((1e9 + (3 - 1e9 / cached) * cached / 4) / 3, rel=0.05)


def test_a_load_has_the_rates_of_both_states_of_a_cache(run: Run, tmp_path: Path) -> None:
    writes = 'rw = "randwrite"\nbs = "4k"\niodepth = 32\nnumjobs = 4'
    path = tmp_path / "e.toml"
    changed_device.simulate(run, tmp_path, 'model = "990-pro"', writes, "200ms")
    done = run("run", path, "--no-store")
    assert "two states: the cache of single-bit cells of" in done.err + done.out
    assert "takes the first 210 GiB of writes" in done.err + done.out
    changed_device.simulate(run, tmp_path, 'model = "990-pro"', writes.replace("randwrite", "randread"), "200ms")
    assert "two states" not in run("run", path, "--no-store").err


def test_a_rate_that_is_not_known_is_not_printed(run: Run, tmp_path: Path) -> None:
    device = 'model = "nvme-consumer", slc_fill = "100%"'
    changed_device.simulate(run, tmp_path, device, 'rw = "randwrite"\nbs = "4k"\niodepth = 32', "200ms")
    done = run("run", tmp_path / "e.toml", "--no-store")
    assert "not known" in done.out and "measure the disks" in done.out
    run("run", tmp_path / "e.toml", "--store", tmp_path / "store.db")
    listed = run("runs", "show", "1", "--store", tmp_path / "store.db").out
    assert "not known" in listed, listed
    assert "write not known IOPS" in run("run", tmp_path / "e.toml", "--no-store", "--explain").out


def test_a_used_disk_needs_its_capacity(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[devices.d]\nkind = "ssd"\nstate = "steady"\nsize = "1GiB"\n'
        + "\n".join(
            f"{key} = 1000"
            for key in (
                *("read_command_ns", "write_command_ns", "read_bandwidth", "write_bandwidth", "read_latency_ns"),
                *("write_latency_ns", "units", "page_bytes", "page_read_ns", "program_bytes", "program_ns"),
                *("buffer_bytes", "suspend_ns"),
            )
        )
        + '\n[stacks.s]\ndevice = "d"\n[workloads.w]\nrw = "read"\ntime_based = true\n[settings]\nruntime = "1s"\n'
    )
    done = run("run", path)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "state 'steady' needs the capacity of the disk" in done.err


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ('model = "pm983", slc_bytes = 1_000_000', "slc_bytes needs fold_ns"),
        ('model = "pm983", state = "full:999%"', "state"),
        (
            'kind = "throttled", size = "1GiB", iops_total = 1000, iops_burst = 10, burst_seconds = 5',
            "iops_burst of 10",
        ),
        ('kind = "throttled", size = "1GiB", iops_burst = 10, burst_seconds = 5', "needs iops_total"),
        ('kind = "throttled", size = "1GiB", bps_total = 1000, bps_burst = 2000', "bps_burst needs burst_seconds"),
    ],
)
def test_impossible_devices_are_refused(run: Run, tmp_path: Path, device: str, message: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        f'[devices]\nd = {{ {device} }}\n[stacks.s]\ndevice = "d"\n[workloads.w]\nrw = "read"\ntime_based = true\n'
        '[settings]\nruntime = "1s"\n'
    )
    done = run("run", path)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert message in done.err


# Published rates of filling an erased disk in sequence, in GB/s: of its cache, then with all bits, then while cached
# data is moved. What judges is the mean rate of the whole fill, which no parameter is set from.
@pytest.mark.parametrize(
    ("capacity", "bits", "cache", "rates", "mean"),
    [
        pytest.param(1000, 3, 280, (4.5, 2.0, 0.5), 0.80, id="ADATA Atom 50"),
        pytest.param(2000, 3, 592, (3.5, 2.2, 1.0), 1.514, id="Lexar NM800 Pro"),
        pytest.param(2000, 3, 200, (5.0, 3.5, 1.5), 3.1, id="MSI M480 Play"),
        pytest.param(1000, 3, 160, (2.5, 0.5, 0.5), 0.60, id="Samsung 980"),
        pytest.param(2000, 4, 460, (3.5, 0.13, 0.13), 0.168, id="HP FX700"),
        pytest.param(2000, 3, 700, (4.0, 0.5, 0.5), 0.639, id="Crucial T500"),
    ],
)
def test_a_disk_is_filled_as_fast_as_published(
    run: Run, tmp_path: Path, capacity: int, bits: int, cache: int, rates: tuple[float, float, float], mean: float
) -> None:
    size = capacity * 10**7  # a hundredth, so that the simulation is short
    program, direct, fold = (round(96 * 98_304 / rate) for rate in rates)  # ns
    device = (
        f'model = "nvme-consumer", state = "fresh", capacity = {size}, units = 96, slc_bytes = {cache * 10**7},'
        f" cell_bits = {bits}, write_bandwidth = 7_000_000_000, program_ns = {program}, direct_ns = {direct},"
        f" fold_ns = {fold}"
    )
    workload = f'rw = "write"\nbs = "1m"\niodepth = 4\nsize = {size}'
    written = changed_device.simulate(run, tmp_path, device, workload, "1h")["write"]
    assert written["bw_bytes"] / 1e9 == pytest.approx(mean, rel=0.15)
