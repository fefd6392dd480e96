"""A virtual disk with known limits, calibrated in a guest: what the fitted model predicts for other loads."""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from blklab.calibrate.disk_and_host import fit_disk_and_host
from blklab.calibrate.fit import READS, WRITES, Bench
from blklab.calibrate.observations import Observation, from_fio
from blklab.runners.fio.process import PATIENCE
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.machine.boot import GuestMachine, boot
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.runners.lab.arrays import names

SHAPE = VirtualDiskShape("limited", 1 << 30)
LIMITS = {"iops_total": 200, "bps_total": 8_000_000}  # Far below what an emulated guest reaches on a busy machine

OTHERS: Mapping[str, Mapping[str, Any]] = {
    "randread-4": {"rw": "randread", "bs": "4k", "iodepth": 4},
    "randread-8k-16": {"rw": "randread", "bs": "8k", "iodepth": 16},
    "randread-128k-4": {"rw": "randread", "bs": "128k", "iodepth": 4},
    "randwrite-16": {"rw": "randwrite", "bs": "4k", "iodepth": 16},
    "mixed-60": {"rw": "randrw", "rwmixread": 60, "bs": "4k", "iodepth": 16},
    "randwrite-256k-2": {"rw": "randwrite", "bs": "256k", "iodepth": 2},
}
"""Loads that are not fitted."""

SECONDS = 5


@pytest.fixture(scope="module")
def guest(guest_image: GuestImage) -> Iterator[GuestMachine]:
    with boot(guest_image, [SHAPE], accelerator_choice="tcg", cpus=2, memory=512 << 20, note=lambda _: None) as booted:
        yield booted


def measure(guest: GuestMachine, tests: Mapping[str, Mapping[str, Any]], directory: Path) -> list[Observation]:
    """Runs fio in the guest, one load after another, and returns the runs."""
    (disk,) = names(guest, [SHAPE])
    runs = []
    for name, test in tests.items():
        options = {**test, **test.get("options", {})}
        options.pop("options", None)
        words = [f"--{key}={value}" for key, value in options.items()]
        ran = guest.agent.run(
            ["fio", "--output-format=json", f"--name={name}", f"--filename=/dev/{disk}", "--direct=1",
             "--ioengine=libaio", "--time_based", f"--runtime={SECONDS}", "--ramp_time=1", "--group_reporting", *words],
            timeout=PATIENCE,
        )  # fmt: skip
        path = directory / f"{name}.json"
        path.write_text(ran.stdout)
        runs += from_fio(path)
    return runs


@pytest.mark.guest
def test_a_calibrated_virtual_disk_predicts_other_loads(guest: GuestMachine, tmp_path: Path) -> None:
    guest.throttle(guest.disk(SHAPE), LIMITS)
    fitted_runs = measure(guest, READS | WRITES, tmp_path)
    other_runs = measure(guest, OTHERS, tmp_path)
    bench = Bench(tmp_path, "6.1", size=str(SHAPE.bytes))
    measured = fit_disk_and_host({"kind": "throttled"}, fitted_runs, bench)
    device = measured.calibration.device
    (residuals,) = bench.residuals([dict(device)], other_runs)
    ratios = {residual.run.name: math.exp(abs(residual.log_error)) for residual in residuals}
    sys.stderr.write(f"ratios of measured and predicted IOPS: {ratios}\n")
    assert device["iops_total"] == pytest.approx(LIMITS["iops_total"], rel=0.15)
    assert max(ratios.values()) <= 1.3, ratios
    # fio in the guest reports its processor time, which is that of an emulated host.
    assert measured.host is None or measured.host.io_ns > 0
