"""From what the user asks for, kernels or a tree of sources, to the result, which is kept next to the runs."""

import functools
import hashlib
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blklab import kernels, output
from blklab.bisect import findings, git
from blklab.bisect.findings import Bisection
from blklab.bisect.git import Commit, GitFailed, Repository, make_shared_repository, of_list
from blklab.bisect.search import BisectionRule, BisectionSearch, CommitMeasuring, check_condition
from blklab.bisect.source import BisectionSource, BuildFailed, Note, lock_directory, work_directory
from blklab.errors import BlklabError, UsageError
from blklab.experiment import cells, load
from blklab.experiment.cells import ExperimentPlan
from blklab.experiment.overrides import Override
from blklab.runners.base import Runner
from blklab.runners.lab.image.build import image, list_kernels
from blklab.runners.lab.image.cache import ImageCache
from blklab.runners.lab.image.cache import directory as cache_directory
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, fetch, run
from blklab.runners.lab.image.kernels import ReplacedModules, UserKernelOption, choose
from blklab.runners.lab.runner import LabRunner
from blklab.runners.registry import RUNNERS
from blklab.store.campaigns import Store
from blklab.system.child_process import find
from blklab.text.printing import printable

DIRECTORY = "drivers/md"
MODULES = {  # Directories of the modules, in the kernel's tree
    **dict.fromkeys(("md-mod", "raid0", "raid1", "raid10", "raid456"), DIRECTORY),
    **dict.fromkeys(("dm-mod", "dm-cache", "dm-cache-smq", "dm-writecache", "dm-delay"), DIRECTORY),
    "bcache": f"{DIRECTORY}/bcache",
}
_NEEDED = re.compile(r"linux-(?:headers|kbuild)-")
_SOURCES = "/usr/src/"  # Where the packages expect each other


@dataclass(frozen=True)
class LabOptions:
    """How guests boot the kernels of a bisection."""

    accelerator: str | None
    note: Note


@dataclass(frozen=True)
class TreeEnds:
    """The ends of a bisection of sources."""

    good: str  # A revision of the user's repository
    bad: str  # Likewise; empty with a patch
    patch: Path | None = None  # The bad end is the good one with this patch


class BisectedTree(BisectionSource):
    """Commits of the user's repository."""

    label = "commit"

    def __init__(self, tree: Path, ends: "TreeEnds", work: Path, lab: LabOptions) -> None:
        """Raises UsageError without such a repository, or such commits in it."""
        self.repository = make_shared_repository(tree, work / "tree")
        self.good = Repository(tree).commit(ends.good)
        if ends.patch is None:
            self.bad = Repository(tree).commit(ends.bad)
        else:
            self.bad = self.repository.commit_patch(self.good, ends.patch)
        self._work = work
        self._lab = lab

    def commit(self, name: str) -> Commit:
        return self.repository.commit(name)

    def changes(self, commit: Commit) -> Sequence[Override]:  # noqa: ARG002
        """Returns what a commit changes in the experiment."""
        return []

    def _build_once(self, commit: Commit, build: Callable[[Path], None]) -> Path:
        """Returns the directory of what `build` made of a commit; an earlier build is used again."""
        digest = hashlib.sha256(str(self.own_kernel(commit)).encode()).hexdigest()
        build_directory = self._work / f"built-{digest}"
        if not build_directory.is_dir():
            partial_directory = self._work / "unfinished"
            shutil.rmtree(partial_directory, ignore_errors=True)
            partial_directory.mkdir(parents=True)
            build(partial_directory)
            partial_directory.rename(build_directory)
        return build_directory


class ModuleSources(BisectedTree):
    """The sources of modules, built against the headers of a packaged kernel."""

    def __init__(
        self, tree: Path, modules: Sequence[str], kernel: str, ends: TreeEnds, work: Path, lab: LabOptions
    ) -> None:
        """Raises EnvironmentLacks without a compiler."""
        super().__init__(tree, ends, work, lab)
        for name in modules:
            if name not in MODULES:
                raise UsageError(f"--module {printable(name)}: expected one of {', '.join(MODULES)}")
        for line in list_changed_headers(self.repository, self.good, self.bad):
            lab.note(f"{line}: build all of their modules (--module); the others keep the packaged version")
        self._modules = modules
        self._kernel = image(kernel, note=lab.note).version
        self._headers = kernel_headers(self._kernel, lab.note)
        for tool in (compiler(self._headers), "make"):
            find(tool, tool)

    def changes(self, commit: Commit) -> Sequence[Override]:  # noqa: ARG002
        """Returns what a commit changes in the experiment."""
        return [Override("kernel", self._kernel, "--set kernel")]

    def own_kernel(self, commit: Commit) -> str:
        """Returns what the modules are built from."""
        return " ".join([commit.name, self._kernel, *self._modules])

    def runner(self, commit: Commit) -> Runner:
        """Returns the runner for a commit, and builds it first. Raises BuildFailed."""
        build_directory = self._build_once(commit, lambda into: self._build(commit, into))
        module_files = {f"{MODULES[name]}/{name}.ko": build_directory / f"{name}.ko" for name in self._modules}
        kernel = ReplacedModules(self._kernel, module_files)
        return LabRunner(kernel=kernel, accelerator=self._lab.accelerator, note=self._lab.note)

    def _build(self, commit: Commit, into: Path) -> None:
        sources = self._extract_sources(commit, into)
        for name in self._modules:
            directory = sources / MODULES[name].removeprefix(DIRECTORY).lstrip("/")
            log = self._work / f"build-{commit.short}.log"
            arguments = ["make", "-C", str(self._headers), f"M={directory}", f"-j{os.cpu_count() or 1}", f"{name}.ko"]
            status, output = git.run(arguments, log=log, package="make")
            if status:
                raise BuildFailed(f"{first_error(output)} ({log})")
            shutil.copyfile(directory / f"{name}.ko", into / f"{name}.ko")
        shutil.rmtree(sources)

    def _extract_sources(self, commit: Commit, into: Path) -> Path:
        """Extracts md's sources: those in drivers/md of a kernel tree, or at the top of a smaller one."""
        archive = into / "sources.tar"
        below = directory_of_md(self.repository, commit)
        self.repository.run("archive", f"--output={archive}", commit.name, *filter(None, [below]))
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(into / "sources", filter="data")
        except (tarfile.TarError, OSError) as error:
            raise BuildFailed(f"its sources cannot be extracted: {printable(str(error))}") from None
        archive.unlink()
        sources = into / "sources" / below
        if not (sources / "Makefile").is_file():
            raise BlklabError(f"commit {commit.short}: found no Makefile of md, in {DIRECTORY} or at the top")
        return sources


def directory_of_md(repository: Repository, commit: Commit) -> str:
    """Returns where a commit has md's sources: drivers/md in a kernel tree, or at the top."""
    return DIRECTORY if repository.run("ls-tree", commit.name, DIRECTORY) else ""


def list_changed_headers(repository: Repository, good: Commit, bad: Commit) -> list[str]:
    """Names each header of md that changes between both ends, with the sources that include it."""
    below = directory_of_md(repository, bad)
    headers, sources = (f":(glob){below}/*.{ending}".replace(")/", ")") for ending in "hc")
    result = []
    for path in repository.run("diff", "--name-only", good.name, bad.name, "--", headers).split():
        with suppress(GitFailed):  # No source includes it
            including = repository.run("grep", "-lF", f'"{Path(path).name}"', bad.name, "--", sources).split()
            names = ", ".join(Path(source.rpartition(":")[2]).name for source in including)
            result.append(f"{path} changes between both ends, and {names} include it")
    return result


def kernel_headers(version: str, note: Note) -> Path:
    """Returns the directory with a packaged kernel's headers, for `make -C` to build modules.

    `version` is that of the kernel, such as 6.1.0-49-cloud-amd64. Nothing is installed. Raises EnvironmentLacks if the
    packages cannot be downloaded.
    """
    cache = ImageCache(cache_directory())
    name = f"headers-{version}"
    sources = cache.root / name / "usr/src"
    if cache.find(name) is None:
        with cache.hold_lock(note):
            debian = DebianArchive(cache.root / "debian", note)

            def fill(into: Path) -> None:
                with cache.scratch() as scratch:
                    _, debs = fetch(debian, lambda: _header_packages(debian, version), scratch)
                    for deb in debs:
                        run(["dpkg-deb", "--extract", str(deb), str(into)])
                for makefile in into.glob("usr/src/*/Makefile"):
                    text = makefile.read_text()
                    makefile.write_text(text.replace(f"include {_SOURCES}", f"include {sources}/"))

            cache.make(name, fill)
    return sources / f"linux-headers-{version}"


def compiler(headers_directory: Path) -> str:
    """Returns the compiler of a kernel, such as gcc-12, as Debian's package of headers names it."""
    match = re.search(r"\b(gcc-\d+)\b", (headers_directory / ".kernelvariables").read_text())
    return match[1] if match else "gcc"


def _header_packages(debian: DebianArchive, version: str) -> list[DebianPackage]:
    packages = debian.with_dependencies([f"linux-headers-{version}"])
    return [deb for deb in packages if _NEEDED.match(deb.name)]


def first_error(output: str) -> str:
    """Returns the first error in the output of a build."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "***" in line]
    return printable((errors or lines[-1:] or ["it failed without a message"])[0])[:300]


BZIMAGE = "arch/x86/boot/bzImage"


class KernelTree(BisectedTree):
    """Kernels built from a git tree."""

    def __init__(self, tree: Path, commands: Sequence[str], ends: TreeEnds, work: Path, lab: LabOptions) -> None:
        """`commands` run one after the other, without a shell."""
        # Most kernels get the same notes.
        super().__init__(tree, ends, work, LabOptions(lab.accelerator, functools.cache(lab.note)))
        try:
            self._commands = [shlex.split(command) for command in commands]
        except ValueError as error:
            raise UsageError(f"--build: {error}") from None
        if not all(self._commands):
            raise UsageError("--build: expected a command, such as 'make -j8'")
        config = tree / ".config"
        self._config = config.read_bytes() if config.is_file() else None

    def own_kernel(self, commit: Commit) -> str:
        """Returns a digest of what the kernel is built from."""
        return hashlib.sha256(repr((commit.name, self._commands, self._config)).encode()).hexdigest()

    def runner(self, commit: Commit) -> Runner:
        """Returns the runner for a commit, and builds it first. Raises BuildFailed."""
        build_directory = self._build_once(commit, lambda into: self._build(commit, into))
        modules = build_directory / "lib/modules"
        kernel = UserKernelOption(build_directory / "vmlinuz", modules if modules.is_dir() else None)
        return LabRunner(kernel=kernel, accelerator=self._lab.accelerator, note=self._lab.note)

    def _build(self, commit: Commit, into: Path) -> None:
        tree = self.repository.directory
        self.repository.run("checkout", "--quiet", "--force", "--detach", commit.name)
        if self._config is not None:
            (tree / ".config").write_bytes(self._config)
        (tree / BZIMAGE).unlink(missing_ok=True)
        log = self._work / f"build-{commit.short}.log"
        install_paths = {"INSTALL_PATH": str(into), "INSTALL_MOD_PATH": str(into)}
        for command in self._commands:
            status, output = git.run(command, directory=tree, environment={**os.environ, **install_paths}, log=log)
            if status:
                raise BuildFailed(f"{first_error(output)} ({log})")
        images = [*into.glob("vmlinuz*"), tree / BZIMAGE]
        if not images[0].is_file():
            raise BuildFailed(f"the build made neither {BZIMAGE} nor $INSTALL_PATH/vmlinuz* ({log})")
        if images[0] != into / "vmlinuz":
            shutil.copyfile(images[0], into / "vmlinuz")


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
        offers = list_kernels()
        ends = [choose(end, offers).name for end in (good, bad)]
        items = [(offer.name, f"package version {offer.version}") for offer in reversed(offers)]
        super().__init__(items, ends[0], ends[1], work)
        self._accelerator = accelerator

    def runner(self, commit: Commit) -> Runner:  # noqa: ARG002
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
    bad: str  # Empty with a patch
    patch: Path | None  # The bad end is the good one with this patch
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
        if self.tree is None and (self.commands or self.modules or self.patch):
            raise UsageError("--build, --module and --patch need --tree DIR, the repository of the sources")
        if bool(self.bad) == (self.patch is not None):
            raise UsageError("expected --bad KERNEL or COMMIT, or --patch FILE, but not both")
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

    with lock_directory(work):
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
    lab = LabOptions(request.accelerator, note)
    ends = TreeEnds(request.good, request.bad, request.patch)
    if request.tree is not None and request.commands:
        return KernelTree(request.tree, request.commands, ends, work, lab)
    if request.tree is not None:
        kernels = {str(cell.document["kernel"]) for cell in plan.cells}
        if len(kernels) > 1:
            raise UsageError(f"--module: expected one kernel, the cells have {', '.join(sorted(kernels))}")
        return ModuleSources(request.tree, request.modules, kernels.pop(), ends, work, lab)
    if request.runner == "sim":
        return SimulatedKernels(request.good, request.bad, work)
    return PackagedKernels(request.good, request.bad, work, request.accelerator)
