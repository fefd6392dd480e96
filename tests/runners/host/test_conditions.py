"""What would spoil a measurement is found before it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.diagnostic import Diagnostic
from blklab.errors import BlklabError, UsageError
from blklab.outcome import DeviceResult, Outcome
from blklab.runners.host import conditions
from blklab.runners.host.conditions import OtherPrograms, check, collapse, layers_of, refuse_others_io
from blklab.store.series import SeriesPoint
from blklab.system.layers import layers
from tests.system.machine import Machine

GIB = 1 << 30
TARGET = {"name": "raid1", "directory": "/srv", "cache_bytes": 0}


@pytest.fixture
def mirror(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A quiet RAID-1 md0 of sda and sdb; every target is on it."""
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        machine.device(name, number, device__model="DISK", queue__zoned="none")
    machine.device("md0", "9:0", slaves="sda sdb", md__sync_action="idle", md__degraded="0")
    machine.proc("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB")
    stats(machine, 100, 100)
    monkeypatch.setattr(conditions, "layers_of", lambda _target, roots: layers(["9:0"], roots))
    return machine


def stats(machine: Machine, ios: int, busy: int) -> None:
    line = " {0} 0 {0} 0 0 0 0 0 0 {1} 0"
    machine.proc(
        "diskstats",
        "8 0 sda" + line.format(ios, busy) + "\n8 16 sdb" + line.format(1, 1) + "\n9 0 md0" + line.format(1, 1),
    )


def cell(size: int | None = 64 * GIB, **options: str) -> Any:
    given = {"rw": "randread", "direct": "1", **options}
    if size is not None:
        given["size"] = str(size)
    return {"jobs": [{"name": "job", "options": given}], "file_bytes": 64 * GIB}


def look(
    machine: Machine, *cells: Any, sleep: Callable[[float], object] = lambda _seconds: None, **target: Any
) -> list[Diagnostic]:
    result = check({**TARGET, **target}, cells or [cell()], machine.roots, sleep)
    assert {finding.code for finding in result} <= set(conditions.NAMES)
    return result


def test_a_quiet_machine(mirror: Machine) -> None:
    assert look(mirror) == []


def test_arrays_that_sync_or_lack_a_member(mirror: Machine) -> None:
    mirror.write(
        mirror.roots.sys / "block/md0/md", {"sync_action": "recover", "sync_completed": "1000 / 4000", "degraded": "1"}
    )
    syncing, degraded = look(mirror)
    assert (syncing.code, syncing.severity) == ("array-syncing", "critical")
    assert "md0: found sync_action recover (25.0 %), expected idle" in str(syncing)
    assert (degraded.code, degraded.severity) == ("array-degraded", "critical")
    assert "found 1 of its members missing" in str(degraded)


@pytest.mark.parametrize(
    ("ios", "busy", "severities"),
    [(140, 200, []), (141, 100, ["note"]), (100, 201, ["note"]), (100, 601, ["critical"])],
)
def test_others_io(mirror: Machine, ios: int, busy: int, severities: list[str]) -> None:
    # Two seconds: 20 I/Os a second are 40, 5 % are 100 ms and 25 % are 500 ms.
    findings = look(mirror, sleep=lambda _seconds: stats(mirror, ios, busy))
    assert [finding.code for finding in findings] == ["device-busy"] * len(severities)
    assert [finding.severity for finding in findings] == severities
    if severities == ["critical"]:
        assert str(findings[0]) == "sda was in use by another program (busy for 25 % of the time, limit 25 %)"


@pytest.mark.parametrize(
    ("rate", "sectors", "others", "refusal"),
    [
        (50_000, 8, 96, ""),
        (2_000, 8, 96, ""),
        (100, 8, 96, "vda was in use by another program (96 I/Os a second, limit 20). Stop it, or add "),
        (1000, 8, 96, "vda was in use by another program (96 I/Os a second, limit 50). Stop it, or add "),
        (100, 2048, 96, ""),  # I/Os of 1 MiB
        (1, 8, 19, ""),
    ],
)
def test_others_io_is_judged_by_what_the_cell_does(rate: int, sectors: int, others: float, refusal: str) -> None:
    disk = DeviceResult("vda", [9 * rate, rate], sectors=[9 * rate * sectors, rate * sectors])
    outcome = Outcome(10 * 10**9, devices=[disk, DeviceResult("vdb", [0, 0])])
    load = OtherPrograms("device-busy", "note", "vda", "", ios_per_s=others, bytes_per_s=others * 4096)
    if not refusal:
        refuse_others_io([load], outcome)
        return
    with pytest.raises(BlklabError) as caught:
        refuse_others_io([load], outcome)
    assert str(caught.value) == refusal + "--force device-busy."


@pytest.mark.parametrize(("rate", "busy_share", "limit"), [(100, 0.06, None), (100, 0.12, 5), (1000, 0.12, None)])
def test_seeks_for_others_are_an_obstacle(rate: int, busy_share: float, limit: int | None) -> None:
    disk = DeviceResult("sda", [10 * rate, 0], sectors=[10 * rate * 2048, 0])
    outcome = Outcome(10 * 10**9, devices=[disk])
    load = OtherPrograms("device-busy", "note", "sda", "", ios_per_s=15, bytes_per_s=61440, busy_share=busy_share)
    if limit is None:
        refuse_others_io([load], outcome)
        return
    with pytest.raises(BlklabError, match=f"sda was in use by another program .15 I/Os a second, limit {limit}"):
        refuse_others_io([load], outcome)


def test_the_page_cache(mirror: Machine) -> None:
    [finding] = look(mirror, cell(8 * GIB, direct="0"))
    assert (finding.code, finding.severity) == ("page-cache", "critical")
    assert "found 8.0 GiB of data, expected more than the 16.0 GiB" in str(finding)
    assert look(mirror, cell(64 * GIB, direct="0")) == []
    assert look(mirror, cell(None, direct="0")) == []
    small = {**cell(None), "file_bytes": GIB}
    del small["jobs"][0]["options"]["direct"]
    assert [result.code for result in look(mirror, cell(), small, small)] == ["page-cache"]
    # All of a device of 1 GiB.
    assert [f.code for f in look(mirror, cell(None, direct="0"), device="x")] == ["page-cache"]
    etcd = cell(direct="0", rw="write", fdatasync="1")
    assert look(mirror, etcd) == []  # each write reaches the disk before the next
    assert look(mirror, {"jobs": [], "command": {"argv": ["true"]}}) == []


def test_data_that_fits_into_caches(mirror: Machine) -> None:
    [finding] = look(mirror, cell(3 * GIB), cache_bytes=2 * GIB)
    assert (finding.code, finding.severity) == ("small-data", "critical")
    assert "found 3.0 GiB of data" in str(finding)
    assert look(mirror, cell(4 * GIB), cache_bytes=2 * GIB) == []


def test_caches_that_sysfs_shows(mirror: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.device("dm-1", "253:1", dm__name="vg-pool_cdata", slaves="sdb")
    mirror.device("dm-0", "253:0", dm__name="vg-lv", slaves="dm-1 sda")
    monkeypatch.setattr(conditions, "layers_of", lambda _target, roots: layers(["253:0"], roots))
    [finding] = look(mirror, cell(GIB))
    assert "(vg-pool_cdata 1.0 GiB)" in str(finding)
    backing = mirror.roots.sys / "devices/block/sda/bcache"
    cache_set = mirror.roots.sys / "fs/bcache/uuid"
    cache_set.mkdir(parents=True)
    backing.mkdir()
    (mirror.roots.sys / "devices/block/sdb/bcache").mkdir()
    (backing / "cache").symlink_to(cache_set)
    (cache_set / "cache0").symlink_to(mirror.roots.sys / "devices/block/sdb/bcache")
    (mirror.device("bcache0", "251:0") / "bcache").symlink_to(backing)
    monkeypatch.setattr(conditions, "layers_of", lambda _target, roots: layers(["251:0"], roots))
    [finding] = look(mirror, cell(GIB))
    assert "(sdb 1.0 GiB)" in str(finding)


def test_governors_and_memory_are_warnings(mirror: Machine) -> None:
    for number in (0, 1):
        mirror.write(
            mirror.roots.sys / f"devices/system/cpu/cpu{number}/cpufreq",
            {"scaling_governor": "powersave", "scaling_driver": "acpi-cpufreq"},
        )
    mirror.proc("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 100000 kB")
    governor, memory = look(mirror)
    assert (governor.code, governor.severity) == ("powersave", "warning")
    assert "2 CPUs: found governor powersave (acpi-cpufreq)" in str(governor)
    assert "lowest clock" in str(governor)
    assert (memory.code, memory.severity) == ("low-memory", "warning")


@pytest.mark.parametrize(
    ("files", "refuse"),
    [
        ({"queue__zoned": "host-managed"}, True),
        ({"queue__zoned": "host-aware"}, False),
        ({"device__model": "ST5000LM000-2AN1"}, False),
        ({"device__model": "WDC WD40EFAX-68JH4N0"}, False),
        ({"device__model": "WDC WD40EFRX-68N32N0"}, None),
    ],
)
def test_shingled_disks(mirror: Machine, files: dict[str, str], refuse: bool | None) -> None:
    mirror.write(mirror.roots.sys / "block/sda", files)
    result = look(mirror, cell(rw="randwrite"))
    assert [finding.severity == "critical" for finding in result] == ([] if refuse is None else [refuse])
    assert all(finding.code == "smr-cliff" for finding in result)
    assert look(mirror, cell(rw="randread")) == []


def test_devices_that_are_not_counted(mirror: Machine) -> None:
    mirror.write(mirror.roots.sys / "block/sdb", {"queue/iostats": "0"})
    [finding] = look(mirror)
    assert (finding.code, finding.severity) == ("iostats-off", "warning")
    assert str(finding).startswith("sdb: found queue/iostats 0")


def series(*rates: int) -> list[SeriesPoint]:
    return [SeriesPoint("sda", at * 10**9, 10**9, 0, rate, 0, rate << 20, None, None) for at, rate in enumerate(rates)]


def test_a_collapse_is_seen_afterwards() -> None:
    result = collapse(series(*[100, 110] * 10, *[9, 8, 11, 10] * 5), "sda")
    assert result is not None
    assert "fell from 105.0 to 9.5 MiB/s in interval 21 of 40" in str(result)
    assert result.severity == "warning"


@pytest.mark.parametrize(
    "rates",
    [
        (),
        (100,) * 40,
        (0,) * 40,
        (10,) * 20 + (100,) * 20,
        (100,) * 20 + (30,) * 20,
        (100,) * 20 + (5,) * 10 + (100,) * 10,
        (100,) * 3 + (5,) * 3,
    ],
)
def test_what_is_no_collapse(rates: tuple[int, ...]) -> None:
    assert collapse(series(*rates), "sda") is None
    assert collapse(series(*[100] * 20, *[5] * 20), "sdb") is None


def test_where_a_target_is(machine: Machine, tmp_path: Path) -> None:
    machine.mount("0:25", tmp_path, "tmpfs", "tmpfs")
    assert layers_of({"name": "x", "directory": str(tmp_path)}, machine.roots) == []
    with pytest.raises(UsageError, match="not a block device"):
        layers_of({"name": "x", "device": "/dev/null"}, machine.roots)
    with pytest.raises(UsageError, match="no-such: No such file"):
        layers_of({"name": "x", "filesystem": str(tmp_path / "no-such")}, machine.roots)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ("cpu 20 0 0 180 0 0 0 0", None),
        ("cpu 50 0 0 150 0 0 0 0", "other programs use 25 % of the CPUs"),
        ("cpu 0 0 0 150 0 0 0 50", "the hypervisor takes 25 % of the CPUs"),
    ],
)
def test_busy_cpus_are_a_warning(mirror: Machine, after: str, message: str | None) -> None:
    mirror.proc("stat", "cpu 0 0 0 0 0 0 0 0\n")
    diagnostics = look(mirror, sleep=lambda _seconds: mirror.proc("stat", after + "\n"))
    assert [(item.code, item.severity) for item in diagnostics] == [("cpu-busy", "warning")] * (message is not None)
    assert message is None or message in str(diagnostics[0])
