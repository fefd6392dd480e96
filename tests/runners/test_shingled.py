"""Shingled disks: what the media cache and its fill do to figures that users see."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.runners import changed_device


def simulate(run: Run, directory: Path, device: str, workload: str, runtime: str = "20s") -> Any:
    return changed_device.simulate(run, directory, f'model = "st5000lm000"{device}', workload, runtime)


RANDOM_WRITES = 'rw = "randwrite"\nbs = "4k"\niodepth = 1'


def full_line(result: Any) -> list[str]:
    return [sentence for sentence in result["explanation"] if sentence.startswith("The media cache of d was full")]


def test_each_write_rewrites_a_band_when_the_media_cache_is_full(run: Run, tmp_path: Path) -> None:
    empty = simulate(run, tmp_path, "", RANDOM_WRITES)
    full = simulate(run, tmp_path, ', media_cache_fill = "100%", write_cache_requests = 1', RANDOM_WRITES, "200s")
    # A journal entry takes 5.0 ms. 200,000 extents are spread over 180,000 bands: the band of the oldest one has 1 +
    # 200,000 / 180,000 = 2.11 of them, so a write waits for 1.1 s / 2.11.
    assert empty["write"]["iops"] == pytest.approx(1e9 / 5_046_590, rel=0.02)
    assert full["write"]["iops"] == pytest.approx(2.11 / 1.1, rel=0.1)
    assert not full_line(empty)
    assert len(full_line(full)) == 1


def test_sequential_writes_do_not_need_the_media_cache(run: Run, tmp_path: Path) -> None:
    sequential = 'rw = "write"\nbs = "1m"\niodepth = 8'
    empty, full = (
        simulate(run, tmp_path, f', media_cache_fill = "{fill}"', sequential, "120s")["write"]["bw_bytes"]
        for fill in ("0%", "95%")
    )
    assert full == pytest.approx(empty, rel=0.02)


def test_an_idle_disk_cleans_bands(run: Run, tmp_path: Path) -> None:
    # Each write is followed by 4 s without one: after the first of them, bands are cleaned in 1.1 s each, and the
    # write that comes then waits for the end of the last one.
    result = simulate(run, tmp_path, ', media_cache_fill = "10%"', RANDOM_WRITES + '\nthinktime = "4s"', "60s")
    cleaned = result["devices"][0]["work"]["bands_cleaned"]
    assert 30 <= cleaned <= 45


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("band_bytes = 0", "media_cache_bytes needs band_bytes"),
        ("media_cache_bytes = 0, media_cache_fill = '20%'", "media_cache_fill '20%' needs media_cache_bytes"),
        ("media_cache_bytes = '6TiB'", "media_cache_bytes must be less than the capacity, 5000981078016"),
    ],
)
def test_impossible_disks_are_refused(run: Run, tmp_path: Path, keys: str, message: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        f'[devices]\nd = {{ model = "st5000lm000", {keys} }}\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "read"\n[settings]\nkernel = "6.1"\nruntime = "1s"\n'
    )
    done = run("run", path)
    assert (done.status, done.err.count("\n")) == (2, 1), done.err
    assert message in done.err
