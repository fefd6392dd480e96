"""Settings are always restored: on machines made of files, and on a real device."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blklab.errors import BlklabError, UsageError
from blklab.outcome import ChangedSetting
from blklab.runners.host import journal as journals
from blklab.runners.host import settings
from blklab.runners.host.journal import HostJournal
from blklab.runners.host.restore import restore
from blklab.runners.host.settings import apply_settings
from blklab.system.layers import SysfsLayer
from blklab.system.roots import Roots
from tests.runners.host.conftest import Loops, attribute, layers_of, real_values
from tests.system.machine import Machine


@pytest.fixture
def journal(machine: Machine, disks: list[SysfsLayer]) -> Iterator[HostJournal]:
    assert disks
    with HostJournal(machine.roots) as made:
        yield made


def test_every_device_beneath_that_has_the_file(
    machine: Machine, disks: list[SysfsLayer], journal: HostJournal
) -> None:
    asked = {"read_ahead_kb": "8", "queue_depth": "1", "stripe_cache_size": "4096"}
    with apply_settings(asked, disks, journal) as changes:
        assert set(changes) == {
            ChangedSetting("md0", "read_ahead_kb", "1024", "8"),
            ChangedSetting("md0", "stripe_cache_size", "256", "4096"),
            ChangedSetting("sda", "read_ahead_kb", "128", "8"),
            ChangedSetting("sda", "queue_depth", "31", "1"),
            ChangedSetting("sdb", "read_ahead_kb", "128", "8"),
            ChangedSetting("sdb", "queue_depth", "31", "1"),
        }
        assert attribute(machine, "sdb/device/queue_depth") == "1"
        assert journal.path is not None
        assert '"read_ahead_kb": "1024"' in journal.path.read_text()
    assert attribute(machine, "md0/queue/read_ahead_kb") == "1024"
    assert attribute(machine, "sda/device/queue_depth") == "31"


def test_a_key_of_requests_is_not_for_arrays(machine: Machine, disks: list[SysfsLayer], journal: HostJournal) -> None:
    with apply_settings({"nr_requests": "32"}, disks, journal) as changes:
        assert sorted(change.where for change in changes) == ["sda", "sdb"]
    assert attribute(machine, "md0/queue/nr_requests") == "128"


def test_put_back_on_exceptions(machine: Machine, disks: list[SysfsLayer], journal: HostJournal) -> None:
    with pytest.raises(KeyboardInterrupt), apply_settings({"read_ahead_kb": "8"}, disks, journal):
        raise KeyboardInterrupt
    assert attribute(machine, "md0/queue/read_ahead_kb") == "1024"


def test_speeds_that_follow_the_systems_follow_again(
    machine: Machine, disks: list[SysfsLayer], journal: HostJournal
) -> None:
    with apply_settings({"sync_speed_min": "2000"}, disks, journal):
        assert attribute(machine, "md0/md/sync_speed_min") == "2000"
    assert attribute(machine, "md0/md/sync_speed_min") == "system"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"wbt_lat_usec": "0", "group_thread_cnt": "2"}, "not found on md0, sda, sdb"),
        ({"speed": "1"}, "found 'speed', expected one of scheduler, write_cache"),
        ({"iosched/../../ro": "1"}, "expected one of"),
        ({"vm.nothing": "1"}, "this kernel has no"),
        ({"vm.../kernel/panic": "1"}, "expected one of"),
        ({"vm.drop_caches": "3"}, "expected one of"),
        ({"read_ahead_kb": "8\n16"}, "expected a word or a number"),
        ({"read_ahead_kb": ""}, "expected a word or a number"),
    ],
)
def test_what_makes_no_sense(
    machine: Machine, disks: list[SysfsLayer], journal: HostJournal, asked: dict[str, str], message: str
) -> None:
    before = attribute(machine, "sda/queue/wbt_lat_usec")
    with pytest.raises(UsageError, match=message), apply_settings(asked, disks, journal):
        pass
    assert attribute(machine, "sda/queue/wbt_lat_usec") == before


def test_a_value_that_the_kernel_changes_is_no_silent_matter(
    machine: Machine, disks: list[SysfsLayer], journal: HostJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settings._write

    def clamps(path: Path, value: str) -> None:
        real(path, "4" if value == "1" else value)

    monkeypatch.setattr(settings, "_write", clamps)
    with (
        pytest.raises(BlklabError, match="sda: nr_requests: wrote 1, but the kernel set 4"),
        apply_settings({"nr_requests": "1"}, disks, journal),
    ):
        pass
    assert attribute(machine, "sda/queue/nr_requests") == "64"


def test_what_cannot_be_put_back_is_said_with_what_went_wrong_before(
    machine: Machine, disks: list[SysfsLayer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with HostJournal(machine.roots) as journal, monkeypatch.context() as patched:
        with (
            pytest.raises(BlklabError, match="fio failed; sdb: read_ahead_kb: found 8, expected the former value 128"),
            apply_settings({"read_ahead_kb": "8"}, disks, journal),
        ):
            real = settings._write

            def refuses(path: Path, value: str) -> None:
                if "sdb" in str(path):
                    raise OSError(22, "Invalid argument")
                real(path, value)

            patched.setattr(settings, "_write", refuses)
            raise BlklabError("fio failed")
        with (
            pytest.raises(BlklabError, match="sdb: an earlier run left its settings changed"),
            apply_settings({"read_ahead_kb": "16"}, disks, journal),
        ):
            pass
    assert restore(machine.roots).done == ["sdb: restored read_ahead_kb=128"]
    assert attribute(machine, "sdb/queue/read_ahead_kb") == "128"


def test_two_do_not_fight(machine: Machine, disks: list[SysfsLayer], journal: HostJournal) -> None:
    held = journals.lock("sdb", machine.roots)
    with (
        pytest.raises(BlklabError, match="sdb: another blklab is changing its settings"),
        apply_settings({"read_ahead_kb": "8"}, disks, journal),
    ):
        pass
    journals.release(held)
    with apply_settings({"read_ahead_kb": "8"}, disks, journal):
        assert attribute(machine, "sdb/queue/read_ahead_kb") == "8"


def test_dirty_bytes_and_ratio_unset_each_other(
    machine: Machine, disks: list[SysfsLayer], monkeypatch: pytest.MonkeyPatch
) -> None:
    vm = machine.roots.proc / "sys/vm"
    real = settings._write

    def as_the_kernel_does(path: Path, value: str) -> None:
        real(path, value)
        other = {"dirty_ratio": "dirty_bytes", "dirty_bytes": "dirty_ratio"}.get(path.name)
        if other:
            real(path.with_name(other), "0")

    monkeypatch.setattr(settings, "_write", as_the_kernel_does)
    for result in (("20", "0"), ("0", "100000000")):
        for key, value_ in (("vm.dirty_ratio", "5"), ("vm.dirty_bytes", "8192")):
            (vm / "dirty_ratio").write_text(result[0])
            (vm / "dirty_bytes").write_text(result[1])
            with HostJournal(machine.roots) as journal, apply_settings({key: value_}, disks, journal):
                assert (vm / key[3:]).read_text() == value_
            assert ((vm / "dirty_ratio").read_text(), (vm / "dirty_bytes").read_text()) == result


def test_a_new_scheduler_resets_what_is_put_back_too(
    machine: Machine, disks: list[SysfsLayer], journal: HostJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settings._write

    def as_the_kernel_does(path: Path, value: str) -> None:
        if path.name == "scheduler":
            value = {"none": "[none] mq-deadline", "mq-deadline": "none [mq-deadline]"}[value]
            real(path.with_name("nr_requests"), "256")
            tunable = path.with_name("iosched") / "read_expire"
            tunable.unlink(missing_ok=True)
            if "[mq-" in value:
                tunable.write_text("500")
        real(path, value)

    monkeypatch.setattr(settings, "_write", as_the_kernel_does)
    with apply_settings({"nr_requests": "32", "scheduler": "none"}, disks, journal):
        assert attribute(machine, "sda/queue/scheduler") == "[none] mq-deadline"
        assert attribute(machine, "sda/queue/nr_requests") == "32"
    assert attribute(machine, "sda/queue/scheduler") == "none [mq-deadline]"
    assert attribute(machine, "sda/queue/nr_requests") == "64"
    assert attribute(machine, "sda/queue/iosched/read_expire") == "400"


def test_a_real_device(loops: Loops, here: Roots) -> None:
    device = loops.attach(loops.file())
    before = real_values(device)
    names = (Path("/sys/block", Path(device).name) / "queue/scheduler").read_text()
    other = "mq-deadline" if "[mq-deadline]" not in names else "none"
    with HostJournal(here) as journal:
        on = layers_of(device, here)
        asked = {"nr_requests": "48", "scheduler": other, "read_ahead_kb": "64"}
        with apply_settings(asked, on, journal):
            during = real_values(device)
            assert {key: during[key] for key in asked} == asked
        assert real_values(device) == before
        with (
            pytest.raises(UsageError, match=r"refused 'nosuch' .*expected one of .*none"),
            apply_settings({"read_ahead_kb": "64", "scheduler": "nosuch"}, on, journal),
        ):
            pass
        assert real_values(device) == before
        with (
            pytest.raises(BlklabError, match="wrote 5, but the kernel set 4"),
            apply_settings({"read_ahead_kb": "5"}, on, journal),
        ):
            pass
    assert real_values(device) == before
