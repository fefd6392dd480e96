"""What `blklab advise` says to type, typed on a real kernel."""

import re
import shlex
from collections.abc import Callable, Sequence

import pytest

from blklab.advise.answer import BLOCK_SIZE, join_scripts, script, script_for_volume
from blklab.advise.arrangement import Arrangement
from blklab.advise.cache import arrangements_of_size, origin_of
from blklab.advise.question import Constraints, Question, load_of_mix, read_pool, read_pools
from blklab.advise.samples import Simulations
from blklab.runners.lab.machine.qemu import VirtualDiskShape
from tests.md.guest.rig import Rig

SLOW = [VirtualDiskShape(f"slow{number}", 320 << 20) for number in range(3)]
FAST = VirtualDiskShape("fast", 200 << 20)
DISKS = ["hdd-7200-1", "hdd-7200-2", "hdd-7200-3"]


def commands(of: Arrangement, paths: dict[str, str], filesystem: str) -> list[str]:
    pools = read_pools(["3xhdd-7200:320MiB,1xpm983:200MiB"], {}, "fresh")
    load = load_of_mix("database", 64 << 20)
    node = Simulations(Question(pools, [load], Constraints())).cell(of, load).document["stack"]
    return join_scripts([script(of, node, paths, filesystem)])


def typed(machine: Rig, lines: Sequence[str]) -> None:
    """Does what a shell does: the guest has none. Lines that concern the next boot only are left out."""
    variables: dict[str, str] = {}
    for line in lines:
        if match := re.fullmatch(r"(\w+)=(\S+)  #.*", line):
            variables[match[1]] = match[2]
        elif "CREATE bbl=no" in line:
            machine.guest.agent.write("/etc/mdadm/mdadm.conf", "CREATE bbl=no\n")
        elif "&& block=4096" in line:
            device = "/dev/{group}/{volume}".format(**variables)
            found = machine.run(*BLOCK_SIZE.split(), device, check=False).stdout.strip()
            variables["block"] = "4096" if found == "4096" else "512"
        elif not line.startswith(
            ("set ", "for ", "twice=", "mdadm --detail", "update-initramfs", "echo ", "udevadm ", "! ", "# ")
        ):
            words = shlex.split(re.sub(r"\$(\w+)", lambda match: variables[match[1]], line))
            if words[0] == "mount":
                # fstab is not written here: the filesystem that was made last is the one to mount.
                device = [line for line in lines[: lines.index(line)] if line.startswith("mkfs")][-1].split()[-1]
                words = ["mount", device, words[1]]
            machine.run(*words)


@pytest.mark.guest
def test_an_array_has_its_layout_no_lists_and_an_aligned_filesystem(
    rig: Callable[[Sequence[VirtualDiskShape]], Rig],
) -> None:
    machine = rig(SLOW)
    for module in ("raid456", "ext4"):
        machine.run("modprobe", module)
    paths = machine.names(SLOW)
    table = {"level": 5, "chunk": "64K", "members": DISKS, "bitmap": True}
    of = Arrangement("any", "any", {"any": table}, DISKS, 1)
    lines = commands(of, dict(zip(DISKS, paths, strict=True)), "ext4")
    typed(machine, lines)
    assert machine.lists(paths) == ["none"] * 3
    kernel = machine.run("lsblk", "-no", "NAME", "/dev/md/data").stdout.strip()
    assert machine.read(f"/sys/block/{kernel}/md/chunk_size") == str(64 << 10)
    assert machine.read(f"/sys/block/{kernel}/md/level") == "raid5"
    assert machine.read(f"/sys/block/{kernel}/md/bitmap/location") != "none"
    assert "/srv/data ext4" in machine.read("/proc/mounts")
    # ext4's superblock: s_raid_stride and s_raid_stripe_width.
    audited = machine.blklab("md", "audit", "--json")
    assert "unaligned" not in audited.stdout


@pytest.mark.guest
def test_two_arrays_are_built_by_one_script(rig: Callable[[Sequence[VirtualDiskShape]], Rig]) -> None:
    fast_disks = [FAST, VirtualDiskShape("fast2", 200 << 20)]
    machine = rig([*SLOW, *fast_disks])
    for module in ("raid1", "raid456", "ext4"):
        machine.run("modprobe", module)
    names = [*DISKS, "pm983-1", "pm983-2"]
    paths = dict(zip(names, machine.names([*SLOW, *fast_disks]), strict=True))
    pools = read_pools(["3xhdd-7200:320MiB,2xpm983:200MiB"], {}, "fresh")
    load = load_of_mix("database", 64 << 20)
    simulations = Simulations(Question(pools, [load], Constraints()))
    parts = []
    mirror: dict[str, object] = {"level": 1, "members": names[3:], "bitmap": True}
    parity: dict[str, object] = {"level": 5, "members": DISKS, "bitmap": True, "chunk": "64K"}
    for name, table, disks in (("fast", mirror, names[3:]), ("large", parity, DISKS)):
        of = Arrangement(name, name, {name: table}, disks, 1)
        node = simulations.cell(of, load).document["stack"]
        parts.append(script(of, node, paths, "ext4", name))
    typed(machine, join_scripts(parts))
    mounts = machine.read("/proc/mounts")
    for name, kernel_level in (("fast", "raid1"), ("large", "raid5")):
        kernel = machine.run("lsblk", "-no", "NAME", f"/dev/md/{name}").stdout.strip()
        assert machine.read(f"/sys/block/{kernel}/md/level") == kernel_level
        assert f"/srv/{name} ext4" in mounts


@pytest.mark.guest
@pytest.mark.parametrize("kind", ["lvmcache", "writecache"])
def test_a_cache_of_lvm_is_made(rig: Callable[[Sequence[VirtualDiskShape]], Rig], kind: str) -> None:
    machine = rig([*SLOW[:2], FAST])
    for module in ("raid1", "dm-cache", "dm-cache-smq", "dm-writecache", "xfs"):
        machine.run("modprobe", module)
    names = [*DISKS[:2], "pm983-1"]
    keys: dict[str, object] = {"mode": "writethrough", "chunk": 65536} if kind == "lvmcache" else {}
    stacks: dict[str, dict[str, object]] = {
        "slow": {"level": 1, "members": DISKS[:2], "bitmap": True},
        "any": {"kind": kind, "origin": "slow", "cache": "pm983-1", **keys},
    }
    of = Arrangement("any", "any", stacks, names, 1)
    paths = dict(zip(names, machine.names([*SLOW[:2], FAST]), strict=True))
    typed(machine, commands(of, paths, "xfs"))
    table = machine.run("dmsetup", "table", "data-data").stdout.split()
    assert table[2] == {"lvmcache": "cache", "writecache": "writecache"}[kind]
    assert "/srv/data xfs" in machine.read("/proc/mounts")


@pytest.mark.guest
@pytest.mark.parametrize("level", ["lvmcache-writethrough", "lvmcache-writeback", "writecache"])
@pytest.mark.parametrize("fast", [[FAST], [FAST, VirtualDiskShape("fast2", 200 << 20)]])
def test_a_cache_is_put_on_a_volume_in_use_and_removed(
    rig: Callable[[Sequence[VirtualDiskShape]], Rig], level: str, fast: Sequence[VirtualDiskShape]
) -> None:
    machine = rig([SLOW[0], *fast])
    for module in ("raid1", "dm-cache", "dm-cache-smq", "dm-writecache", "ext4"):
        machine.run("modprobe", module)
    slow, *paths = machine.names([SLOW[0], *fast])
    machine.run("vgcreate", "vg0", slow)
    machine.run("lvcreate", "--yes", "--name", "db", "--extents", "100%FREE", "vg0")
    machine.run("mkfs.ext4", "/dev/vg0/db")
    machine.run("mount", "/dev/vg0/db", "/mnt")
    machine.guest.agent.write("/mnt/kept", "what was here before\n")
    origin = origin_of(read_pool("hdd-7200:320MiB", "fresh"), "")
    arrangements = arrangements_of_size(origin, read_pool(f"{len(fast)}xpm983:200MiB", "fresh"), 64 << 20)
    of = next(of for of in arrangements if of.level == level)
    completed = {"group": "vg0", "volume": "db"} | {f"fast_{at}": path for at, path in enumerate(paths, 1)}
    lines = [re.sub(r"^(\w+)=\S*  #", lambda m: f"{m[1]}={completed[m[1]]}  #", line) for line in script_for_volume(of)]
    typed(machine, lines)
    assert machine.run("dmsetup", "table", "vg0-db").stdout.split()[2] == level.partition("-")[0].removeprefix("lvm")
    machine.guest.agent.write("/mnt/written", "with the cache\n")
    machine.run("umount", "/mnt")
    machine.run("lvconvert", "--yes", "--uncache", "vg0/db")
    machine.run("mount", "/dev/vg0/db", "/mnt")
    assert machine.read("/mnt/kept") == "what was here before"
    assert machine.read("/mnt/written") == "with the cache"
    machine.run("umount", "/mnt")
