"""What to type to build an arrangement: a script for a root shell."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from blklab.advice.arrangement import Arrangement, members_of, names_in
from blklab.advice.question import Table
from blklab.runners.lab.stacks.filesystem import geometry
from blklab.units import parse_size

BLOCK: Final = 4096  # Bytes of a filesystem block
GROUP: Final = "data"  # The volume group, its volume, and the outermost array
MOUNT: Final = "/srv/data"
CONFIGURATION: Final = "/etc/mdadm/mdadm.conf"
RULES: Final = "/etc/udev/rules.d/66-blklab-advice.rules"
"""After 63-md-raid-arrays.rules, which reads the names of arrays."""

UNKNOWN: Final = "/dev/disk/by-id/"  # What the user completes


def script(of: Arrangement, node: Table, paths: Mapping[str, str], filesystem: str) -> list[str]:
    """Returns a shell script for Debian; `node` is the stack of its cell, `paths` are those of known disks.

    It stops at the first error, before it writes if a disk is not empty or a name is in use. Arrays get no bad-block
    lists; the filesystem is aligned to the stripes.
    """
    variables = {name: f"disk_{number}" for number, name in enumerate((*of.disks, *of.spares), 1)}
    lines = ["set -eu"]
    for name, variable in variables.items():
        what = name if name in paths else f"complete this: a {name.rpartition('-')[0]}"
        lines.append(f"{variable}={shlex.quote(paths.get(name, UNKNOWN))}  # {what}")
    where = {name: f'"${variable}"' for name, variable in variables.items()}
    names = _array_names(of)
    where |= {name: f"/dev/md/{label}" for name, label in names.items()}
    lines += _checks([where[name] for name in variables], [*(where[name] for name in names), f"/dev/{GROUP}", MOUNT])
    lines += [*_stack(of, where), *_settings(of, names)]
    nested = any(name in where and name in of.stacks for name in names_in(of.top_table, "members"))
    parity = nested and any(table["level"] in {5, 6} for table in of.arrays().values())
    lines += _filesystem(filesystem, where[of.top], None if parity else geometry(node)) if filesystem != "none" else []
    return lines


def _array_names(of: Arrangement) -> dict[str, str]:
    """Returns mdadm's names of the arrays: `data` for the outermost one, `data-part1` for a part of it."""
    arrays = [name for name, table in of.arrays().items() if table["level"] != "linear"]
    parts = [name for name in arrays if name != of.top]
    numbered = {name: f"{GROUP}-part{number}" for number, name in enumerate(parts, 1)}
    return {name: numbered.get(name, GROUP) for name in arrays}


def _checks(disks: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    """Yields checks that stop the script before it writes."""
    yield (
        f'for disk in {" ".join(disks)}; do [ -b "$disk" ] && [ -z "$(wipefs --no-act "$disk")" ] ||'
        ' { echo "$disk: expected an empty disk: see wipefs --no-act" >&2; exit 1; }; done'
    )
    yield f'for path in {" ".join(paths)}; do [ ! -e "$path" ] || {{ echo "$path exists" >&2; exit 1; }}; done'


def _stack(of: Arrangement, where: dict[str, str]) -> Iterator[str]:
    """Yields the commands for each stack, and enters the paths of volumes."""
    if any(table["level"] not in {0, "linear"} for table in of.arrays().values()):
        yield f"grep -qs '^CREATE.*bbl=no' {CONFIGURATION} || echo 'CREATE bbl=no' >> {CONFIGURATION}"
    arrays = [name for name in of.arrays() if name in where]
    for name, table in of.stacks.items():
        if "device" in table:
            where[name] = where[str(table["device"])]
        elif name in arrays:
            yield _array(table, where[name], where, of.spares)
            yield f"mdadm --detail --brief {where[name]} >> {CONFIGURATION}"
        elif table.get("kind") == "bcache":
            yield from _bcache(table, where)
            where[name] = '"$bcache"'
        else:
            where[name] = f"/dev/{GROUP}/{GROUP}"
            yield from _volume(of, table, where)
    if arrays:
        yield "update-initramfs -u"


def _array(table: Table, path: str, where: Mapping[str, str], spares: Sequence[str]) -> str:
    """Returns `mdadm --create`; --run, because mdadm asks about disks of unequal size."""
    members, mostly = members_of(table), names_in(table, "write_mostly")
    words = ["mdadm --create", path, "--run --metadata=1.2", f"--level={table['level']}"]
    words += [
        f"--raid-devices={len(members)}",
        *(f"--{key}={table[key]}" for key in ("layout", "chunk") if key in table),
    ]
    if table["level"] != 0:
        words.append(f"--bitmap={'internal' if table.get('bitmap') else 'none'}")
    if spares:
        words.append(f"--spare-devices={len(spares)}")
    words += [where[name] for name in members if name not in mostly]
    words += ["--write-mostly", *(where[name] for name in mostly)] if mostly else []
    return " ".join([*words, *(where[name] for name in spares)])


def _bcache(table: Table, where: Mapping[str, str]) -> Iterator[str]:
    """Yields the commands for a bcache; the kernel numbers its devices."""
    backing, cache = (where[str(table[key])] for key in ("backing", "cache"))
    writeback = "--writeback " if table.get("mode") == "writeback" else ""
    yield f"make-bcache {writeback}-B {backing} -C {cache}"
    yield "udevadm settle"
    yield f"bcache=$(lsblk --noheadings --raw --output PATH {backing} | grep -m1 /dev/bcache)"


def _volume(of: Arrangement, table: Table, where: Mapping[str, str]) -> Iterator[str]:
    """Yields the commands for a volume of LVM, with its cache."""
    kind = table.get("kind")
    names = members_of(table) if kind is None else [str(table["origin"]), str(table["cache"])]
    paths = [where[name] for name in names]
    yield f"vgcreate {GROUP} {' '.join(paths)}"
    if kind is None:
        yield f"lvcreate --yes --name {GROUP} --extents 100%FREE {GROUP} {' '.join(paths)}"
        return
    yield f"lvcreate --yes --name {GROUP} --extents 100%PVS {GROUP} {paths[0]}"
    size = f"--size {min(of.sizes.values()) >> 30}g" if of.sizes else "--extents 100%PVS"
    # dm-writecache is only made of an inactive volume.
    yield f"lvcreate --yes --activate n --name fast {size} {GROUP} {paths[1]}"
    options = "--type writecache"
    if kind == "lvmcache":
        options = f"--type cache --chunksize {parse_size(str(table['chunk'])) >> 10}k --cachemode {table['mode']}"
    yield f"lvconvert --yes {options} --cachevol fast {GROUP}/{GROUP}"


def _settings(of: Arrangement, names: Mapping[str, str]) -> Iterator[str]:
    """Yields rules of udev, which keep settings over boots."""
    rules = [
        f'SUBSYSTEM=="block", ENV{{MD_DEVNAME}}=="{names[name]}", ATTR{{md/stripe_cache_size}}="{size}"'
        for name, table in of.arrays().items()
        if (size := table.get("stripe_cache_size"))
    ]
    if scheduler := of.settings.get("scheduler"):
        rules.append(
            'SUBSYSTEM=="block", KERNEL=="sd*", ENV{DEVTYPE}=="disk", ATTR{queue/rotational}=="1",'
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
