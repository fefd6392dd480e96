"""Suspended writes continue after any process dies; files stand for sysfs."""

import os
import signal
import time
from pathlib import Path

import pytest

from blklab.errors import BlklabError
from blklab.md.repair import write_suspension
from blklab.md.repair.write_suspension import WriteSuspension
from blklab.system.roots import Roots, read_text


@pytest.fixture
def md(tmp_path: Path) -> Path:
    for name, content in (("suspend_lo", "0"), ("suspend_hi", "0"), ("array_state", "clean")):
        (tmp_path / name).write_text(content)
    return tmp_path


def held(md: Path) -> bool:
    return not (md / "suspend_hi").read_text().startswith("0")


def until(what: bool, md: Path) -> None:
    deadline = time.monotonic() + 30
    while held(md) is not what:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def guards() -> list[int]:
    """The guards among our children, ended ones included; other tests leave children of other kinds."""
    return [
        int(line.parent.name)
        for line in Path("/proc").glob("[0-9]*/stat")
        if (fields := read_text(line) or "").partition("(")[2].startswith(("md-go-on)", "false)"))
        and int(fields.rpartition(")")[2].split()[1]) == os.getpid()
    ]


def test_held_and_released(md: Path) -> None:
    item = WriteSuspension(md)
    item.suspend()
    assert held(md)
    assert len(guards()) == 1
    item.resume()
    assert not held(md)
    assert not guards()
    item.resume()


def begin_reshape(md: Path) -> None:
    (md / "reshape_position").write_text("0\n")


@pytest.mark.parametrize("other", ["258048\n", "9223372036854775807\n"])
def test_the_suspension_of_another_program_is_left(md: Path, other: str) -> None:
    (md / "suspend_hi").write_text(other)
    with pytest.raises(BlklabError, match="another program has suspended writes"):
        WriteSuspension(md).suspend()
    write_suspension.resume_leftover(md)
    assert (md / "suspend_hi").read_text() == other
    (md / "suspend_lo").write_text(other)  # as mdadm leaves it: nothing is suspended
    assert not write_suspension.has_other_suspension(md)


def test_nothing_is_suspended_during_a_reshape(md: Path) -> None:
    begin_reshape(md)
    with pytest.raises(BlklabError, match="reshapes the array"):
        WriteSuspension(md).suspend()
    assert (md / "suspend_hi").read_text() == "0"


def test_a_suspension_that_began_after_ours_is_left(md: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_suspension, "LONGEST_SUSPENSION_S", 0.2)
    item = WriteSuspension(md)
    item.suspend()
    (md / "suspend_hi").write_text("258048\n")
    assert item._guard is not None
    item._guard.wait()
    assert (md / "suspend_hi").read_text() == "258048\n"
    item.resume()
    assert (md / "suspend_hi").read_text() == "258048\n"


def test_a_leftover_is_resumed_unless_a_reshape_has_begun(md: Path) -> None:
    (md / "suspend_hi").write_text(f"{write_suspension.MARK}\n")
    begin_reshape(md)
    with pytest.raises(BlklabError, match="when the reshape has ended"):
        write_suspension.resume_leftover(md)
    assert held(md)
    (md / "reshape_position").write_text("none\n")
    write_suspension.resume_leftover(md)
    assert not held(md)


def test_the_guard_is_killed(md: Path) -> None:
    item = WriteSuspension(md)
    item.suspend()
    assert item._guard is not None
    os.kill(item._guard.pid, signal.SIGKILL)
    os.waitid(os.P_PID, item._guard.pid, os.WEXITED | os.WNOWAIT)
    assert held(md)
    item.resume()
    assert not held(md)


def test_we_are_killed(md: Path) -> None:
    child = os.fork()
    if not child:
        WriteSuspension(md).suspend()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    until(False, md)


def test_writes_do_not_wait_without_a_guard(md: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_suspension, "PYTHON", ("/bin/false",))
    with pytest.raises(BlklabError, match="cannot suspend writes: /bin/false does not run"):
        WriteSuspension(md).suspend()
    assert (md / "suspend_hi").read_text() == "0"
    assert not guards()


def test_the_guard_is_deaf_to_signals_and_in_memory(md: Path) -> None:
    item = WriteSuspension(md)
    item.suspend()
    assert item._guard is not None
    words = dict(line.split(":\t") for line in Path(f"/proc/{item._guard.pid}/status").read_text().splitlines())
    item.resume()
    assert words["Name"] == "md-go-on"
    assert all(int(words["SigBlk"], 16) >> (number - 1) & 1 for number in (1, 2, 3, 15))
    may_lock = int(words["CapEff"], 16) >> 14 & 1  # CAP_IPC_LOCK
    if may_lock:
        assert int(words["VmLck"].split()[0]) > 0


def test_it_takes_too_long(md: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_suspension, "LONGEST_SUSPENSION_S", 0.2)
    item = WriteSuspension(md)
    item.suspend()
    until(False, md)
    assert item.is_overdue
    item.resume()


def test_an_array_that_does_not_get_clean(md: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_suspension, "CLEAN_TIMEOUT_S", 0.1)
    (md / "array_state").write_text("active")
    (md / "array_state").chmod(0o400)
    monkeypatch.setattr(
        write_suspension, "read_text", lambda path: "active" if path.name == "array_state" else read_text(path)
    )
    with pytest.raises(BlklabError, match=r"not clean 0\.1 s after writes were suspended"):
        WriteSuspension(md).suspend()
    assert not held(md)


def test_a_kernel_that_cannot(md: Path) -> None:
    (md / "suspend_hi").unlink()
    (md / "suspend_hi").mkdir()
    with pytest.raises(BlklabError, match=r"echo 0 > .*suspend_hi"):
        WriteSuspension(md).suspend()


@pytest.mark.parametrize(
    ("files", "can"),
    [
        ([], True),
        (["cgroup.procs"], True),
        (["cgroup.procs", "cgroup.events"], False),  # the root of a container's namespace
        (["unified/cgroup.procs", "freezer/cgroup.procs"], True),
        (["unified/cgroup.procs", "freezer/cgroup.procs", "freezer/freezer.state"], False),
    ],
)
def test_only_at_the_root_the_guard_is_out_of_every_cgroup(tmp_path: Path, files: list[str], can: bool) -> None:
    for name in files:
        path = tmp_path / "fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert write_suspension.can_leave_cgroup(Roots(sys=tmp_path)) is can
