"""From what the user asks for to the result, which is kept next to the runs."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab import output
from blklab.analysis.sequential_test import check_condition
from blklab.bisection import findings
from blklab.bisection.findings import Bisection
from blklab.bisection.git import Commit, of_list
from blklab.bisection.measuring import CommitMeasuring
from blklab.bisection.search import BisectionRule, BisectionSearch
from blklab.bisection.source import BisectionSource, Note, locked, work_directory
from blklab.errors import UsageError
from blklab.runners.base import Runner
from blklab.runners.registry import RUNNERS
from blklab.spec import cells, kernels, load
from blklab.spec.cells import ExperimentPlan
from blklab.spec.overrides import Override
from blklab.store.campaigns import Store


class KernelList(BisectionSource):
    """Kernels in the order of their versions."""

    label = "kernel"

    def __init__(self, items: Sequence[tuple[str, str]], good: str, bad: str, work: Path) -> None:
        """`items` are kernels with what is new in each, the oldest first; both ends are among them."""
        names = [name for name, _ in items]
        first, last = sorted((names.index(good), names.index(bad)))
        self.repository, commits = of_list(items[first : last + 1], work / "list")
        self._commits = {commit.name: commit for commit in commits}
        by_name = {commit.short: commit for commit in commits}
        self.good, self.bad = by_name[good], by_name[bad]

    def commit(self, name: str) -> Commit:
        return self._commits[name]

    def own_kernel(self, commit: Commit) -> None:
        """Returns None: the version says all."""

    def changes(self, commit: Commit) -> Sequence[Override]:
        """Returns the kernel, as a change of the experiment."""
        return [Override("kernel", commit.short, "--set kernel")]


class SimulatedKernels(KernelList):
    """The steps of the simulator between two kernels."""

    runner_name = "sim"
    host = None

    def __init__(self, good: str, bad: str, work: Path) -> None:
        """Raises UsageError for a kernel that the simulator does not know."""
        items = list(kernels.STEPS)
        for end in (good, bad):
            if end not in [name for name, _ in items]:
                items.insert(sum(_version(name) <= _version(end) for name, _ in items), (end, ""))
        super().__init__(items, good, bad, work)

    def runner(self, commit: Commit) -> Runner:  # noqa: ARG002
        from blklab.runners.sim.runner import SimRunner

        return SimRunner(seed_count=lambda _cell: 1)  # A commit is judged without an interval


class PackagedKernels(KernelList):
    """The kernels of Debian's packages between two of them."""

    def __init__(self, good: str, bad: str, work: Path, accelerator: str | None) -> None:
        """Raises UsageError if there is no such kernel, EnvironmentLacks without packages."""
        from blklab.runners.lab.image.build import offered
        from blklab.runners.lab.image.kernels import choose

        offers = offered()
        ends = [choose(end, offers).name for end in (good, bad)]
        items = [(offer.name, f"package version {offer.version}") for offer in reversed(offers)]
        super().__init__(items, ends[0], ends[1], work)
        self._accelerator = accelerator

    def runner(self, commit: Commit) -> Runner:  # noqa: ARG002
        from blklab.runners.lab.runner import LabRunner

        return LabRunner(accelerator=self._accelerator)


def _version(kernel: str) -> tuple[int, int, bool]:
    try:
        return (*kernels.parse(kernel), "-rc" not in kernel)
    except ValueError as error:
        raise UsageError(str(error)) from None


@dataclass(frozen=True)
class BisectionRequest:
    """What the user asks for. Raises UsageError for options that do not fit together."""

    experiment: Path
    runner: str  # `lab` or `sim`
    good: str
    bad: str
    rule: BisectionRule
    tree: Path | None  # The repository of the sources; None to bisect kernels
    commands: Sequence[str]  # Build the kernel
    modules: Sequence[str]  # Are built instead of a kernel
    changes: Sequence[Override]
    only: Mapping[str, str]
    accelerator: str | None

    def __post_init__(self) -> None:
        for condition in self.rule.conditions:
            check_condition(condition)
        if self.tree is None and (self.commands or self.modules):
            raise UsageError("--build and --module need --tree DIR, the repository of the sources")
        if self.tree is not None and bool(self.commands) == bool(self.modules):
            raise UsageError("--tree needs either --module NAME or --build COMMAND")
        if self.tree is not None and self.runner != "lab":
            raise UsageError("--tree: the simulator has no sources: use --on lab")

    @property
    def identity(self) -> list[str]:
        """What tells the work directory from those of other bisections."""
        ends = [self.good, self.bad] if self.tree is None else [str(self.tree.resolve())]
        return [self.runner, *ends, *self.commands, *self.modules]


def carry_out(request: BisectionRequest, store: Store, *, resume: bool, note: Note, log: Path | None) -> Bisection:
    """Bisects, and keeps the result in the store. `log` is a file for git's log. Raises UsageError."""
    read = load.read(request.experiment)
    work = work_directory(*request.identity)

    def plan_of(changes: Sequence[Override]) -> ExperimentPlan:
        once = [*request.changes, *changes, Override("repeats", 1, "--set repeats")]
        return cells.plan(read, changes=once, only=request.only, form=RUNNERS[request.runner].form())

    def write_log(text: str) -> None:
        if log is not None:
            output.write(log, text.encode())

    with locked(work):
        source = _source(request, plan_of([]), work, note)
        measuring = CommitMeasuring(source, lambda commit: plan_of(source.changes(commit)), store, resume, note)
        try:
            bisection = BisectionSearch(source, measuring, request.rule, note, write_log).find()
        finally:
            measuring.close()
    findings.keep(store, bisection)
    for path in filter(Path.is_dir, work.iterdir()):  # Logs of builds stay
        shutil.rmtree(path, ignore_errors=True)
    return bisection


def _source(request: BisectionRequest, plan: ExperimentPlan, work: Path, note: Note) -> BisectionSource:
    ends = (request.good, request.bad)
    accelerator = request.accelerator
    if request.tree is not None and request.commands:
        from blklab.bisection.tree import KernelTree

        return KernelTree(request.tree, request.commands, ends, work, accelerator=accelerator, note=note)
    if request.tree is not None:
        from blklab.bisection.tree import ModuleSources

        kernels = {str(cell.document["kernel"]) for cell in plan.cells}
        if len(kernels) > 1:
            raise UsageError(f"--module: expected one kernel, the cells have {', '.join(sorted(kernels))}")
        return ModuleSources(
            request.tree, request.modules, kernels.pop(), ends, work, accelerator=accelerator, note=note
        )
    if request.runner == "sim":
        return SimulatedKernels(*ends, work)
    return PackagedKernels(*ends, work, accelerator)
