"""Which guest serves which cell, when guests and cells fail: guests are made up."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment import lab_cell
from blklab.experiment.cells import Cell, plan
from blklab.runners.lab import measurement, runner
from blklab.runners.lab.agent import GuestGone
from blklab.runners.lab.image.build import GuestImage
from blklab.runners.lab.image.kernels import OfferedKernel, UserKernelOption, choose
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.boot import GuestLost
from blklab.store.series import FinishedRun
from tests.runners.collecting import Collected, collected
from tests.runners.lab.stacks.recording import Recorder

EXPERIMENT = """
[devices]
a = { kind = "throttled", size = "1GiB" }
[stacks.bare]
device = "a"
[workloads.reads]
rw = "randread"
runtime = "1s"
size = "64MiB"
[matrix]
kernel = ["6.1", "6.12"]
iodepth = [1, 2, 3]
"""


class Guest:
    """Does what a test wants, cell by cell."""

    def __init__(self) -> None:
        self.agent = Recorder({"/proc/mounts": "none / rootfs rw 0 0\n"})
        self.ended = self.spoilt = False
        self.accel = "tcg"

    def end(self) -> None:
        self.ended = True

    def explain_loss(self, error: BlklabError) -> GuestLost:
        return GuestLost(f"the guest is lost: {error}")


class Lab:
    """The runner, with guests that are made up; `acts` by cell number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        path = tmp_path / "exp.toml"
        path.write_text(EXPERIMENT)
        self.cells: list[Cell] = list(plan(path, form=lab_cell.FORM).cells)
        self.guests: list[Guest] = []
        self.served: list[tuple[int, int]] = []
        self.acts: dict[int, Callable[[Guest], object]] = {}
        self.boots: Callable[[], object] = lambda: None
        made = GuestImage(tmp_path / "vmlinuz", tmp_path / "initrd", "6.1", {}, "digest")
        monkeypatch.setattr(runner, "image", lambda _kernel, **_: made)
        monkeypatch.setattr(runner, "boot", self._boot)
        monkeypatch.setattr(measurement, "measure", self._measure)

    def run(self) -> Collected:
        return collected(runner.LabRunner(), self.cells)

    def _boot(self, *_: Any, **__: Any) -> Guest:
        self.boots()
        self.guests.append(Guest())
        return self.guests[-1]

    def _measure(self, machine: Guest, document: Any, *_: Any, **__: Any) -> FinishedRun:
        (number,) = [item.number for item in self.cells if item.document is document]
        self.served.append((len(self.guests), number))
        if number in self.acts:
            self.acts[number](machine)
        return cast("FinishedRun", f"cell {number}")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    return Lab(monkeypatch, tmp_path)


def raising(error: BaseException) -> Callable[[Guest], object]:
    def act(_guest: Guest) -> None:
        raise error

    return act


def kernels(lab: Lab) -> list[str]:
    return [item.document["kernel"] for item in lab.cells]


def test_one_guest_for_the_cells_of_a_kernel(lab: Lab) -> None:
    assert kernels(lab) == ["6.1"] * 3 + ["6.12"] * 3
    result = lab.run()
    assert lab.served == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]
    assert all(guest.ended for guest in lab.guests)
    assert (len(result.ended), result.failed) == (6, {})


def test_a_cell_that_fails_leaves_the_guest_to_the_next(lab: Lab) -> None:
    lab.acts[2] = raising(BlklabError("refused"))
    result = lab.run()
    assert [guest for guest, _ in lab.served] == [1, 1, 1, 2, 2, 2]
    assert result.failed == {2: "refused"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/block/md0/md/level", "raid1\n"),
        ("/sys/block/dm-0/dm/name", "vg-data\n"),
        ("/sys/block/bcache0/size", "8\n"),
        ("/proc/mounts", "/dev/vda /mnt ext4 rw 0 0\n"),
    ],
)
def test_what_a_cell_left_is_not_found_by_the_next(lab: Lab, path: str, text: str) -> None:
    lab.acts[1] = lambda guest: guest.agent.files.update({path: text})
    result = lab.run()
    assert [guest for guest, _ in lab.served] == [1, 2, 2, 3, 3, 3]
    assert result.failed == {}, "what was measured counts all the same"


def test_a_guest_that_is_not_as_it_was_serves_no_other_cell(lab: Lab) -> None:
    lab.acts[1] = lambda guest: setattr(guest, "spoilt", True)
    result = lab.run()
    assert [guest for guest, _ in lab.served] == [1, 2, 2, 3, 3, 3]
    assert result.failed == {}


@pytest.mark.parametrize("error", [GuestGone("closed"), GuestLost("the guest is lost: closed")])
def test_a_guest_that_is_lost_costs_its_cell(lab: Lab, error: BlklabError) -> None:
    lab.acts[2] = raising(error)
    result = lab.run()
    assert [guest for guest, _ in lab.served] == [1, 1, 2, 3, 3, 3]
    assert result.failed == {2: "the guest is lost: closed"}


def test_an_error_of_a_guest_that_has_ended_is_its_end(lab: Lab) -> None:
    def act(guest: Guest) -> None:
        guest.ended = True
        raise BlklabError("QEMU is gone")

    lab.acts[3] = act
    assert lab.run().failed == {3: "the guest is lost: QEMU is gone"}


def test_no_guest_can_be_had(lab: Lab) -> None:
    def boots() -> None:
        raise GuestLost("no")

    lab.boots = boots
    with pytest.raises(GuestLost):
        lab.run()
    assert lab.served == []


@pytest.mark.parametrize("error", [EnvironmentLacks("x", "y"), KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_a_campaign_ends_the_guest(lab: Lab, error: BaseException) -> None:
    lab.acts[2] = raising(error)
    with pytest.raises(type(error)):
        lab.run()
    assert [number for _, number in lab.served] == [1, 2]
    assert lab.guests[0].ended


def test_a_host_that_was_suspended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = 100.0
    monkeypatch.setattr(runner, "_suspended_seconds", lambda: asleep)

    def act(_guest: Guest) -> None:
        nonlocal asleep
        asleep += 3600

    lab.acts[1] = act
    result = lab.run()
    assert result.failed == {1: "the host was suspended for 3600 s during the run: measure it again"}
    assert len(result.ended) == 5


def test_a_cell_that_another_process_took(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collected, "begin", lambda _self, item: item.number > 3)
    lab.run()
    assert [number for _, number in lab.served] == [4, 5, 6]
    assert len(lab.guests) == 1, "for nothing, none is booted"


def test_a_kernel_of_the_users_is_part_of_what_a_cell_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT.replace('kernel = ["6.1", "6.12"]\n', ""))
    planned = plan(path, form=lab_cell.FORM)
    monkeypatch.setattr(runner, "UserKernel", lambda *_: SimpleNamespace(key="kernel-1"))
    own = runner.LabRunner(kernel=UserKernelOption(tmp_path / "vmlinuz")).adapt_plan(planned)
    assert {cell.document["own_kernel"] for cell in own.cells} == {"kernel-1"}
    assert not {cell.key for cell in own.cells} & {cell.key for cell in planned.cells}
    path.write_text(EXPERIMENT)
    with pytest.raises(
        UsageError, match="--kernel: it replaces the kernel of all cells, but \\[matrix\\] varies kernel"
    ):
        runner.LabRunner(kernel=UserKernelOption(tmp_path / "vmlinuz")).adapt_plan(plan(path, form=lab_cell.FORM))


def test_kernels_that_the_lab_lacks_are_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(EXPERIMENT.replace('["6.1", "6.12"]', '["4.19", "6.1", "5.10"]'))
    planned = plan(path, form=lab_cell.FORM)
    made = GuestImage(tmp_path / "vmlinuz", tmp_path / "initrd", "6.1", {}, "digest")

    def image(kernel: str, **_: Any) -> GuestImage:
        choose(kernel, [OfferedKernel("6.1.0-49-cloud-amd64", "1")])
        return made

    monkeypatch.setattr(runner, "image", image)
    monkeypatch.setattr(qemu, "find", lambda: ("qemu", "8"))
    kept = runner.LabRunner().adapt_plan(planned)
    assert [item.number for item in kept.cells] == [4, 5, 6]
    assert kept.notes == ["3 of 9 cells run here: kernel 4.19, 5.10 are not in the lab"]
    path.write_text(EXPERIMENT.replace('["6.1", "6.12"]', '["4.19"]'))
    with pytest.raises(UsageError, match=r"none of 3 cells runs here: no kernel '4\.19' in Debian's packages"):
        runner.LabRunner().adapt_plan(plan(path, form=lab_cell.FORM))
