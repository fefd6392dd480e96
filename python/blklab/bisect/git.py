"""Drives `git bisect` in a repository of our own: git chooses the commits, skips, and keeps the log.

It also runs make and the user's build commands.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.system import child_process
from blklab.text.printing import printable


def run(
    arguments: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    package: str | None = None,
    drop_stderr: bool = False,
) -> tuple[int, str]:
    """Runs a program to its end and returns its status and its output, of stdout and stderr; it goes to `log` as well.

    With `drop_stderr`, what a successful program writes to stderr is left out.

    Raises EnvironmentLacks if a program of a Debian `package` is not installed, and UsageError for another one.
    """
    program = arguments[0]
    here = (directory or Path()) / program
    if shutil.which(program) is None and not ("/" in program and os.access(here, os.X_OK)):
        if package is None:
            raise UsageError(f"{printable(program)}: no such program")
        raise EnvironmentLacks(f"{program} is not installed", f"install it: apt-get install {package}")
    env = None if environment is None else {**environment, "LC_ALL": "C"}
    errors_to = subprocess.PIPE if drop_stderr else subprocess.STDOUT
    result = child_process.run(child_process.command(arguments), cwd=directory, stderr=errors_to, env=env)
    if log is not None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(log, flags, 0o600), "a") as stream:
            stream.write(f"$ {' '.join(arguments)}\n{result.stdout}\n")
    errors = result.stderr if drop_stderr and result.returncode else ""
    return result.returncode, (result.stdout + errors).strip()


SHORT = 12  # Digits of a commit's short name
_FORMAT = "--format=%H%n%s%n%an <%ae>, %as%n%n%B"  # Hash, subject, author and date, message
_NEXT = re.compile(r"^\[([0-9a-f]{40,64})\]", re.M)
_LEFT = re.compile(r"^Bisecting: (\d+) revisions? left to test after this \(roughly (\d+) steps?\)", re.M)
_IDENTITY = {"NAME": "blklab", "EMAIL": "blklab@localhost", "DATE": "2000-01-01T00:00:00Z"}
"""Of the commits that stand for kernels: the same commits every time."""


class GitFailed(BlklabError):
    """git refused a command; the message is the first line of its output."""

    def __init__(self, output: str, status: int) -> None:
        super().__init__(f"git: {printable(output.partition(chr(10))[0])}")
        self.output = output
        self.status = status


@dataclass(frozen=True)
class Commit:
    """A commit, or a kernel that stands for one."""

    name: str  # The commit's hash
    short: str  # Its name in tables: the short hash, or the kernel
    subject: str
    message: str  # Author, date and the whole message


class Repository:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *git_arguments: str) -> str:
        """Runs git here and returns its output. Raises EnvironmentLacks without git, and GitFailed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for suffix, value in _IDENTITY.items():
            environment[f"GIT_AUTHOR_{suffix}"] = value
            environment[f"GIT_COMMITTER_{suffix}"] = value
        arguments = ["git", "-C", str(self.directory), "-c", "core.hooksPath=/dev/null", *git_arguments]
        status, output = run(arguments, environment=environment, package="git", drop_stderr=True)
        if status:
            raise GitFailed(output, status)
        return output

    def commit(self, revision: str) -> Commit:
        """Returns the commit of a revision. Raises UsageError if there is none."""
        try:
            name = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            text = self.run("show", "-s", _FORMAT, name.splitlines()[-1])
        except GitFailed:
            raise UsageError(f"{printable(revision)}: no such commit in {printable(str(self.directory))}") from None
        name, subject, message = text.split("\n", 2)
        return Commit(name, name[:SHORT], subject, message.strip())

    def commit_patch(self, base: Commit, patch: Path) -> Commit:
        """Returns a new commit: `base` with a patch. The index is used, no files. Raises UsageError.

        It is the same commit every time, so that its builds and runs are found again.
        """
        self.run("read-tree", base.name)
        try:
            self.run("apply", "--cached", "--whitespace=nowarn", str(patch.resolve()))
        except GitFailed as error:
            raise UsageError(f"--patch {printable(str(patch))}: does not apply to {base.short}: {error}") from None
        tree = self.run("write-tree")
        if tree == self.run("rev-parse", f"{base.name}^{{tree}}"):
            raise UsageError(f"--patch {printable(str(patch))}: changes nothing in {base.short}")
        return self.commit(self.run("commit-tree", tree, "-p", base.name, "-m", f"{patch.name} on {base.short}"))

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Tells whether a commit is part of the history of another."""
        try:
            self.run("merge-base", "--is-ancestor", older, newer)
        except GitFailed as error:
            if error.status != 1:
                raise
            return False
        return True


@dataclass(frozen=True)
class BisectionState:
    """What git knows after a verdict."""

    next: str | None = None  # The commit to test
    culprit: str | None = None  # The first commit with the new verdict
    candidates: Sequence[str] = ()  # The commits of which one is the culprit, if all others are skipped
    progress: str = ""  # How much is left


class GitBisect:
    """One `git bisect`, which checks nothing out."""

    def __init__(self, repository: Repository, head: str, old: str, new: str) -> None:
        """`old` and `new` are the terms for verdicts, such as `good` and `bad`; `head` is any commit."""
        self._repository = repository
        self._terms = {False: old, True: new}
        repository.run("bisect", "reset")
        repository.run("update-ref", "--no-deref", "HEAD", head)  # git wants a HEAD
        terms = () if (old, new) == ("good", "bad") else (f"--term-old={old}", f"--term-new={new}")
        repository.run("bisect", "start", "--no-checkout", *terms)

    def judge(self, commit: str, *, new: bool | None) -> BisectionState:
        """Tells git the verdict on a commit; None skips it. Raises GitFailed if git cannot continue."""
        try:
            output = self._repository.run("bisect", "skip" if new is None else self._terms[new], commit)
        except GitFailed as error:
            output = error.output
            if "left to test" not in output:
                raise
            return BisectionState(candidates=re.findall(r"^[0-9a-f]{40,64}$", output, re.M))
        if match := re.search(rf"^([0-9a-f]{{40,64}}) is the first {self._terms[True]} commit", output, re.M):
            return BisectionState(culprit=match[1])
        following = _NEXT.search(output)
        remaining = _LEFT.search(output)
        progress = f"{remaining[1]} left to test after this one (steps: about {remaining[2]})" if remaining else ""
        return BisectionState(next=following[1] if following else None, progress=progress)

    def log(self) -> str:
        """Returns the log, for `git bisect replay` in the user's tree, with checkouts."""
        return self._repository.run("bisect", "log").replace(" '--no-checkout'", "", 1) + "\n"


def make_shared_repository(tree: Path, into: Path) -> Repository:
    """Returns a repository that reads the objects of the user's, which stays as it is. Raises UsageError."""
    try:
        objects = Repository(tree).run("rev-parse", "--path-format=absolute", "--git-path", "objects")
    except GitFailed as error:
        raise UsageError(f"--tree {printable(str(tree))}: expected a git repository: {error}") from None
    if not (into / ".git").is_dir():
        _new(into, Repository(tree).run("rev-parse", "--show-object-format"))
    for lock_file in (into / ".git").rglob("*.lock"):  # By a process that was killed: only this one uses the repository
        lock_file.unlink()
    (into / ".git/objects/info/alternates").write_text(f"{objects}\n")
    shallow = Path(objects).with_name("shallow")
    if shallow.is_file():
        shutil.copyfile(shallow, into / ".git/shallow")
    return Repository(into)


def of_list(items: Sequence[tuple[str, str]], into: Path) -> tuple[Repository, list[Commit]]:
    """Returns a repository with a commit for each item, a name and a text, in their order."""
    shutil.rmtree(into, ignore_errors=True)
    repository = _new(into)
    tree = repository.run("write-tree")
    commits: list[Commit] = []
    for name, text in items:
        command = ["commit-tree", tree]
        if commits:
            command += ["-p", commits[-1].name]
        command += ["-m", name]
        if text:
            command += ["-m", text]
        commit_name = repository.run(*command)
        commits.append(Commit(commit_name, name, text.partition("\n")[0], text))
    return repository, commits


def _new(directory: Path, object_format: str = "sha1") -> Repository:
    directory.mkdir(parents=True, exist_ok=True)
    repository = Repository(directory)
    repository.run("init", "--quiet", f"--object-format={object_format}")
    return repository
