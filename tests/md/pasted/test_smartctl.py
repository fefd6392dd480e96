"""The text of smartctl: whose it is, and what it says of a disk."""

import pytest

from blklab.md.audit import find_problems
from blklab.md.pasted.blocks import clean_lines
from blklab.md.pasted.inventory import read_texts
from blklab.md.pasted.smartctl import find_outputs

ATA = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-9-amd64] (local build)

=== START OF INFORMATION SECTION ===
Model Family:     Seagate Barracuda (SMR)
Device Model:     ST8000DM004-2CX188
Serial Number:    ZCT00001
Rotation Rate:    5425 rpm
SATA Version is:  SATA 3.1, 6.0 Gb/s (current: 3.0 Gb/s)

SMART overall-health self-assessment test result: FAILED!
SCT capabilities:              (0x30a5) SCT Status supported.
                                        SCT Data Table supported.
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   001   001   010    Pre-fail  Always   FAILING_NOW 1234
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       16
198 Offline_Uncorrectable   0x0010   100   100   000    Old_age   Offline      -       8

SCT Error Recovery Control command not supported
"""
NAS = """\
smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.10.0-8-amd64] (local build)
Device Model:     WDC WD80EFAX-68KNBN0
Rotation Rate:    5400 rpm
SMART overall-health self-assessment test result: PASSED
  5 Reallocated_Sector_Ct   PO--CK   100   100   005    -    0
197 Current_Pending_Sector  -O---K   100   100   000    -    3
SCT Error Recovery Control:
           Read:     70 (7.0 seconds)
          Write: Disabled
"""
NVME = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-9-amd64] (local build)
Model Number:                       Samsung SSD 990 PRO 2TB
Serial Number:                      S7
NVMe Version:                       2.0
SMART overall-health self-assessment test result: PASSED
Critical Warning:                   0x04
Percentage Used:                    103%
Media and Data Integrity Errors:    1,207
"""
MDSTAT = """\
md0 : active raid1 sda1[0] sdb1[1]
      1046528 blocks super 1.2 [2/2] [UU]

unused devices: <none>
"""


def test_fields_of_ata_disks() -> None:
    first, second = find_outputs(clean_lines(f"# smartctl -a /dev/sda\n{ATA}\n$ sudo smartctl -x /dev/sdb1\n\n{NAS}"))
    assert (first.device, second.device) == ("/dev/sda", "/dev/sdb")
    health = first.health
    assert (health.protocol, health.model, health.rotation, health.passed) == ("ATA", "ST8000DM004-2CX188", 5425, False)
    assert (health.reallocated, health.pending, health.uncorrectable) == (1234, 16, 8)
    assert (health.failing, health.erc, health.erc_seconds) == (("Reallocated_Sector_Ct",), False, None)
    assert (health.link, health.shingled) == ((3_000_000_000, 6_000_000_000), True)
    assert (second.health.pending, second.health.erc, second.health.erc_seconds) == (3, True, (7.0, None))


def test_fields_of_nvme() -> None:
    (output,) = find_outputs(clean_lines(f"=== /dev/nvme0n1 ===\n{NVME}"))
    health = output.health
    assert (output.device, health.protocol, health.critical_warning) == ("/dev/nvme0n1", "NVMe", 4)
    assert (health.used_percent, health.media_errors) == (103, 1207)


@pytest.mark.parametrize("above", ["", "for d in a b; do smartctl -a /dev/sd$d; done\n", "smartctl\n"])
def test_an_output_of_an_unknown_disk_is_no_disk(above: str) -> None:
    inventory = read_texts([("mail", f"{above}{ATA}{MDSTAT}")])
    assert inventory.disks is None
    assert any("does not say which disk" in reason for reason in inventory.unseen)


def test_disks_of_an_array_are_judged_as_those_of_this_host() -> None:
    text = f"smartctl -a /dev/sda\n{ATA}\nsmartctl -a /dev/sdb\n{NAS}\n{MDSTAT}"
    inventory = read_texts([("mail", text)])
    assert inventory.disks is not None
    assert [(disk.name, disk.arrays) for disk in inventory.disks] == [("sda", ("md0",)), ("sdb", ("md0",))]
    findings = {(finding.member, finding.code): finding.message for finding in find_problems(inventory)}
    assert "reports that it fails: Reallocated_Sector_Ct" in findings["sda", "smart-failed"]
    assert "16 pending sectors" in findings["sda", "smart-unreadable"]
    assert "the kernel waits only 30 s (by default)" in findings["sda", "timeout"]
    assert ("sda", "smart-shingled") in findings
    assert ("sdb", "timeout") in findings  # writes have no limit
