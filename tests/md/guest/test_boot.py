"""Debian boots from RAID-1, and packaging/boot removes empty bad-block lists on the way: or leaves the arrays alone."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from blklab.errors import EnvironmentLacks
from blklab.runners.lab.image import GuestImage
from blklab.runners.lab.image.build import AGENT
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest import raid_root
from tests.md.guest.raid_root import DATA, DATA_UUID, DISKS, ROOT, ROOT_UUID, RaidRoot

pytestmark = pytest.mark.guest

every = pytest.mark.skipif(os.environ.get("BLKLAB_PROOF") != "every", reason="BLKLAB_PROOF=every has it")

STRUCK = (Path(__file__).parent / "inside/struck.sh").read_text()
PREMOUNT = (raid_root.PACKAGING / "boot/premount").read_text()

SUM = hashlib.sha256(raid_root.CONTENT.encode()).hexdigest()

Boot = Callable[..., RaidRoot]


@pytest.fixture(scope="module")
def made(guest_image: GuestImage, python: Path) -> tuple[GuestImage, Path]:
    if os.geteuid() != 0:
        pytest.skip("mkinitramfs needs root, to change into the root of the system")
    try:
        return raid_root.make(guest_image, python)
    except EnvironmentLacks as error:
        pytest.skip(f"Debian's packages cannot be downloaded: {error}")


@pytest.fixture
def boot(made: tuple[GuestImage, Path], python: Path, tmp_path: Path) -> Iterator[Boot]:
    """Boots the machine with further words on the kernel's command line, and files in the initramfs."""
    with ExitStack() as stack:

        def booted(
            words: str = "", files: dict[str, str] | None = None, present: Sequence[VirtualDiskShape] = DISKS
        ) -> RaidRoot:
            more = raid_root.add(made[0], files, tmp_path / "initrd") if files else None
            machine = RaidRoot(made, python, present=present, more=more)
            machine.words = words
            return stack.enter_context(machine)

        yield booted


def log(machine: RaidRoot) -> str:
    machine.run("journalctl", "--sync")
    return machine.run("journalctl", "--boot", "--identifier=blklab-md-boot", "--output=cat").stdout


def lists(machine: RaidRoot, disks: Sequence[VirtualDiskShape] = DISKS) -> list[str]:
    return machine.lists(machine.names(disks))


def check(machine: RaidRoot, disks: Sequence[VirtualDiskShape] = DISKS) -> None:
    """The system has booted as always: data are equal, arrays whole, and members of an array have the same events."""
    assert machine.run("systemctl", "--failed", "--plain", "--no-legend").stdout == ""
    assert machine.run("findmnt", "--noheadings", "--output=TARGET", "/data").stdout.strip() == "/data"
    files = {"/data/file": raid_root.CONTENT.encode(), "/usr/lib/agent": AGENT.read_bytes()}
    machine.run("sync")
    for path, content in files.items():
        assert machine.run("sha256sum", path).stdout.split()[0] == hashlib.sha256(content).hexdigest(), path
    for array in (ROOT, DATA):
        members = [shape for shape in array if shape in disks]
        path = "/dev/md0" if array is ROOT else "/dev/md/data"
        name = machine.run("readlink", "--canonicalize", path).stdout.strip()
        assert machine.read(f"/sys/class/block/{Path(name).name}/md/degraded") == str(len(array) - len(members))
        for _ in range(5):  # The superblocks of an array in use are read one after the other
            shown = machine.run("mdadm", "--examine", *machine.names(members)).stdout
            if len(set(re.findall(r"Events : (\d+)", shown))) == 1:
                break
        else:
            raise AssertionError(shown)
        roles = re.findall(r"Device Role : Active device (\d)", shown)
        assert roles == [str(array.index(shape)) for shape in members]
    assert machine.run("udevadm", "settle", "--timeout=60", check=False).status == 0


def test_lists_are_gone_after_a_boot(boot: Boot) -> None:
    machine = boot()
    check(machine)
    assert lists(machine) == ["none"] * 5
    shown = machine.blklab("md", "boot", "status").stdout
    assert re.search(r"^md0: removed the bad-block lists", shown, re.M), shown
    told = log(machine)
    assert re.search(r"^md0: removed the bad-block lists of vda, vdb; all members have \d+ events$", told, re.M), told
    assert re.search(r"^md\d+: removed the bad-block lists of vdc, vdd, vde; ", told, re.M), told
    status = machine.blklab("md", "boot", "status")
    assert re.search(r"^md0: removed the bad-block lists", status.stdout, re.M), status
    machine.run(
        "sh", "-c", "mdadm --wait-clean --scan; echo check > /sys/class/block/md0/md/sync_action; mdadm -W /dev/md0"
    )
    assert machine.read("/sys/class/block/md0/md/mismatch_cnt") == "0"


@every
def test_command_line_switches_it_off_and_lists_with_entries_are_kept(boot: Boot) -> None:
    machine = boot("blklab.md_boot=off")
    check(machine)
    assert lists(machine) == ["empty"] * 5
    assert "switched off by blklab.md_boot=off" in log(machine)
    # The last sectors: nothing is there.
    for disk, array in ((machine.names(ROOT)[1], "/dev/md0"), (machine.names(DATA)[0], "/dev/md/data")):
        entry = (
            f"echo 60000 8 > /sys/class/block/$(basename $(readlink -f {array}))/md/dev-{Path(disk).name}/bad_blocks"
        )
        machine.run("sh", "-c", entry)
    machine.run("sh", "-c", "echo > /data/written; echo > /written; sync; sleep 2; sync")
    # An array that is not clean would be resynced, and md then writes the bad blocks again.
    machine.run(
        "sh", "-c", "umount /data; mdadm --stop /dev/md/data; echo u > /proc/sysrq-trigger; mdadm --wait-clean /dev/md0"
    )
    kept = lists(machine)
    assert "60000 for 8 sectors" in kept[1]
    assert "60000 for 8 sectors" in kept[2]
    machine.cut()
    machine.words = ""
    machine.power()
    check(machine)
    assert lists(machine) == kept
    told = log(machine)
    assert re.search(r"^md0: left as it is: the bad-block list of /dev/vdb has entries; `blklab md audit`", told, re.M)
    assert re.search(r"^md\d+: left as it is: the bad-block list of /dev/vdc has entries; ", told, re.M)


@every
def test_member_is_missing(boot: Boot) -> None:
    present = [ROOT[0], *DATA[:2]]
    machine = boot(present=present)
    check(machine, present)
    assert lists(machine, present) == ["empty"] * 3
    assert "left as it is: a member is missing" in log(machine)


@every
def test_array_that_the_initramfs_leaves_is_of_the_unit(boot: Boot) -> None:
    machine = boot(files={"etc/blklab/md-boot.conf": f"{ROOT_UUID}\n"})
    check(machine)
    assert "blklab: md0: removed the bad-block lists" in machine.console()
    assert "vdc" not in machine.console()
    assert lists(machine) == ["none"] * 5
    assert re.search(r"^md\d+: removed the bad-block lists of vdc, vdd, vde; ", log(machine), re.M)


def struck(words: str = "") -> dict[str, str]:
    """Returns what replaces mdadm and udevadm for md-boot in the initramfs, and commands before it."""
    premount = PREMOUNT.replace('"$program" run', f'PATH=/struck:$PATH {words}\n"$program" run')
    assert premount != PREMOUNT
    return {"struck/mdadm": STRUCK, "struck/udevadm": STRUCK, "scripts/init-premount/blklab-md-boot": premount}


@every
@pytest.mark.parametrize("who", ["step", "both", "all"])
@pytest.mark.parametrize("at", ["before,--stop", "after,--stop", "before,--update=no-bbl", "after,--update=no-bbl"])
def test_killed_in_the_initramfs(boot: Boot, at: str, who: str) -> None:
    machine = boot(f"struck={at},{who}", struck())
    assert machine.read("/run/struck.done")
    check(machine)
    assert set(lists(machine, ROOT)) in ({"none"}, {"empty"})
    assert lists(machine, DATA) == ["none"] * 3


@every
def test_udev_races_with_it(boot: Boot) -> None:
    race = "\n(i=0; while [ $i -lt 400 ]; do udevadm trigger --subsystem-match=block; i=$((i + 1)); done) &"
    machine = boot("", struck(race))
    check(machine)
    told = log(machine)
    for array, disks in (("md0", ROOT), (r"md\d+", DATA)):
        expected = "removed the" if lists(machine, disks) == ["none"] * len(disks) else "left as it is: udev does not"
        assert re.search(rf"^{array}: {expected}", told, re.M), told


AGAIN = """\
umount /data
udevadm control --stop-exec-queue
mdadm --stop /dev/md/data && mdadm --assemble /dev/md/data --update=bbl {members} || exit 1
udevadm control --start-exec-queue
udevadm settle
rm -rf /run/struck.* /run/blklab-md-boot*
echo {spec} > /run/struck.spec
systemctl restart blklab-md-boot
udevadm settle
"""
"""Gives the data array lists again, and starts the unit, which is killed at a call."""


def prepare_unit(machine: RaidRoot) -> None:
    """Has the unit handle the data array only, with the mdadm and udevadm that kill it."""
    agent = machine.guest.agent
    machine.run("mkdir", "-p", "/struck", "/run/systemd/system/blklab-md-boot.service.d")
    for name in ("mdadm", "udevadm"):
        agent.write(f"/struck/{name}", STRUCK)
    machine.run("chmod", "-R", "755", "/struck")
    agent.write("/etc/blklab/md-boot.conf", f"{DATA_UUID}\n")
    agent.write("/run/cmdline", "\n")
    machine.run("mount", "--bind", "/run/cmdline", "/proc/cmdline")
    drop_in = "[Service]\nEnvironment=PATH=/struck:/usr/sbin:/usr/bin\n"
    agent.write("/run/systemd/system/blklab-md-boot.service.d/test.conf", drop_in)
    machine.run("systemctl", "daemon-reload")


def strike_unit(machine: RaidRoot, spec: str) -> tuple[list[str], bool]:
    """Returns the lists after a run of the unit that is killed, and whether the call came to that."""
    members = machine.names(DATA)
    machine.run("sh", "-c", AGAIN.format(spec=spec, members=" ".join(members)))
    machine.run("mount", "/data")
    assert machine.run("sha256sum", "/data/file").stdout.split()[0] == SUM
    state = machine.read("/proc/mdstat")
    assert "[3/3] [UUU]" in state, state
    return machine.lists(members), bool(machine.read("/run/struck.done"))


@every
def test_unit_is_killed_at_every_call(boot: Boot) -> None:
    machine = boot("blklab.md_boot=off")
    prepare_unit(machine)
    outcomes, number, killed = set(), 0, True
    while killed:
        number += 1
        lists_now, killed = strike_unit(machine, f"after,{number},step")
        outcomes.add(tuple(lists_now))
    check(machine)
    assert number > 20
    assert outcomes == {("none",) * 3, ("empty",) * 3}


@every
def test_arrays_in_use_are_left_as_they_are(boot: Boot) -> None:
    machine = boot("blklab.md_boot=off")
    prepare_unit(machine)
    machine.guest.agent.write("/etc/blklab/md-boot.conf", f"{ROOT_UUID}\n{DATA_UUID}\n")
    uses = {
        "mount /data": "it is in use: ",
        'dmsetup create held --table "0 1000 linear /dev/md/data 0"': "dm-0 is on it",
        "mkswap /dev/md/data && swapon /dev/md/data": "it is in use: ",
    }
    for command, reason in uses.items():
        machine.run(
            "sh", "-c", f"umount /data; dmsetup remove held; rm -rf /run/blklab-md-boot*; {command}", check=True
        )
        machine.run("systemctl", "restart", "blklab-md-boot")
        told = machine.read("/run/blklab-md-boot.log")
        assert re.fullmatch(rf"md0: left as it is: it is in use: .*\nmd\d+: left as it is: {reason}.*", told), told
    assert lists(machine) == ["empty"] * 5


@every
def test_unit_is_killed_with_what_watches_over_it(boot: Boot) -> None:
    machine = boot("blklab.md_boot=off")
    prepare_unit(machine)
    for at, expected in {
        "before,--stop": "empty",
        "after,--stop": "empty",
        "before,--update=no-bbl": "empty",
        "after,--update=no-bbl": "none",
    }.items():
        assert strike_unit(machine, f"{at},both") == ([expected] * 3, True)
    check(machine)
