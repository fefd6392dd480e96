"""The steps for what lies on an array: after it has grown, and before it shrinks."""

from blklab.md import command_lines
from blklab.md.model import Array
from blklab.md.recipes import stop_users

EXT = frozenset({"ext2", "ext3", "ext4"})


def find_content(array: Array) -> tuple[str, str, str]:
    """Returns the kind of filesystem that is mounted from the array, its device and its mount point; or empty ones."""
    for part in array.parts:
        if part.filesystem and part.mounts:
            return part.filesystem, part.path, part.mounts[0]
    return "", "", ""


def list_growing(array: Array, path: str) -> list[str]:
    """Returns the commands that have the filesystem use the new space, while it is mounted."""
    kind, device, directory = find_content(array)
    if device and device != path:
        return [f"# {device} is a partition of the array: make the partition larger first, then its filesystem."]
    if kind in EXT:
        return [command_lines.resize_ext(device)]
    if kind == "xfs":
        return [command_lines.grow_xfs(directory)]
    if kind == "btrfs":
        return [command_lines.resize_btrfs(directory)]
    if any("LVM" in user or "dm-" in user for user in array.users):
        return ["# If the array is a physical volume of LVM:", command_lines.resize_physical_volume(path)]
    return [f"# Then have what lies on {path} use the new space, for example: {command_lines.resize_ext(path)}"]


def list_shrinking(array: Array, path: str, size: int, call: str) -> list[str]:
    """Returns the steps before an array shrinks to `size` bytes. The one that cannot be undone is a comment."""
    kind, device, directory = find_content(array)
    kib = size // 1024
    lines = ["# Make a backup first: a shrink that is wrong cannot be undone."]
    if kind == "xfs":
        return [*lines, f"# XFS ({directory}) cannot be made smaller: copy the files to another filesystem instead."]
    if device and device != path:
        return [*lines, f"# {device} is a partition: make its filesystem and the partition smaller first."]
    if kind in EXT:
        lines += [*stop_users(array), command_lines.check_ext_before_shrinking(device)]
        lines.append(command_lines.resize_ext(device, kib))
    elif kind == "btrfs":
        lines.append(command_lines.resize_btrfs(directory, size))
    else:
        lines.append(f"# Make what lies on {path} smaller: at most {kib:,} KiB ({size:,} bytes).")
    return [
        *lines,
        "# Hide the end of the array. This can be undone with --array-size=max:",
        command_lines.set_array_size(path, kib),
        "# Check the filesystem, mount it, and look at the files. Only if all is there:",
        f"# {call}",
    ]
