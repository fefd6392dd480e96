"""`git bisect` in a repository of our own."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from blklab.bisect.git import BisectionState, Commit, GitBisect, GitFailed, Repository, make_shared_repository, of_list
from blklab.bisect.kernel_commits import find_commit_in_kernels
from blklab.bisect.request import list_changed_headers
from blklab.bisect.source import lock_directory, remove_work, work_directory
from blklab.errors import BlklabError, UsageError
from tests.bisect.md_history import git


def history(directory: Path, count: int = 9) -> tuple[Repository, list[Commit]]:
    return of_list([(f"k{number}", f"what is new in {number}") for number in range(count)], directory / "list")


def bisected(
    repository: Repository, commits: list[Commit], culprit: int, skipped: tuple[int, ...] = (), new: str = "bad"
) -> tuple[BisectionState, GitBisect]:
    """Bisects with known verdicts."""
    places = {commit.name: at for at, commit in enumerate(commits)}
    bisect = GitBisect(repository, commits[-1].name, "good" if new == "bad" else "broken", new)
    bisect.judge(commits[0].name, new=False)
    state = bisect.judge(commits[-1].name, new=True)
    for _ in commits:
        if state.next is None:
            break
        at = places[state.next]
        state = bisect.judge(state.next, new=None if at in skipped else at >= culprit)
    return state, bisect


@pytest.mark.parametrize("below", ["", "drivers/md"])
def test_changed_headers_are_named_with_the_sources_that_include_them(tmp_path: Path, below: str) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    for name, header in {"md.c": "md.h", "raid0.c": "md.h", "raid5.c": "raid5.h"}.items():
        (tmp_path / below / name).write_text(f'#include "{header}"')
    for header in ("md.h", "raid5.h", "unused.h"):
        (tmp_path / below / header).touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "before")
    for header in ("md.h", "unused.h"):
        (tmp_path / below / header).write_text("int changed;")
    git(tmp_path, "commit", "--quiet", "--all", "--message", "after")
    repository = Repository(tmp_path)
    good, bad = repository.commit("HEAD~1"), repository.commit("HEAD")
    path = f"{below}/md.h".lstrip("/")
    assert list_changed_headers(repository, good, bad) == [
        f"{path} changes between both ends, and md.c, raid0.c include it"
    ]


def commit_file(directory: Path, name: str, text: str, message: str) -> str:
    """Commits a file, and returns the hash."""
    (directory / name).write_text(text)
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", message)
    return git(directory, "rev-parse", "HEAD").strip()


def test_a_patch_is_a_commit_on_the_good_end(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    commit_file(tree, "raid10.c", "int locks = 1;\n", "before")
    base = Repository(tree).commit("HEAD")
    (tree / "raid10.c").write_text("int locks = 0;\n")
    patch = tmp_path / "locks.patch"
    patch.write_text(f"{git(tree, 'diff').strip()}\n")
    repository = make_shared_repository(tree, tmp_path / "shared")
    (tree / "raid10.c").write_text("int locks = 2;\n")  # The user goes on working
    commit = repository.commit_patch(base, patch)
    assert commit.subject == f"locks.patch on {base.short}"
    assert repository.run("show", f"{commit.name}:raid10.c") == "int locks = 0;"
    assert repository.run("rev-parse", f"{commit.name}^") == base.name
    assert repository.commit_patch(base, patch) == commit, "the same commit, so that its builds are found again"
    assert git(tree, "status", "--short").strip() == "M raid10.c"
    with pytest.raises(GitFailed):
        Repository(tree).run("cat-file", "-e", commit.name)  # Nothing is added to the user's repository
    with pytest.raises(UsageError, match=r"--patch .*locks.patch: does not apply to "):
        repository.commit_patch(commit, patch)


def test_packaged_kernels_that_have_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit_file(tmp_path, "a", "1", "base")
    git(tmp_path, "tag", "v6.1")
    git(tmp_path, "branch", "stable")
    fix = commit_file(tmp_path, "b", "1", "md/raid10: fix")
    git(tmp_path, "tag", "v6.2")
    git(tmp_path, "switch", "--quiet", "stable")
    commit_file(tmp_path, "c", "1", f"other\n\nFixes: {fix[:12]}\nThis does not revert {fix}")
    git(tmp_path, "tag", "v6.1.5")
    backport = commit_file(tmp_path, "b", "1", f"md/raid10: fix\n\n[ Upstream commit {fix} ]\n\nText")
    git(tmp_path, "tag", "v6.1.6")
    repository = Repository(tmp_path)
    versions = ["6.2-1", "6.1.6-1", "6.1.5-2~bpo11+1", "6.1.0-1", "1:6.1.7-1", "odd"]
    found = find_commit_in_kernels(repository, repository.commit(fix[:12]), versions)
    assert [answer.words for answer in found] == [
        "yes",
        f"yes, as {backport[:12]}",
        "no",
        "no",
        "not known: no tag v6.1.7",
        "not known: no tag odd",
    ]


def test_work_directories_are_removed_if_no_process_uses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    used, left = work_directory("used"), work_directory("left")
    with lock_directory(left):
        (left / "vmlinuz").write_bytes(b"x" * 1000)
    with lock_directory(used):
        assert remove_work() == 1000
        assert used.is_dir()
    assert not left.exists()


def test_a_lock_on_a_directory_that_was_removed_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = work_directory("x")
    flock, removals = fcntl.flock, iter([True, False, False])

    def late(descriptor: int, how: int) -> None:
        """Another process removes the directory between opening and locking."""
        if next(removals):
            assert remove_work() == 0
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with lock_directory(directory):
        monkeypatch.undo()
        assert directory.is_dir()
        with pytest.raises(BlklabError, match="another blklab bisects the same sources"), lock_directory(directory):
            pass


@pytest.mark.parametrize("culprit", range(1, 9))
@pytest.mark.parametrize("new", ["bad", "fixed"])
def test_every_culprit_is_found(tmp_path: Path, culprit: int, new: str) -> None:
    repository, commits = history(tmp_path)
    state, _ = bisected(repository, commits, culprit, new=new)
    assert state == BisectionState(culprit=commits[culprit].name)


def test_skipped_commits_are_candidates(tmp_path: Path) -> None:
    repository, commits = history(tmp_path)
    state, _ = bisected(repository, commits, 5, skipped=(3, 4))
    assert state.culprit is None
    assert set(state.candidates) == {commits[at].name for at in (3, 4, 5)}
    state, _ = bisected(repository, commits, 5, skipped=(1, 7))
    assert state.culprit == commits[5].name, "skipped commits elsewhere do not matter"


def test_the_log_can_be_replayed_by_git(tmp_path: Path) -> None:
    repository, commits = history(tmp_path)
    _, bisect = bisected(repository, commits, 6)
    log = tmp_path / "log"
    log.write_text(bisect.log())
    clone = tmp_path / "clone"
    repository.run("update-ref", "refs/heads/main", commits[-1].name)
    subprocess.run(["git", "clone", "--quiet", "--branch=main", str(repository.directory), str(clone)], check=True)
    git(clone, "bisect", "replay", str(log))
    assert git(clone, "rev-parse", "refs/bisect/bad") == commits[6].name


def test_the_repository_of_the_user_stays_as_it_is(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    git(users, "init", "--quiet")
    for number in range(5):
        (users / "file").write_text(str(number))
        git(users, "add", ".")
        git(users, "commit", "--quiet", "--message", f"commit {number}")
    (users / "file").write_text("work in progress")
    before = {path: path.read_bytes() for path in users.rglob("*") if path.is_file()}
    repository = make_shared_repository(users, tmp_path / "ours")
    commits = [Repository(users).commit(f"HEAD~{4 - number}") for number in range(5)]
    assert [commit.subject for commit in commits] == [f"commit {number}" for number in range(5)]
    assert "Md Developer <md@example.org>" in commits[0].message
    state, _ = bisected(repository, commits, 3)
    assert state.culprit == commits[3].name
    assert {path: path.read_bytes() for path in users.rglob("*") if path.is_file()} == before


def test_errors_name_the_place(tmp_path: Path) -> None:
    repository, _ = history(tmp_path)
    with pytest.raises(UsageError, match="no-such: no such commit in"):
        repository.commit("no-such")
    with pytest.raises(UsageError, match=r"--tree .*: expected a git repository"):
        make_shared_repository(tmp_path, tmp_path / "ours")


def test_a_revision_is_no_option(tmp_path: Path) -> None:
    repository, commits = history(tmp_path)
    repository.run("update-ref", "HEAD", commits[0].name)
    with pytest.raises(UsageError, match="no such commit"):
        repository.commit(f"--output={tmp_path}/written")
    assert not (tmp_path / "written^{commit}").exists()


def test_a_bad_merge_base_is_one_line(tmp_path: Path) -> None:
    repository, commits = history(tmp_path, 3)
    tree = repository.run("rev-parse", f"{commits[0].name}^{{tree}}")
    side = repository.run("commit-tree", tree, "-p", commits[0].name, "-m", "a branch")
    bisect = GitBisect(repository, commits[-1].name, "good", "bad")
    bisect.judge(side, new=False)
    state = bisect.judge(commits[-1].name, new=True)
    assert state.next == commits[0].name, "git tests the merge base first"
    with pytest.raises(GitFailed, match=r"^git: .*merge base .* is bad[^\n]*$"):
        bisect.judge(commits[0].name, new=True)
