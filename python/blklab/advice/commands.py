"""What to type to build an arrangement: a script for a root shell."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from blklab.advice.arrangement import Arrangement, members_of, names_in
from blklab.advice.question import Table
from blklab.runners.lab.stacks.filesystem import geometry
from blklab.units import parse_size

BLOCK: Final = 4096  # Bytes of a filesystem block
GROUP: Final = "data"  # The volume group
MOUNT: Final = "/srv/data"
CONFIGURATION: Final = "/etc/mdadm/mdadm.conf"
RULES: Final = "/etc/udev/rules.d/60-blklab-advice.rules"
UNKNOWN: Final = "/dev/disk/by-id/"  # What the user completes


def script(of: Arrangement, node: Table, paths: Mapping[str, str], filesystem: str) -> list[str]:
    """Returns the lines of a script; `node` is the stack of its cell, `paths` are those of known disks.

    It destroys what is on the disks. Arrays get no bad-block lists; the filesystem is aligned to the stripes.
    """
    variables = {name: re.sub(r"\W", "_", name) for name in (*of.disks, *of.spares)}
    lines = [
        f"{variable}={shlex.quote(paths.get(name, UNKNOWN))}" + ("" if name in paths else "  # complete this")
        for name, variable in variables.items()
    ]
    where = {name: f'"${variable}"' for name, variable in variables.items()}
    lines += [*_stack(of, where), *_settings(of)]
    top = where[of.top]
    lines += _filesystem(filesystem, top, geometry(node)) if filesystem != "none" else []
    return lines


def _stack(of: Arrangement, where: dict[str, str]) -> Iterator[str]:
    """Yields the commands for each stack, and enters its path."""
    if any(table["level"] not in {0, "linear"} for table in of.arrays().values()):
        yield f"grep -qs '^CREATE.*bbl=no' {CONFIGURATION} || echo 'CREATE bbl=no' >> {CONFIGURATION}"
    arrays = 0
    for name, table in of.stacks.items():
        if "device" in table:
            where[name] = where[str(table["device"])]
        elif "level" in table and table["level"] != "linear":
            where[name] = f"/dev/md/{GROUP}{arrays or ''}"
            yield _array(table, where[name], where, of.spares if not arrays else [])
            arrays += 1
        else:
            where[name] = "/dev/bcache0" if table.get("kind") == "bcache" else f"/dev/{GROUP}/{GROUP}"
            yield from _volume(of, table, where)
    if arrays:
        yield f"mdadm --detail --scan >> {CONFIGURATION}"
        yield "update-initramfs -u"


def _array(table: Table, path: str, where: Mapping[str, str], spares: Sequence[str]) -> str:
    members, mostly = members_of(table), names_in(table, "write_mostly")
    words = ["mdadm --create", path, "--metadata=1.2", f"--level={table['level']}", f"--raid-devices={len(members)}"]
    words += [f"--{key}={table[key]}" for key in ("layout", "chunk") if key in table]
    if table["level"] != 0:
        words.append(f"--bitmap={'internal' if table.get('bitmap') else 'none'}")
    if spares:
        words.append(f"--spare-devices={len(spares)}")
    words += [where[name] for name in members if name not in mostly]
    words += ["--write-mostly", *(where[name] for name in mostly)] if mostly else []
    return " ".join([*words, *(where[name] for name in spares)])


def _volume(of: Arrangement, table: Table, where: Mapping[str, str]) -> Iterator[str]:
    kind = table.get("kind")
    if kind == "bcache":
        backing, cache = (where[str(table[key])] for key in ("backing", "cache"))
        writeback = "--writeback " if table.get("mode") == "writeback" else ""
        yield f"make-bcache {writeback}--backing {backing} --cache {cache}"
        return
    names = members_of(table) if kind is None else [str(table["origin"]), str(table["cache"])]
    paths = [where[name] for name in names]
    yield f"vgcreate {GROUP} {' '.join(paths)}"
    if kind is None:
        yield f"lvcreate --name {GROUP} --extents 100%FREE {GROUP} {' '.join(paths)}"
        return
    yield f"lvcreate --name {GROUP} --extents 100%PVS {GROUP} {paths[0]}"
    size = f"--size {min(of.sizes.values()) >> 30}g" if of.sizes else "--extents 100%PVS"
    # dm-writecache is only made of an inactive volume.
    yield f"lvcreate --activate n --name fast {size} {GROUP} {paths[1]}"
    options = "--type writecache"
    if kind == "lvmcache":
        options = f"--type cache --chunksize {parse_size(str(table['chunk'])) >> 10}k --cachemode {table['mode']}"
    yield f"lvconvert --yes {options} --cachevol fast {GROUP}/{GROUP}"


def _settings(of: Arrangement) -> Iterator[str]:
    """Yields rules of udev, which keep settings over boots."""
    rules = [
        f'SUBSYSTEM=="block", KERNEL=="md*", ACTION=="change", TEST=="md/stripe_cache_size",'
        f' ATTR{{md/stripe_cache_size}}="{table["stripe_cache_size"]}"'
        for table in of.arrays().values()
        if "stripe_cache_size" in table
    ][:1]
    if scheduler := of.settings.get("scheduler"):
        rules.append(
            'SUBSYSTEM=="block", KERNEL=="sd*", ENV{DEVTYPE}=="disk", ACTION=="add|change",'
            f' ATTR{{queue/scheduler}}="{scheduler}"'
        )
    for rule in rules:
        yield f"echo {shlex.quote(rule)} >> {RULES}"
    if rules:
        yield "udevadm control --reload && udevadm trigger --subsystem-match=block --action=change"


def _filesystem(kind: str, path: str, stripes: tuple[int, int] | None) -> Iterator[str]:
    """Yields mkfs and the line of fstab; without `noatime`, each read causes a write."""
    options = ""
    if stripes is not None:
        chunk, count = stripes
        unit = chunk // BLOCK
        options = f" -E stride={unit},stripe_width={unit * count}" if kind == "ext4" else f" -d su={chunk},sw={count}"
    yield f"mkfs.{kind}{options} {path}"
    yield f"mkdir -p {MOUNT}"
    check = 2 if kind == "ext4" else 0
    yield f'echo "UUID=$(blkid -s UUID -o value {path}) {MOUNT} {kind} noatime,nofail 0 {check}" >> /etc/fstab'
    yield f"mount {MOUNT}"
