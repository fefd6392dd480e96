"""Controllers that a device names without a table."""

import re
from pathlib import Path

from blklab.devices.controllers import read_controllers
from tests.conftest import Run
from tests.runners import changed_device

ROOT = Path(__file__).parents[2]


def test_a_known_controller_needs_no_table(run: Run, tmp_path: Path) -> None:
    reads = 'rw = "randread"\nbs = "4k"\niodepth = 4'
    alone, behind = (
        changed_device.simulate(run, tmp_path, f'model = "s4610"{controller}', reads, "300ms")
        for controller in ("", ', controller = "p420i"')
    )
    assert behind["read"]["iops"] < 0.8 * alone["read"]["iops"]


def test_an_unknown_controller_is_refused_with_a_near_name(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[devices]\nd = { model = "s4610", controller = "p420" }\n[stacks.s]\ndevice = "d"\n'
        '[workloads.w]\nrw = "read"\n[settings]\nkernel = "6.1"\nruntime = "1s"\n'
    )
    done = run("run", path, "--no-store")
    assert done.status == 2 and "p420i" in done.err


def test_the_reference_names_each_controller() -> None:
    text = (ROOT / "docs/reference/experiments.md").read_text()
    (sentence,) = re.findall(r"These names need no table: ([^(]*)", text)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(read_controllers())
    assert all(controller.source for controller in read_controllers().values())
