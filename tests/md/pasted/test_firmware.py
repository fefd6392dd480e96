"""RAIDs of firmware in pasted text: containers under two names, and volumes that mdadm does not start."""

from blklab.md.audit import find_problems
from blklab.md.rescue.diagnosis import diagnose
from tests.md.pasted.test_arrays import by_name, read

CONTAINER = """\
/dev/md127:
           Version : imsm
        Raid Level : container
     Total Devices : 3
   Working Devices : 3

              UUID : 11111111:22222222:33333333:44444444
     Member Arrays : {volumes}

    Number   Major   Minor   RaidDevice

       -       8       32        -        /dev/sdc
       -       8        0        -        /dev/sda
       -       8       48        -        /dev/sdd
"""
VOLUME = """\
/dev/md125:
         Container : /dev/md/imsm0, member 0
      Raid Devices : 4
     Total Devices : 3

             State : active, FAILED, Not Started
    Active Devices : 3
   Working Devices : 3
    Failed Devices : 0
     Spare Devices : 0

Consistency Policy : unknown

              UUID : 38c20294:230f3d70:a1a5c8bd:8add8ba5
    Number   Major   Minor   RaidDevice State
       -       0        0        0      removed
       -       0        0        1      removed
       -       0        0        2      removed
       -       0        0        3      removed

       -       8       32        0      sync   /dev/sdc
       -       8        0        1      sync   /dev/sda
       -       8       48        3      sync   /dev/sdd
"""
EXAMINE = """\
/dev/sda:
          Magic : Intel Raid ISM Cfg Sig.
        Version : 1.3.00
    Orig Family : ab386e31
         Family : 775b3841
     Generation : 00458337
     Attributes : All supported
           UUID : 11111111:22222222:33333333:44444444
       Checksum : f25e8e6d correct
    MPB Sectors : 2
          Disks : 5
   RAID Devices : 1

  Disk01 Serial : SERIAL1
          State : active
             Id : 00000001
    Usable Size : 1953518848 (931.51 GiB 1000.20 GB)

[md0]:
           UUID : 38c20294:230f3d70:a1a5c8bd:8add8ba5
     RAID Level : 5 <-- 5
        Members : 4 <-- 4
          Slots : [UU_U] <-- [UU_U]
    Failed disk : 2
      This Slot : 1
     Array Size : 5662310400 (2700.00 GiB 2899.10 GB)
   Per Dev Size : 1887436800 (900.00 GiB 966.37 GB)
     Chunk Size : 128 KiB
  Migrate State : idle
      Map State : degraded
    Dirty State : {dirty}

  Disk00 Serial : SERIAL0
          State : active
"""
STAT = """\
Personalities : [raid6] [raid5] [raid4]
md126 : inactive sda[2] sdc[1] sdd[0]
      5567507712 blocks super external:/md127/0
md127 : inactive sdc[2](S) sdd[1](S) sda[0](S)
      9459 blocks super external:imsm
md125 : inactive sdb[0](S)
      1105 blocks super external:imsm

unused devices: <none>
"""


def test_a_volume_finds_its_container_by_its_path_and_by_its_disks() -> None:
    for volumes in ("/dev/md125 /dev/md/md1_0", "/dev/md/other"):
        arrays = by_name(read(CONTAINER.format(volumes=volumes), VOLUME))
        assert arrays["md125"].container == "md127"
        assert [volume.name for volume in arrays["md127"].volumes] == ["md125"]
        assert arrays["md125"].container_array is not None
        assert arrays["md127"].idle == ()


def test_a_volume_that_is_dirty_and_degraded_is_named_as_that() -> None:
    inventory = read(CONTAINER.format(volumes="/dev/md125"), VOLUME, EXAMINE.format(dirty="dirty"))
    array = by_name(inventory)["md125"]
    assert (array.level, array.raid_disks, array.degraded, array.chunk) == ("raid5", 4, 1, 128 << 10)
    assert (array.dirty, array.state) == (True, "inactive")
    findings = {finding.code: finding for finding in find_problems(inventory) if finding.subject == "md125"}
    assert "1 member is missing, and it was not shut down" in findings["inactive"].message
    assert "degraded" not in findings
    remedy = "\n".join(findings["inactive"].remedy)
    assert "assemble it from /dev/md127 with --force" in remedy
    assert all(line.startswith("#") for line in findings["inactive"].remedy)


def test_mdstat_alone_names_the_volume_by_its_number() -> None:
    inventory = read(STAT, EXAMINE.format(dirty="dirty"))
    array = by_name(inventory)["md126"]
    assert (array.uuid, array.level, array.raid_disks, array.degraded) == (
        "38c20294:230f3d70:a1a5c8bd:8add8ba5", "raid5", 4, 1,
    )  # fmt: skip
    only_stat = {finding.code: finding for finding in find_problems(read(STAT)) if finding.subject == "md126"}
    assert only_stat["inactive"].remedy == ("mdadm --examine /dev/sda /dev/sdc /dev/sdd",)


def test_rescue_says_what_containers_and_volumes_are() -> None:
    rescues = {rescue.array.name: rescue for rescue in diagnose(read(STAT, EXAMINE.format(dirty="dirty")))}
    assert rescues["md126"].headline.startswith("It does not run: 1 member is missing, and it was not shut down")
    assert "md127" not in rescues  # its volume says all
    assert rescues["md125"].headline == (
        "It is a container of Intel IMSM with 1 disk, not an array: none of its volumes is assembled."
    )
    for rescue in rescues.values():
        assert "0 of 0 members" not in rescue.headline
        assert "--save-metadata" not in "\n".join(rescue.steps)
