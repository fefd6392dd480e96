"""Commands on arrays (commands.toml), and recipes made of them.

A proof makes arrays in a guest, runs what blklab printed for them, and compares the data before and after
(tests/md/guest/test_recipes.py). It fails for a command that no array printed.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blklab.md import good_copies
from blklab.md.model import Array, ArrayMember
from blklab.md_levels import PARITIES
from blklab.text import printable, toml_file, wording

NEW_DISK = "NEW-DISK"  # The user types the name of an empty disk
DISK = "DISK"  # The user types the name of the missing disk, or of an empty one

COMMANDS: dict[str, str] = toml_file(__package__, "commands.toml")
"""Each command on one line, by name."""

RECIPES: dict[str, str] = COMMANDS.pop("recipes")  # type: ignore[assignment]
"""Recipes, by name: explanations, which begin with #, and names of commands."""


def command(name: str, /, **words: str | int | Sequence[str]) -> str:
    """Returns a command with its words quoted for a shell. The only source of commands that blklab prints for md.

    A name that a terminal cannot show as it is cannot be copied from there: then this is a comment, not a command.
    """
    quoted = {}
    for key, value in words.items():
        if isinstance(value, list | tuple):
            quoted[key] = " ".join(shlex.quote(word) for word in value)
        else:
            quoted[key] = shlex.quote(str(value))
    line = COMMANDS[name].format(**quoted)
    if printable(line) != line:
        return f"# Not a command, because a name in it has characters that cannot be typed: {printable(line)}"
    return line


def recipe_lines(name: str, /, **words: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the lines of a recipe, with its words filled in."""
    lines = []
    for line in RECIPES[name].strip().splitlines():
        if line.startswith("#"):
            lines.append(printable(line.format(**words)))
        else:
            lines.append(command(line, **words))
    return tuple(lines)


@dataclass(frozen=True)
class Recipe:
    """Commands for the user, in order. Lines that begin with # explain them."""

    name: str
    lines: tuple[str, ...]


def installer_recipe() -> Recipe:
    """Returns how to have an installer make arrays without lists."""
    lines = (
        "# Before the installer makes arrays, open a shell (Debian, Anaconda: Ctrl-Alt-F2) and run:",
        command("make-directory", directory="/etc/mdadm"),
        command("disable-lists", file="/etc/mdadm/mdadm.conf") + "     # Debian, Ubuntu",
        command("disable-lists", file="/etc/mdadm.conf") + "           # Red Hat, SUSE, Arch",
        *wording("installer-recipe").splitlines(),
    )
    return Recipe("installer", lines)


def offline_recipe(array: Array | None) -> Recipe:
    """Returns how to remove lists from a stopped array; of an example if `array` is None."""
    path = array.path if array else "/dev/md0"
    members = [member.path for member in array.members] if array else ["/dev/sdX1", "/dev/sdY1"]
    return Recipe(
        "offline",
        (
            *wording("offline-recipe").splitlines(),
            *(stop_users(array) if array else ()),
            command("stop", array=path),
            command("assemble-without-lists", array=path, disks=members),
            '# Check the result. Each member must print "No bad-blocks list configured on".',
            *(command("examine-badblocks", disk=member) for member in members),
        ),
    )


def entries_recipes(array: Array, *, adding_fails: bool) -> list[Recipe]:
    """Returns what to do about all lists with entries of an array: the recipe that cannot lose data comes first."""
    recipes = []
    rewrite = rewrite_recipe(array)
    if rewrite:
        recipes.append(rewrite)
    listed = [member for member in array.distinct if good_copies.find_bad_ranges(member)]
    for member in listed:
        if array.sync is not None or array.degraded or not array.redundant or member.slot is None:
            state = "is degraded" if array.degraded else "is not ready"
            lost = describe_only_copies(array, member)
            recipes.append(Recipe("keep", (f"# Do not remove {member.path}: {array.path} {state}{lost}.",)))
        elif adding_fails:
            reason = f"# {member.path} cannot be replaced now: with this kernel, --add needs mdadm 4.5 or newer."
            recipes.append(Recipe("keep", (reason,)))
        else:
            recipes += _replacement_recipes(array, member)
    if listed:
        recipes.append(Recipe("remove-lists", recipe_lines("remove-lists", array=array.path, name=array.name)))
    return recipes


def rewrite_recipe(array: Array) -> Recipe | None:
    """Returns how to write bad ranges again through md; None if there are none, or the array must not be changed."""
    ready = array.live and array.sync is None and array.state != "broken"
    if not ready or (array.degraded and array.level in PARITIES) or not good_copies.find_rewritable_pages(array):
        return None
    lines = (wording("rewrite-recipe"), *stop_users(array), command("fix-entries", array=array.path))
    return Recipe("rewrite", lines)


def stop_users(array: Array) -> list[str]:
    """Returns how to unmount what is on an array, and what else uses it.

    A mount in another mount namespace (a container) cannot be unmounted from here, and the directory of that name here
    is another one: it is named, without a command.
    """
    here: list[str] = []
    elsewhere: list[str] = []
    mounted: set[str] = set()
    for part in array.parts:
        here += part.mounts
        elsewhere += part.mounts_elsewhere
        mounted.update(f"{part.name} is mounted at {place}" for place in (*part.mounts, *part.mounts_elsewhere))
    others = [user for user in array.users if user not in mounted]
    lines = []
    if others:
        lines.append(printable(f"# It is also used by {', '.join(others)}."))
    for place in elsewhere:
        lines.append(printable(f"# It is mounted at {place}: unmount it there, or stop what runs there."))
    # The last mount first: others may be below its directory.
    for mount in sorted(here, reverse=True):
        lines.append(command("unmount", directory=mount))
    return lines


def restart_recipe(array: Array, unusable: Sequence[str] = ()) -> Recipe:
    """Returns how to start an array again whose writes md refuses (`array_state` is `broken`).

    `unusable` are members that the kernel would not accept again: then the array must not be stopped.
    """
    if unusable:
        return Recipe("keep", tuple(wording("keep-running", members=", ".join(unusable)).splitlines()))
    return Recipe("restart", (*stop_users(array), command("fix-restart", array=array.path)))


def _replacement_recipes(array: Array, member: ArrayMember) -> Iterator[Recipe]:
    """Yields how to replace a member, and to rebuild it, which is possible only if the others have all data."""
    yield Recipe(
        "replace",
        (
            f"# If {member.path} fails, replace it while it stays connected: md copies each sector from a good copy.",
            "# NEW-DISK is an empty disk, by its name in /dev/disk/by-id.",
            command("fix-replace", array=array.path, old=member.path, new=NEW_DISK),
        ),
    )
    others = []
    for other in array.distinct:
        if other is not member and (good_copies.find_bad_ranges(other) or other.unseen):
            others.append(other.path)
    lost = describe_only_copies(array, member)
    if others or lost:
        reason = f"{', '.join(others)} has bad blocks or is unread" if others else "it has the only good copies"
        yield Recipe("keep", (f"# Do NOT fail, remove or disconnect {member.path} first: {reason}{lost}.",))
        return
    yield Recipe(
        "swap",
        (
            f"# Or, if the new disk needs the port of {member.path}: blklab reads the other members, and takes it out"
            " if they have all data. Until the rebuild ends, there is one copy or parity fewer.",
            command("fix-remove", array=array.path, disk=member.path),
            f"# Disconnect {member.path}, keep it, and connect the new disk.",
            command("fix-add", array=array.path, disk=NEW_DISK),
        ),
    )
    if good_copies.is_redundant_without(array, member):
        yield Recipe(
            "rebuild",
            (
                "# Or, if the disk is healthy and entries remain, rebuild all of it. blklab reads the others first.",
                command("fix-rebuild", array=array.path, slot=member.slot or 0),
            ),
        )


def describe_only_copies(array: Array, member: ArrayMember) -> str:
    """Returns which sectors are lost without a member, for the end of a sentence; empty if none are."""
    only = good_copies.find_only_copies(array, member)
    if not only:
        return ""
    places = ", ".join(f"{at.sector} to {at.end - 1}" for at in only[:4])
    more = " and more" if len(only) > 4 else ""
    return f"; taking {member.path} out loses sectors {places}{more} of {array.path}"
