"""Recipes for users: commands (`command_lines`) in order, with explanations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blklab.md import command_lines, good_copies
from blklab.md.levels import PARITIES
from blklab.md.model import Array, ArrayMember
from blklab.text.printing import printable

NEW_DISK = "NEW-DISK"  # The user types the name of an empty disk
DISK = "DISK"  # The user types the name of the missing disk, or of an empty one


@dataclass(frozen=True)
class Recipe:
    """Commands for the user, in order. Lines that begin with # explain them."""

    name: str
    lines: tuple[str, ...]


INSTALLER_CONFIG = "/tmp/no-lists.conf"  # noqa: S108  # in an installer, where only root is
"""The file of `mdadm --create --config` in the recipe for an installer."""


def installer_recipe() -> Recipe:
    """Returns how to have an installer make arrays without lists."""
    lines = (
        "# Before the installer makes arrays, open a shell and run the three lines that follow.",
        "# Debian, Anaconda: Ctrl-Alt-F2. On a serial console of Debian: Ctrl-A, then N. Over ssh (Debian's module",
        "# network-console): log in as `installer` and choose the shell.",
        command_lines.make_directory("/etc/mdadm"),
        command_lines.disable_lists("/etc/mdadm/mdadm.conf") + "     # Debian, Ubuntu",
        command_lines.disable_lists("/etc/mdadm.conf") + "           # Red Hat, SUSE, Arch",
        "# Or make the arrays yourself, here md1, md2, md3 and md5 from the partitions of these numbers on two disks.",
        "# Use a file of your own: the installer of Debian overwrites /tmp/mdadm.conf. mdadm asks before it uses a",
        "# partition with data. The installer then finds the arrays.",
        command_lines.disable_lists(INSTALLER_CONFIG),
        command_lines.create_mirrors_of_partitions("/dev/sdX", "/dev/sdY", INSTALLER_CONFIG),
        "# With preseeding: d-i partman/early_command string mkdir -p /etc/mdadm; \\",
        "#     echo 'CREATE bbl=no' > /etc/mdadm/mdadm.conf",
        "# With Kickstart: put the echo into %pre. Then check each member of each array:",
        "#     mdadm --examine-badblocks /dev/sdX1     must print: No bad-blocks list configured on",
        "# The installed system also needs this line, because mdadm --add makes lists without it. With preseeding:",
        "#     d-i preseed/late_command string in-target sh -c \"echo 'CREATE bbl=no' >> /etc/mdadm/mdadm.conf\"",
        "# The installers of Debian 13 and newer make arrays without a bitmap, and a crash then resyncs all. For each:",
        "#     mdadm --grow --bitmap=internal /dev/md0",
        "# If arrays already have lists, and blklab is installed: at the end of the installation, or later, once:",
        "#     blklab md fix bbl --all --yes --wait",
        "# With preseeding: put `in-target` before it, in late_command. It waits for the first resync, which can take",
        "# hours: then run it after the first boot, for example with Ansible:",
        "#     - command: blklab md fix bbl --all --yes --wait",
    )
    return Recipe("installer", lines)


def offline_recipe(array: Array | None) -> Recipe:
    """Returns how to remove lists from a stopped array; of an example if `array` is None."""
    path = array.path if array else "/dev/md0"
    members = [member.path for member in array.members] if array else ["/dev/sdX1", "/dev/sdY1"]
    stop = stop_users(array) if array else ()
    return Recipe(
        "offline",
        (
            "# Remove the lists while the array is stopped, in a rescue system or in the shell of an initramfs.",
            "# Debian, Ubuntu: add break=premount to the kernel command line; dracut: rd.break=pre-mount.",
            "# Lists must be empty: mdadm keeps a list with entries, and still exits with status 0.",
            *stop,
            command_lines.stop_array(path),
            command_lines.assemble_without_lists(path, members),
            '# Check the result. Each member must print "No bad-blocks list configured on".',
            *(command_lines.examine_bad_blocks(member) for member in members),
        ),
    )


def entries_recipes(array: Array, *, adding_fails: bool) -> list[Recipe]:
    """Returns what to do about all lists with entries of an array: the recipe that cannot lose data comes first."""
    recipes = []
    rewrite = rewrite_recipe(array)
    if rewrite:
        recipes.append(rewrite)
    members = [member for member in array.distinct if good_copies.find_bad_ranges(member)]
    for member in members:
        if array.sync is not None or array.degraded or not array.redundant or member.slot is None:
            state = "is degraded" if array.degraded else "is not ready"
            lost = describe_only_copies(array, member)
            recipes.append(Recipe("keep", (f"# Do not remove {member.path}: {array.path} {state}{lost}.",)))
        elif adding_fails:
            reason = f"# {member.path} cannot be replaced now: with this kernel, --add needs mdadm 4.5 or newer."
            recipes.append(Recipe("keep", (reason,)))
        else:
            recipes += _replacement_recipes(array, member)
    if members:
        recipes.append(_remove_lists_recipe(array))
    return recipes


def _remove_lists_recipe(array: Array) -> Recipe:
    return Recipe(
        "remove-lists",
        (
            "# When no list has entries: check the array (mismatch_cnt must be 0), then remove the lists.",
            command_lines.check_array(array.path),
            command_lines.wait_for_sync(array.path),
            command_lines.show_mismatches(array.name),
            command_lines.fix_bbl(array.path),
        ),
    )


def assemble_again(array: Array) -> tuple[str, ...]:
    """Returns how to assemble an array again that does not run."""
    return (
        command_lines.show_detail(array.path),
        "# If a member appeared late, or a cable was loose, assemble the array again:",
        command_lines.stop_array(array.path),
        command_lines.assemble_all(),
    )


def keep_disk(name: str, member: str) -> tuple[str, ...]:
    """Returns how to make md keep a member of the array `name` that it wants to be replaced."""
    return (
        printable(
            f"# After a write error, md wants {member} to be replaced. "
            "If it is healthy (smartctl), and no list has entries any more:"
        ),
        command_lines.clear_want_replacement(name, member),
    )


def keep_running(members: Sequence[str]) -> tuple[str, ...]:
    """Returns why an array must not be stopped: the kernel would not accept these members again."""
    return (
        f"# Do NOT stop the array: this kernel would not accept {', '.join(members)} again, "
        "whose bad-block list on the disk was never written.",
        "# What can be read can be copied: copy the data to another place first.",
    )


def rewrite_recipe(array: Array) -> Recipe | None:
    """Returns how to write bad ranges again through md; None if there are none, or the array must not be changed."""
    ready = array.live and array.sync is None and array.state != "broken"
    if not ready or (array.degraded and array.level in PARITIES) or not good_copies.find_rewritable_pages(array):
        return None
    explanation = "# Write the bad ranges again from good copies, through md. Nothing else may use the array meanwhile."
    lines = (explanation, *stop_users(array), command_lines.fix_entries(array.path))
    return Recipe("rewrite", lines)


def stop_users(array: Array) -> list[str]:
    """Returns how to unmount what is on an array, and what else uses it.

    A mount in another mount namespace (a container) cannot be unmounted from here, and the directory of that name here
    is another one: it is named, without a command.
    """
    here: list[str] = []
    elsewhere: list[str] = []
    mount_lines: set[str] = set()
    for part in array.parts:
        here += part.mounts
        elsewhere += part.mounts_elsewhere
        mount_lines.update(f"{part.name} is mounted at {place}" for place in (*part.mounts, *part.mounts_elsewhere))
    other_users = [user for user in array.users if user not in mount_lines]
    lines = []
    if other_users:
        lines.append(printable(f"# It is also used by {', '.join(other_users)}."))
    for place in elsewhere:
        lines.append(printable(f"# It is mounted at {place}: unmount it there, or stop what runs there."))
    # The last mount first: others may be below its directory.
    for mount in sorted(here, reverse=True):
        lines.append(command_lines.unmount(mount))
    return lines


def restart_recipe(array: Array, unusable: Sequence[str] = ()) -> Recipe:
    """Returns how to start an array again whose writes md refuses (`array_state` is `broken`).

    `unusable` are members that the kernel would not accept again: then the array must not be stopped.
    """
    if unusable:
        return Recipe("keep", keep_running(unusable))
    return Recipe("restart", (*stop_users(array), command_lines.fix_restart(array.path)))


def _replacement_recipes(array: Array, member: ArrayMember) -> Iterator[Recipe]:
    """Yields how to replace a member, and to rebuild it, which is possible only if the others have all data."""
    yield Recipe(
        "replace",
        (
            f"# If {member.path} fails, replace it while it stays connected: md copies each sector from a good copy.",
            "# NEW-DISK is an empty disk, by its name in /dev/disk/by-id.",
            command_lines.fix_replace(array.path, member.path, NEW_DISK),
        ),
    )
    bad_paths = []
    for other in array.distinct:
        if other is not member and (good_copies.find_bad_ranges(other) or other.unseen):
            bad_paths.append(other.path)
    lost = describe_only_copies(array, member)
    if bad_paths or lost:
        reason = f"{', '.join(bad_paths)} has bad blocks or is unread" if bad_paths else "it has the only good copies"
        yield Recipe("keep", (f"# Do NOT fail, remove or disconnect {member.path} first: {reason}{lost}.",))
        return
    yield Recipe(
        "swap",
        (
            f"# Or, if the new disk needs the port of {member.path}: blklab reads the other members, and takes it out"
            " if they have all data. Until the rebuild ends, there is one copy or parity fewer.",
            command_lines.fix_remove(array.path, member.path),
            f"# Disconnect {member.path}, keep it, and connect the new disk.",
            command_lines.fix_add(array.path, NEW_DISK),
        ),
    )
    if good_copies.is_redundant_without(array, member):
        yield Recipe(
            "rebuild",
            (
                "# Or, if the disk is healthy and entries remain, rebuild all of it. blklab reads the others first.",
                command_lines.fix_rebuild(array.path, member.slot or 0),
            ),
        )


def describe_only_copies(array: Array, member: ArrayMember) -> str:
    """Returns which sectors are lost without a member, for the end of a sentence; empty if none are."""
    only = good_copies.find_only_copies(array, member)
    if not only:
        return ""
    places = ", ".join(f"{sector_range.sector} to {sector_range.end - 1}" for sector_range in only[:4])
    suffix = " and more" if len(only) > 4 else ""
    return f"; taking {member.path} out loses sectors {places}{suffix} of {array.path}"
