"""Commands on arrays (commands.toml), and recipes made of them.

A proof makes arrays in a guest, runs what blklab printed for them, and compares the data before and after
(tests/md/guest/test_recipes.py). It fails for a command that no array printed.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from blklab.md import good_copies
from blklab.md.model import Array, ArrayMember
from blklab.md_levels import PARITIES
from blklab.text import toml_file, wording

NEW_DISK = "/dev/NEW-DISK"  # The user types the name of an empty disk
OLD_DISK = "/dev/OLD-DISK"  # The user types the name of the member that is missing

COMMANDS: dict[str, str] = toml_file(__package__, "commands.toml")
"""Each command on one line, by name."""

RECIPES: dict[str, str] = COMMANDS.pop("recipes")  # type: ignore[assignment]
"""Recipes, by name: explanations, which begin with #, and names of commands."""


def command(name: str, /, **words: str | int | Sequence[str]) -> str:
    """Returns a command with its words quoted for a shell. The only source of commands that blklab prints for md."""
    quoted = {
        key: " ".join(map(shlex.quote, value)) if isinstance(value, list | tuple) else shlex.quote(str(value))
        for key, value in words.items()
    }
    return COMMANDS[name].format(**quoted)


def recipe_lines(name: str, /, **words: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the lines of a recipe, with its words filled in; `add disk=new` adds what the word `new` says."""
    return tuple(_recipe_line(line, words) for line in RECIPES[name].strip().splitlines())


def _recipe_line(line: str, words: dict[str, str | Sequence[str]]) -> str:
    if line.startswith("#"):
        return line.format(**words)
    name, *pairs = line.split()
    return command(name, **words | {key: words[value] for key, _, value in (pair.partition("=") for pair in pairs)})


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
    recipes = [recipe] if (recipe := rewrite_recipe(array)) else []
    bad = [member for member in array.distinct if member.ranges]
    for member in bad:
        others = [other.path for other in array.distinct if (other.ranges or other.unseen) and other is not member]
        if array.sync is not None or array.degraded or not array.redundant or member.slot is None:
            only = _only_copies_text(array, member)
            state = "is degraded" if array.degraded else "is not ready"
            lines = (f"# Do not remove {member.path}: {array.path} {state}{only}.",)
            recipes.append(Recipe("keep", lines))
        elif adding_fails:
            lines = (f"# {member.path} cannot be replaced now: with this kernel, --add needs mdadm 4.5 or newer.",)
            recipes.append(Recipe("keep", lines))
        else:
            recipes += _replacement_recipes(array, member, others)
    if bad:
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
    """Returns how to unmount what is on an array, and what else uses it."""
    mounts = [mount for part in array.parts for mount in part.mounts]
    others = [user for user in array.users if not any(mount in user for mount in mounts)]
    lines = [f"# It is also used by {', '.join(others)}."] if others else []
    # The last mount first: others may be below its directory.
    return lines + [command("unmount", directory=mount) for mount in sorted(mounts, reverse=True)]


def _replacement_recipes(array: Array, member: ArrayMember, others: list[str]) -> Iterator[Recipe]:
    """Yields how to replace a member, and to rebuild it, which is possible only if the others have all data."""
    words = {"array": array.path, "disk": member.path, "new": NEW_DISK}
    yield Recipe("replace", recipe_lines("replace", **words))
    if others or good_copies.find_only_copies(array, member):
        only = _only_copies_text(array, member)
        yield Recipe("keep", (wording("keep-member", member=member, others=", ".join(others), only=only),))
        return
    yield Recipe("swap", recipe_lines("swap", **words))
    yield Recipe("rebuild", recipe_lines("rebuild", **words))


def _only_copies_text(array: Array, member: ArrayMember) -> str:
    """Returns which sectors are lost without a member, for the end of a sentence; empty if none are."""
    only = good_copies.find_only_copies(array, member)
    if not only:
        return ""
    places = ", ".join(f"{at.sector} to {at.end - 1}" for at in only[:4]) + (" and more" if len(only) > 4 else "")
    return f"; replacing {member.path} that way loses sectors {places} of {array.path}"


def restart_recipe(
    array: str,
    mounts: Iterable[str],
    disks: Sequence[str],
    missing: Iterable[str],
    *,
    repairing: bool,
    unusable: Sequence[str] = (),
) -> Recipe:
    """Returns how to start an array again whose writes md refuses (`array_state` is `broken`).

    `disks` are the members to start it with, `missing` those that md has failed and that come back afterwards,
    `unusable` those that the kernel would not accept again.
    """
    if unusable:
        return Recipe("keep", tuple(wording("keep-running", members=", ".join(unusable)).splitlines()))
    back = [] if repairing else [command("re-add", array=array, disk=disk) for disk in missing]
    if back:
        back.insert(0, "# Without a bitmap, md refuses this; the array then needs an empty disk (--add).")
    return Recipe(
        "restart",
        (
            "# Find out why the disk failed (dmesg; cable, controller) and correct it first.",
            *(command("unmount", directory=mount) for mount in sorted(mounts, reverse=True)),
            command("stop", array=array),
            command("assemble-force", array=array, disks=list(disks)),
            *back,
            *([command("resume")] if repairing else []),
        ),
    )
