"""Members that are slower than the others, and what is no array here."""

import pytest

from tests.md.conftest import Arrays


def stats(machine: Arrays, **lines: tuple[int, int, int, int]) -> None:
    """/proc/diskstats: of each device its reads, ms of them, writes, ms of them; of 8 sectors."""
    machine.proc(
        "diskstats",
        "\n".join(
            f"8 0 {name} {reads} 0 {8 * reads} {slow} {writes} 0 {8 * writes} {slower}{' 0' * 7}"
            for name, (reads, slow, writes, slower) in lines.items()
        ),
    )


def test_a_slow_member(machine: Arrays) -> None:
    machine.mirror()
    stats(machine, sda=(50_000, 50_000, 20_000, 30_000), sdb=(50_000, 50_000, 20_000, 160_000))
    result = machine.findings_by_code()["unequal"]
    assert (result.severity, result.member) == ("warning", "sdb")
    assert "writes take 8 ms on sdb and 1.5 ms on sda (means of 20,000" in result.message


@pytest.mark.parametrize(
    ("sda", "sdb"),
    [
        ((0, 0, 20_000, 30_000), (0, 0, 20_000, 80_000)),  # not by as much
        ((0, 0, 9_000, 9_000), (0, 0, 9_000, 90_000)),  # too few
        ((0, 0, 50_000_000, 2_000_000), (0, 0, 50_000_000, 900_000_000)),  # may have run over
        ((0, 0, 20_000, 400), (0, 0, 20_000, 3_000)),  # too fast to matter
        ((90_000, 9_000, 0, 0), (90_000, 900_000, 0, 0)),  # reads of a mirror go where md likes
    ],
)
def test_members_that_are_equal_enough(
    machine: Arrays, sda: tuple[int, int, int, int], sdb: tuple[int, int, int, int]
) -> None:
    machine.mirror()
    stats(machine, sda=sda, sdb=sdb)
    assert "unequal" not in machine.findings_by_code()


def test_members_that_get_other_work(machine: Arrays) -> None:
    machine.mirror()
    stats(machine, sda=(0, 0, 20_000, 30_000), sdb=(0, 0, 20_000, 160_000))
    machine.write(machine.roots.sys / "block/md0", {"md__dev-sdb__state": "in_sync,write_mostly"})
    assert "unequal" not in machine.findings_by_code()
    machine.write(machine.roots.sys / "block/md0", {"md__dev-sdb__state": "in_sync"})
    assert "unequal" in machine.findings_by_code()
    content = (machine.roots.proc / "diskstats").read_text()
    # One that was rebuilt had larger writes.
    machine.proc("diskstats", content.replace("160000 160000", "1600000 160000"))
    assert "unequal" not in machine.findings_by_code()
    machine.proc("diskstats", "garbled")
    assert "unequal" not in machine.findings_by_code()


def test_reads_of_stripes(machine: Arrays) -> None:
    machine.mirror(level="raid0")
    stats(machine, sda=(20_000, 30_000, 0, 0), sdb=(20_000, 160_000, 0, 0))
    assert "reads take 8 ms on sdb" in machine.findings_by_code()["unequal"].message


def test_flash_and_disks_are_told_elsewhere(machine: Arrays) -> None:
    machine.mirror()
    machine.write(machine.roots.sys / "block/sdb", {"queue__rotational": "1"})
    stats(machine, sda=(0, 0, 20_000, 30_000), sdb=(0, 0, 20_000, 160_000))
    assert "mixed" in machine.findings_by_code()
    assert "unequal" not in machine.findings_by_code()


def test_raids_of_lvm(machine: Arrays) -> None:
    for at, (name, uuid) in enumerate(
        [
            ("vg--x-lv--y_rimage_0", "LVM-abc-rimage"),
            ("vg--x-lv--y_rimage_1", "LVM-abd-rimage"),
            ("vg--x-lv--y_rmeta_0", "LVM-abe-rmeta"),
            ("vg--x-lv--y", "LVM-abf"),
            ("other-crypt_rimage_0", "CRYPT-x"),
        ]
    ):
        machine.device(f"dm-{at}", f"253:{at}", dm__name=name, dm__uuid=uuid)
    assert machine.seen().volumes == ("vg-x/lv-y",)
    result = machine.findings_by_code()["lvm-raid"]
    assert result.message.startswith("vg-x/lv-y: RAID of LVM")
    assert "raid_mismatch_count" in result.remedy[0]
