"""The runner `lab`: measures cells on a real kernel, in a guest with throttled virtual disks.

One guest serves all cells of a kernel; each gets fresh disks and a new stack.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blklab import __version__
from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.experiment.cells import Cell, ExperimentPlan
from blklab.experiment.documents import LabCellDocument
from blklab.runners.base import Ledger, Runner
from blklab.runners.fio import jobfile
from blklab.runners.lab import disk_shapes, measurement
from blklab.runners.lab.agent import GuestGone
from blklab.runners.lab.image.build import GuestImage, image
from blklab.runners.lab.image.cache import hold_directory
from blklab.runners.lab.image.kernels import ReplacedModules, UserKernelOption, own_kernel
from blklab.runners.lab.image.parts import UserKernel
from blklab.runners.lab.machine import qemu
from blklab.runners.lab.machine.boot import GuestLost, GuestMachine, boot
from blklab.runners.lab.machine.qemu import MOST_DISKS, VirtualDiskShape
from blklab.runners.lab.rates import factor
from blklab.runners.lab.stacks.filesystem import MOUNT
from blklab.runners.load_ramp import measure_ramp
from blklab.store.series import FinishedRun
from blklab.system.environment import environment
from blklab.system.roots import Roots

SUSPENDED = 2.0  # Seconds that a host's clocks may differ by if it was not suspended


@dataclass(kw_only=True, eq=False)
class LabRunner(Runner):
    kernel: UserKernelOption | ReplacedModules | None = None  # Replaces every cell's own
    accelerator: str | None = None
    trace: Sequence[str] = ()  # Layers to record, into `traces`
    traces: Path = Path("traces")
    note: Callable[[str], object] = lambda _note: None  # Called with messages for the user
    _images: dict[str, GuestImage] = field(default_factory=dict, init=False)
    _held: ExitStack = field(default_factory=ExitStack, init=False)  # The locks of images in the cache
    _documents: list[LabCellDocument] = field(
        default_factory=list, init=False
    )  # Of the whole plan: cells share a scale
    _scales: dict[str, float] = field(default_factory=dict, init=False)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keeps the images in the cache, and releases them at the end.

        `adapt_plan` and `check`, which come before, hold them already. Campaigns need no other lock: guests do not
        disturb each other, except by processor load.
        """
        with self._held:
            yield

    def adapt_plan(self, plan: ExperimentPlan) -> ExperimentPlan:
        """Returns the plan with the kernels that its cells will have.

        Without --kernel, these are the cells whose kernel the lab can boot; UsageError if it can boot none. With a
        kernel of the user, each cell names it, and so does its key; UsageError if the cells need several kernels. With
        --modules, the cells stay as they are: each boots its own kernel, with these modules replaced.
        """
        if self.kernel is None:
            return self._keep_bootable_cells(plan)
        if not isinstance(self.kernel, UserKernelOption):
            return plan
        if "kernel" in plan.varied:
            raise UsageError(
                "--kernel: it replaces the kernel of all cells, but [matrix] varies kernel: remove one of the two"
            )
        key = UserKernel(self.kernel, lambda _note: None).key
        cells = [replace(cell, document={**cell.document, "own_kernel": key}) for cell in plan.cells]
        return replace(plan, cells=cells)

    def _keep_bootable_cells(self, plan: ExperimentPlan) -> ExperimentPlan:
        """Finds or builds the image of each kernel, and drops the cells of kernels that are not in the lab."""
        qemu.find()
        missing: dict[str, UsageError] = {}
        for kernel in dict.fromkeys(cell.document["kernel"] for cell in plan.cells):
            try:
                self._image(kernel)
            except UsageError as error:
                missing[kernel] = error
        if not missing:
            return plan
        cells = [cell for cell in plan.cells if cell.document["kernel"] not in missing]
        if not cells:
            raise UsageError(
                f"none of {len(plan.cells)} cells runs here: {next(iter(missing.values()))}; --set kernel changes it"
            )
        are = "is" if len(missing) == 1 else "are"
        note = f"{len(cells)} of {len(plan.cells)} cells run here: kernel {', '.join(missing)} {are} not in the lab"
        return replace(plan, cells=cells, notes=[*plan.notes, note])

    def check(self, plan: ExperimentPlan) -> None:
        """Raises an error for a plan that cannot run: checks QEMU, kernel, and every job.

        Builds images that are not cached.
        """
        qemu.find()
        qemu.accelerators(self.accelerator)
        layer_names = {name for cell in plan.cells for name in disk_shapes.layers(cell.document)}
        for name in self.trace:
            if name not in layer_names | {measurement.EVERY}:
                choices = ", ".join([measurement.EVERY, *sorted(layer_names)])
                raise UsageError(f"--trace {name}: no such device or stack; {choices}")
        self._documents = [cell.document for cell in plan.cells]
        self._scales = {}
        for cell in plan.cells:
            jobfile.render(cell.document, Path("/"))
            self._image(cell.document["kernel"])

    def environment(self) -> dict[str, Any]:
        """Returns what is needed to judge the results: this machine, and the guests' contents."""
        return {
            **environment([], Roots()),
            "blklab": __version__,
            "programs": {"qemu": qemu.find()[1]},
            "guests": {
                kernel: {
                    "kernel": guest_image.version,
                    "image": guest_image.digest,
                    "packages": dict(guest_image.packages),
                }
                for kernel, guest_image in self._images.items()
            },
        }

    def run(self, cells: Sequence[Cell], ledger: Ledger) -> None:
        """Measures cells one after the other; a cell that fails is reported to the ledger.

        If a guest is lost, its cell fails, and the next cell gets a new guest. Raises
        EnvironmentLacks if something is missing that the other cells need as well.
        """
        self._documents = self._documents or [cell.document for cell in cells]
        sorted_cells = sorted(cells, key=lambda cell: (cell.document["kernel"], *cell.turn))
        for kernel, group in itertools.groupby(sorted_cells, key=lambda cell: cell.document["kernel"]):
            waiting = list(group)
            while waiting:
                many = _count_fitting(waiting)
                waiting = self._measure_in_guest(kernel, waiting[:many], ledger) + waiting[many:]

    def _measure_in_guest(self, kernel: str, cells: Sequence[Cell], ledger: Ledger) -> list[Cell]:
        """Measures cells in one guest; returns the remaining ones when it is lost."""
        machine = None
        try:
            for index, cell in enumerate(cells):
                if not ledger.begin(cell):
                    continue
                # Where one guest does not boot the next would not: that ends the campaign.
                machine = machine or self._boot_guest(kernel, cells[index:])
                try:
                    finished_run = self._measure_cell(machine, cell)
                except (EnvironmentLacks, UsageError):
                    raise
                except GuestLost as error:
                    ledger.fail(cell, str(error))
                    return list(cells[index + 1 :])
                except BlklabError as error:
                    ledger.fail(cell, str(error))
                else:
                    ledger.end(cell, finished_run)
                if machine.spoilt or not _is_clean(machine):
                    return list(cells[index + 1 :])
            return []
        finally:
            if machine is not None:
                machine.end()

    def _boot_guest(self, kernel: str, cells: Sequence[Cell]) -> GuestMachine:
        guest = cells[0].document["lab"]  # which nothing varies
        return boot(
            self._image(kernel),
            list(dict.fromkeys(shape for cell in cells for shape in disk_shapes.shapes(cell.document))),
            accelerator_choice=self.accelerator,
            cpus=guest["cpus"],
            memory=guest["memory"],
            note=self.note,
        )

    def _scale(self, accelerator: str) -> float:
        """Returns the divisor of the rates of the whole plan."""
        if accelerator not in self._scales:
            self._scales[accelerator] = factor(self._documents, accelerator)
        return self._scales[accelerator]

    def _image(self, kernel: str) -> GuestImage:
        while kernel not in self._images:
            guest_image = image(self.kernel or kernel, note=self.note)
            with suppress(FileNotFoundError):  # `lab prune` came between
                self._held.enter_context(hold_directory(guest_image.initrd.parent))
                self._images[kernel] = guest_image
        return self._images[kernel]

    def _measure_cell(self, machine: GuestMachine, cell: Cell) -> FinishedRun:
        try:
            with _check_not_suspended():
                return measure_ramp(
                    cell.document,
                    lambda document: measurement.measure(
                        machine,
                        document,
                        lambda live: self.progress(cell, live),
                        scale=self._scale(machine.accel),
                        traced_layers=self.trace,
                        traces=self.traces / _trace_directory(cell),
                    ),
                )
        except BlklabError as error:
            if isinstance(error, GuestGone) or machine.ended:
                raise machine.explain_loss(error) from None
            raise


def make(
    *,
    accel: str | None,
    kernel: Path | None,
    modules: Path | None,
    trace: str | None,
    trace_to: Path | None,
    note: Callable[[str], object],
    **_warn: Callable[[str], object],
) -> LabRunner:
    """Makes the runner for `blklab run`. Raises UsageError."""
    return LabRunner(
        kernel=own_kernel(kernel, modules),
        accelerator=accel,
        trace=[word.strip() for word in (trace or "").split(",") if word.strip()],
        traces=trace_to or Path("traces"),
        note=note,
    )


def _count_fitting(cells: Sequence[Cell]) -> int:
    """Returns how many cells, from the first on, one guest has disks for; at least one."""
    shapes: set[VirtualDiskShape] = set()
    for count, cell in enumerate(cells):
        shapes |= set(disk_shapes.shapes(cell.document))
        if count and len(shapes) > MOST_DISKS - 1:  # One disk is for results
            return count
    return len(cells)


def _trace_directory(cell: Cell) -> str:
    label_text = "-".join(str(value) for value in cell.labels.values())
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label_text)
    return f"{cell.number:03}-{safe}"[:100]


def _is_clean(machine: GuestMachine) -> bool:
    """Tells whether nothing of a cell remains in the guest; False if the guest does not answer."""
    try:
        devices = machine.agent.read(["/sys/block/md*/md/level", "/sys/block/dm-*/dm/name"])
        devices |= machine.agent.read(["/sys/block/bcache*/size"])
        mounts = machine.agent.read(["/proc/mounts"])["/proc/mounts"] or ""
    except BlklabError:
        return False
    return not any(devices.values()) and f" {MOUNT} " not in mounts


@contextmanager
def _check_not_suspended() -> Iterator[None]:
    """Raises BlklabError if the host was suspended during the block: its times are wrong."""
    before = _suspended_seconds()
    yield
    slept = _suspended_seconds() - before
    if slept > SUSPENDED:
        raise BlklabError(f"the host was suspended for {slept:.0f} s during the run: measure it again")


def _suspended_seconds() -> float:
    """Returns how long this machine was suspended since boot (clock_gettime(2)); s."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
