"""Which packaged kernels have a commit: the tags of the stable kernels in the user's repository say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from blklab.bisect.git import SHORT, Commit, GitFailed, Repository

UPSTREAM = re.compile(r"(?:\d+:)?(\d+)\.(\d+)(?:\.(\d+))?")  # In a package's version: 6.1.170-3, 1:6.12.57-1~bpo12+1


@dataclass(frozen=True)
class KernelHasCommit:
    """Whether a kernel has a commit."""

    tag: str  # Of the release from which the package is made
    answer: bool | None  # None if the repository does not have the tag
    backport: str = ""  # The commit of the stable kernel that has the same change; empty for the commit itself

    @property
    def words(self) -> str:
        """The answer in words."""
        if self.answer is None:
            return f"not known: no tag {self.tag}"
        if self.backport:
            return f"yes, as {self.backport[:SHORT]}"
        return "yes" if self.answer else "no"


def find_commit_in_kernels(
    repository: Repository, commit: Commit, package_versions: Sequence[str]
) -> list[KernelHasCommit]:
    """Returns for each version of a package whether its kernel has the commit, or a backport of it.

    Stable kernels name the commit of a backport in its message: `commit HASH upstream`, or `[ Upstream commit HASH ]`.
    Patches that Debian adds are in no tag.
    """
    answers: dict[str, KernelHasCommit] = {}
    for version in package_versions:
        answers.setdefault(version, _look_for(repository, commit, version))
    return [answers[version] for version in package_versions]


def _look_for(repository: Repository, commit: Commit, version: str) -> KernelHasCommit:
    found = UPSTREAM.match(version)
    if found is None:
        return KernelHasCommit(version, None)
    series = f"v{found[1]}.{found[2]}"
    tag = f"{series}.{found[3]}" if found[3] not in {None, "0"} else series
    try:
        repository.run("rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^0")
    except GitFailed:
        return KernelHasCommit(tag, None)
    if repository.is_ancestor(commit.name, tag):
        return KernelHasCommit(tag, answer=True)
    try:
        repository.run("rev-parse", "--verify", "--quiet", f"refs/tags/{series}^0")
        revisions = f"{series}..{tag}"
    except GitFailed:
        revisions = tag  # Of a stable kernel alone
    name = commit.name
    pattern = rf"^[[:space:]]*(commit {name} upstream|\[ ?Upstream commit {name} ?\])"
    backport = repository.run("log", "-1", "--format=%H", "--extended-regexp", f"--grep={pattern}", revisions)
    return KernelHasCommit(tag, bool(backport), backport)
