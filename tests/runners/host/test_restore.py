"""What a killed blklab left: on machines made of files, and on a real device."""

import fcntl
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.runners.host.journal import DirectoryEntry, HostJournal, SettingsEntry, read
from blklab.runners.host.restore import restore
from blklab.runners.host.settings import apply_settings
from blklab.system import state_directory
from blklab.system.identity import BlockDevice, of_node
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots
from tests.runners.host.conftest import Loops, alive, attribute, layers_of, real_values
from tests.system.machine import Machine


def left_by_another(machine: Machine, disks: list[SysfsLayer], boot: str = "boot-1") -> Path:
    """A journal, and the settings, of a process that was killed."""
    with HostJournal(machine.roots) as journal, apply_settings({"read_ahead_kb": "8"}, disks, journal):
        assert journal.path is not None
        content = journal.path.read_text()
    owner, *rest = content.splitlines()
    document = {**json.loads(owner), "pid": 4999999, "start": 5, "boot_id": boot}
    path = machine.roots.state / "journal-4999999-x.jsonl"
    path.write_text("\n".join([json.dumps(document), *rest]) + '\n{"id": 9, "sett')
    for name in ("md0", "sda", "sdb"):
        (machine.roots.sys / "block" / name / "queue/read_ahead_kb").write_text("8\n")
    return path


def test_restore_after_a_crash(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks)
    restored = restore(machine.roots)
    assert sorted(restored.done) == [
        "md0: restored read_ahead_kb=1024",
        "sda: restored read_ahead_kb=128",
        "sdb: restored read_ahead_kb=128",
    ]
    assert (restored.problems, restored.running) == ([], [])
    assert not path.exists()
    assert attribute(machine, "sda/queue/read_ahead_kb") == "128"


def test_what_a_crash_left_is_not_taken_for_what_was(machine: Machine, disks: list[SysfsLayer]) -> None:
    left_by_another(machine, disks)
    with (
        HostJournal(machine.roots) as journal,
        pytest.raises(BlklabError, match="run `blklab restore` first"),
        apply_settings({"read_ahead_kb": "16"}, disks, journal),
    ):
        pass
    assert attribute(machine, "sda/queue/read_ahead_kb") == "8"


def test_after_a_reboot_settings_are_void(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks, boot="boot-0")
    restored = restore(machine.roots)
    assert "sda: nothing to restore: the machine has booted since then" in restored.done
    assert attribute(machine, "sda/queue/read_ahead_kb") == "8"
    assert not path.exists()


def test_a_journal_of_the_previous_version_is_read() -> None:
    left = read(Path(__file__).parents[2] / "data/journals/run-format-1.jsonl")
    ids = ("wwn-0x5000c500a1b2c3d4",)
    disk = BlockDevice("/dev/sda", "sda", "8:0", Path("/dev/sda"), 0, ids, 0)
    assert left.entries == {
        1: SettingsEntry(disk, {"scheduler": "none", "nr_requests": "64"}),
        2: SettingsEntry(None, {"vm.dirty_ratio": "20"}),
        3: DirectoryEntry("/tmp", "blklab-1234", "ext4", "/"),
    }


def test_gone_and_replaced_devices_are_not_written_to(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks)
    (machine.roots.sys / "class/block/sda").unlink()
    machine.write(machine.roots.sys / "block/sdb", {"diskseq": "99", "device__serial": "NEW"})
    restored = restore(machine.roots)
    assert sorted(restored.problems) == [
        "sda: the device is gone, so its settings cannot be restored",
        "sdb: not restored: found NEW, expected S-sdb",
    ]
    assert restored.done == ["md0: restored read_ahead_kb=1024"]
    assert attribute(machine, "sdb/queue/read_ahead_kb") == "8"
    assert not path.exists()


def test_the_journal_of_a_live_process_is_left_alone(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks)
    alive(machine, 4999999, 5)
    [output] = restore(machine.roots).running
    assert output == f"{path}: not restored: its blklab is still running"
    alive(machine, 4999999, 6)  # another process with that number
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(restore(machine.roots).running) == 1
    assert restore(machine.roots).running == []
    assert attribute(machine, "sda/queue/read_ahead_kb") == "128"


@pytest.mark.parametrize(
    "content",
    [
        "nonsense\n",
        '{"journal": 2, "boot_id": "b", "pid": 1, "start": 1}\n',
        '{"journal": 1, "boot_id": "b", "pid": 1, "start": 1}\n{"id": 1, "directory": {"x": 1}}\n',
        "[]\n",
    ],
)
def test_what_is_no_journal_is_said_and_kept(machine: Machine, disks: list[SysfsLayer], content: str) -> None:
    assert disks
    path = state_directory.prepare(machine.roots) / "journal-1-x.jsonl"
    path.write_text(content)
    [problem] = restore(machine.roots).problems
    assert "expected a journal of blklab" in problem
    assert path.exists()


def test_a_journal_cut_off_in_its_first_line_says_nothing(machine: Machine, disks: list[SysfsLayer]) -> None:
    assert disks
    path = state_directory.prepare(machine.roots) / "journal-1-x.jsonl"
    path.write_text('{"journal": 1, "bo')
    assert restore(machine.roots).problems == []
    assert not path.exists()


def test_forged_keys_and_links_are_not_acted_on(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks)
    victim = machine.root / "victim"
    victim.write_text("yes")
    path.write_text(path.read_text().replace('"read_ahead_kb"', '"vm.../../../../victim"'))
    assert all("expected one of" in problem for problem in restore(machine.roots).problems)
    assert victim.read_text() == "yes"
    path.unlink()
    path.symlink_to(victim)
    assert "symbolic link" in restore(machine.roots).problems[0]


def test_a_state_directory_that_others_may_write_to(machine: Machine, disks: list[SysfsLayer]) -> None:
    assert disks
    machine.roots.state.mkdir(mode=0o777)
    machine.roots.state.chmod(0o777)
    with pytest.raises(UsageError, match=r"mode 777.*set BLKLAB_STATE"), HostJournal(machine.roots):
        pass


def test_no_state_directory_at_all(machine: Machine, disks: list[SysfsLayer]) -> None:
    assert disks
    machine.roots.state.parent.joinpath("state").write_text("a file")
    with pytest.raises(EnvironmentLacks, match="set BLKLAB_STATE"), HostJournal(machine.roots):
        pass


def test_killed_with_changed_settings(loops: Loops, here: Roots) -> None:
    device = loops.attach(loops.file())
    before = real_values(device)
    script = f"""
import os, signal
from pathlib import Path
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.settings import apply_settings
from blklab.system.roots import Roots
from tests.runners.host.conftest import layers_of
roots = Roots(state=Path({str(here.state)!r}))
with HostJournal(roots) as journal:
    asked = {{"scheduler": "mq-deadline", "nr_requests": "33", "read_ahead_kb": "4"}}
    with apply_settings(asked, layers_of({device!r}, roots), journal):
        os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert real_values(device)["nr_requests"] == "33"
    restored = restore(here)
    assert restored.problems == []
    assert restored.done[0].startswith(f"{Path(device).name}: restored ")
    assert real_values(device) == before


def test_a_loop_device_with_another_file_keeps_its_settings(loops: Loops, here: Roots) -> None:
    first, second = loops.file("first"), loops.file("second")
    device = loops.attach(first)
    with HostJournal(here) as journal:
        [layer] = layers_of(device, here)
        number = journal.settings(of_node(layer.node or Path(), here), {"nomerges": "2"})
        assert number == 1
    loops.detach(device)
    loops.attach_at(device, second)
    name = Path(device).name
    assert restore(here).problems == [f"{name}: not restored: found file:{second}, expected file:{first}"]


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1, "directory": {"parent": 5, "name": "x", "kind": "", "point": ""}}',
        '{"id": 1, "directory": {"parent": "/tmp\\u0000", "name": "x", "kind": "", "point": ""}}',
        '{"done": 1e999}',
        "[" * 100_000,
        '{"id": 1, "settings": {"device": {"name": 5}, "values": {}}}',
    ],
)
def test_a_damaged_journal_stops_no_other(machine: Machine, disks: list[SysfsLayer], line: str) -> None:
    path = left_by_another(machine, disks)
    owner = path.read_text().splitlines()[0]
    damaged = machine.roots.state / "journal-1-damaged.jsonl"
    damaged.write_text(f"{owner}\n{line}\n")
    (machine.roots.state / "journal-directory").mkdir()
    restored = restore(machine.roots)
    assert len(restored.done) == 3
    (problem,) = restored.problems
    assert "damaged, expected a journal of blklab" in problem
    assert not path.exists()
    assert damaged.exists()


def test_what_others_may_have_written_is_not_acted_on(machine: Machine, disks: list[SysfsLayer]) -> None:
    path = left_by_another(machine, disks)
    machine.roots.state.chmod(0o777)
    with pytest.raises(UsageError, match="no write permission for others"):
        restore(machine.roots)
    assert path.exists()
