"""All commands on arrays that blklab prints for the user or runs: a function for each, which returns one line.

Words are quoted for a shell. A name that a terminal cannot show as it is cannot be copied from there: then the line is
a comment, not a command.

A proof makes arrays in a guest, runs what blklab printed for them, and compares the data before and after
(tests/md/guest/test_recipes.py). It fails for a command that no array printed. To record the lines, it replaces the
functions of this module: call them as `command_lines.stop_array(…)`.
"""

import shlex
from collections.abc import Callable, Sequence

from blklab.text.printing import printable

# mdadm(8)


def add_disk(array: str, disk: str) -> str:
    return _line("mdadm", array, "--add", disk)


def add_disks(array: str, disks: Sequence[str]) -> str:
    return _line("mdadm", array, "--add", *disks)


def add_to_container(container: str, disk: str) -> str:
    """For RAIDs of firmware: mdadm refuses to add a disk to a volume."""
    return _line("mdadm", "--add", container, disk)


def add_journal(array: str, disk: str) -> str:
    """For an array that is read-only; mdadm makes it writable then."""
    return _line("mdadm", array, "--add-journal", disk)


def add_bitmap(array: str) -> str:
    return _line("mdadm", "--grow", "--bitmap=internal", array)


def add_bitmap_with_chunk(array: str, chunk: int) -> str:
    """`chunk` is in bytes, a multiple of 1 KiB."""
    return _line("mdadm", "--grow", "--bitmap=internal", f"--bitmap-chunk={chunk >> 10}K", array)


def assemble_array(array: str, disks: Sequence[str]) -> str:
    return _line("mdadm", "--assemble", array, *disks)


def assemble_dropping_lists(array: str, disks: Sequence[str]) -> str:
    return _line("mdadm", "--assemble", array, "--update=force-no-bbl", *disks)


def assemble_by_uuid(array: str, uuid: str, backup_file: str = "") -> str:
    """Finds the members by their superblocks: disks may have other names after a restart."""
    return _line("mdadm", "--assemble", array, f"--uuid={uuid}", *_name_backup(backup_file))


def assemble_and_run(array: str, disks: Sequence[str]) -> str:
    """Starts it also if members are missing that the others do not know as missing."""
    return _line("mdadm", "--assemble", "--run", array, *disks)


def assemble_by_force(array: str, disks: Sequence[str], backup_file: str = "") -> str:
    return _line("mdadm", "--assemble", "--force", "--run", *_name_backup(backup_file), array, *disks)


def assemble_read_only(array: str, disks: Sequence[str], backup_file: str = "") -> str:
    """Only for overlays: mdadm writes superblocks all the same."""
    return _line("mdadm", "--assemble", "--force", "--run", "--readonly", *_name_backup(backup_file), array, *disks)


def _name_backup(file: str) -> list[str]:
    """Returns the option for the backup file of a reshape."""
    return [f"--backup-file={file}"] if file else []


def assemble_all() -> str:
    return _line("mdadm", "--assemble", "--scan")


def assemble_without_lists(array: str, disks: Sequence[str]) -> str:
    return _line("mdadm", "--assemble", array, "--update=no-bbl", *disks)


def check_array(array: str) -> str:
    return _line("mdadm", "--action=check", array)


def show_detail(array: str) -> str:
    return _line("mdadm", "--detail", array)


def show_details(arrays: Sequence[str]) -> str:
    return _line("mdadm", "--detail", *arrays)


def examine_disk(disk: str) -> str:
    return _line("mdadm", "--examine", disk)


def examine_disks(disks: Sequence[str]) -> str:
    return _line("mdadm", "--examine", *disks)


def examine_bad_blocks(disk: str) -> str:
    return _line("mdadm", "--examine-badblocks", disk)


def examine_version(disk: str, version: str) -> str:
    return _line("mdadm", "--examine", f"--metadata={version}", disk)


def fail_disk(array: str, disk: str) -> str:
    return _line("mdadm", array, "--fail", disk)


def make_idle(array: str) -> str:
    return _line("mdadm", "--action=idle", array)


def re_add_disk(array: str, disk: str) -> str:
    return _line("mdadm", array, "--re-add", disk)


def re_add_without_list(array: str, disk: str) -> str:
    return _line("mdadm", array, "--re-add", disk, "--update=no-bbl")


def make_read_only(array: str) -> str:
    return _line("mdadm", "--readonly", array)


def make_writable(array: str) -> str:
    return _line("mdadm", "--readwrite", array)


def remove_disk(array: str, disk: str) -> str:
    return _line("mdadm", array, "--remove", disk)


def remove_bitmap(array: str) -> str:
    return _line("mdadm", "--grow", "--bitmap=none", array)


def replace_disk(array: str, disk: str, new: str) -> str:
    return _line("mdadm", array, "--replace", disk, "--with", new)


def change_level(array: str, level: str, disks: int = 0, layout: str = "", backup_file: str = "") -> str:
    """`level` is mdadm's: `6`. With 0 disks, mdadm chooses their number."""
    options = [f"--level={level}"]
    if disks:
        options.append(f"--raid-devices={disks}")
    if layout:
        options.append(f"--layout={layout}")
    return _line("mdadm", "--grow", array, *options, *_name_backup(backup_file))


def change_level_adding(array: str, level: str, disks: int, new: Sequence[str]) -> str:
    """For a RAID-0, which takes disks only together with a change."""
    return _line("mdadm", "--grow", array, f"--level={level}", f"--raid-devices={disks}", "--add", *new)


def continue_reshape(array: str, backup_file: str = "") -> str:
    return _line("mdadm", "--grow", "--continue", array, *_name_backup(backup_file))


def reshape_array(array: str, disks: int = 0, chunk: int = 0, layout: str = "", backup_file: str = "") -> str:
    """`chunk` is in bytes; 0 and an empty layout leave them as they are."""
    options = []
    if disks:
        options.append(f"--raid-devices={disks}")
    if chunk:
        options.append(f"--chunk={chunk >> 10}K")
    if layout:
        options.append(f"--layout={layout}")
    return _line("mdadm", "--grow", array, *options, *_name_backup(backup_file))


def reshape_adding(array: str, disks: int, new: Sequence[str]) -> str:
    """For a RAID-0, which takes disks only together with a change."""
    return _line("mdadm", "--grow", array, f"--raid-devices={disks}", "--add", *new)


def replace_with_spare(array: str, disk: str) -> str:
    """The kernel takes any spare."""
    return _line("mdadm", array, "--replace", disk)


def set_array_size(array: str, kib: int) -> str:
    """Hides the end of an array until it is stopped: nothing is lost yet."""
    return _line("mdadm", "--grow", array, f"--array-size={kib}")


def set_member_size(array: str, kib: int = 0) -> str:
    """0 is the largest size that all members have."""
    return _line("mdadm", "--grow", array, f"--size={kib or 'max'}")


def set_consistency_policy(array: str, policy: str) -> str:
    return _line("mdadm", "--grow", array, f"--consistency-policy={policy}")


def stop_array(array: str) -> str:
    return _line("mdadm", "--stop", array)


def wait_for_sync(array: str) -> str:
    return _line("mdadm", "--wait", array)


def zero_superblock(disk: str) -> str:
    return _line("mdadm", "--zero-superblock", disk)


# Documentation/admin-guide/md.rst


def clear_want_replacement(name: str, member: str) -> str:
    return _check_printable(
        f"echo -want_replacement > /sys/block/{shlex.quote(name)}/md/dev-{shlex.quote(member)}/state"
    )


def clear_write_error(name: str, member: str) -> str:
    return _check_printable(f"echo -write_error > /sys/block/{shlex.quote(name)}/md/dev-{shlex.quote(member)}/state")


def give_up_journal(name: str) -> str:
    """For an array without its journal, read-only; the kernel refuses this while there is one (raid5.c)."""
    return _check_printable(f"echo resync > /sys/block/{shlex.quote(name)}/md/consistency_policy")


def resume_writes(name: str) -> str:
    return _check_printable(f"echo 0 > /sys/block/{shlex.quote(name)}/md/suspend_hi")


def raise_sync_speed(name: str, minimum_kib: int) -> str:
    return _check_printable(f"echo {minimum_kib} > /sys/block/{shlex.quote(name)}/md/sync_speed_min")


def raise_stripe_cache(name: str, stripes: int) -> str:
    return _check_printable(f"echo {stripes} > /sys/block/{shlex.quote(name)}/md/stripe_cache_size")


def show_mismatches(name: str) -> str:
    return _check_printable(f"cat /sys/block/{shlex.quote(name)}/md/mismatch_cnt")


# blklab


def audit_arrays() -> str:
    return _line("blklab", "md", "audit")


def fix_bbl(array: str) -> str:
    return _line("blklab", "md", "fix", "bbl", array)


def fix_bbl_of_host() -> str:
    return _line("blklab", "md", "fix", "bbl", "--all")


def fix_bbl_of_arrays(arrays: Sequence[str]) -> str:
    return _line("blklab", "md", "fix", "bbl", *arrays)


def plan_fix_bbl(array: str) -> str:
    return _line("blklab", "md", "fix", "bbl", array, "--plan")


def fix_entries(array: str) -> str:
    return _line("blklab", "md", "fix", "entries", array)


def fix_entries_from(array: str, file: str) -> str:
    return _line("blklab", "md", "fix", "entries", array, "--from", file)


def fix_metadata(directory: str) -> str:
    return _line("blklab", "md", "fix", "metadata", directory)


def save_sectors(first: int, last: int, disk: str, file: str) -> str:
    return _line("blklab", "md", "rescue", "--save", f"{first}-{last}", "--from", disk, file)


def fix_add(array: str, disk: str) -> str:
    return _line("blklab", "md", "fix", "add", array, disk)


def fix_rebuild(array: str, slot: int) -> str:
    return _line("blklab", "md", "fix", "rebuild", array, str(slot))


def fix_remove(array: str, disk: str) -> str:
    return _line("blklab", "md", "fix", "remove", array, disk)


def fix_replace(array: str, old: str, new: str) -> str:
    return _line("blklab", "md", "fix", "replace", array, old, new)


def fix_restart(array: str) -> str:
    return _line("blklab", "md", "fix", "restart", array)


def fix_assemble(array: str) -> str:
    return _line("blklab", "md", "fix", "assemble", array)


def start_overlays(array: str, directory: str) -> str:
    return _line("blklab", "md", "overlays", "start", array, directory)


def stop_overlays(directory: str) -> str:
    return _line("blklab", "md", "overlays", "stop", directory)


def resume_fix() -> str:
    return _line("blklab", "md", "fix", "--resume")


# Other programs


def disable_lists(file: str) -> str:
    return _check_printable(f"echo 'CREATE bbl=no' >> {shlex.quote(file)}")


def create_mirrors_of_partitions(first: str, second: str, config: str) -> str:
    """A loop: RAID-1 of the partitions 1, 2, 3 and 5 of two disks, each of the partitions of one number."""
    members = " ".join(f"{shlex.quote(disk)}$n" for disk in (first, second))
    mdadm = f"mdadm --create /dev/md$n --config {shlex.quote(config)} --level=1 --raid-devices=2 --bitmap=internal"
    return _check_printable(f"for n in 1 2 3 5; do {mdadm} {members}; done")


def make_directory(directory: str) -> str:
    return _line("mkdir", "-p", directory)


def list_lvm_raids() -> str:
    return _line("lvs", "-a", "-o", "name,raid_sync_action,raid_mismatch_count,lv_health_status")


def set_stripe(disk: str, stride: int, width: int) -> str:
    return _line("tune2fs", "-E", f"stride={stride},stripe_width={width}", disk)


def set_timeout(name: str, seconds: int) -> str:
    return _check_printable(f"echo {seconds} > /sys/block/{shlex.quote(name)}/device/timeout")


def limit_retries(disk: str) -> str:
    return _line("smartctl", "--log=scterc,70,70", disk)


def show_signatures(disk: str) -> str:
    return _line("wipefs", "--no-act", disk)


def show_smart(disk: str) -> str:
    return _line("smartctl", "--all", disk)


def show_smart_of_kind(disk: str, kind: str) -> str:
    return _line("smartctl", "--all", f"--device={kind}", disk)


def stop_swap(file: str) -> str:
    return _line("swapoff", file)


def enable_timers(timers: Sequence[str]) -> str:
    return _line("systemctl", "enable", "--now", *timers)


def append_rule(rule: str, file: str) -> str:
    """Adds a line to a file of udev rules (udev(7))."""
    return _check_printable(f"echo {shlex.quote(rule)} >> {shlex.quote(file)}")


def stop_unit(unit: str) -> str:
    return _line("systemctl", "stop", unit)


def unmount(directory: str) -> str:
    return _line("umount", directory)


# Filesystems on an array: resize2fs(8), xfs_growfs(8), btrfs-filesystem(8), pvresize(8)


def check_ext_before_shrinking(device: str) -> str:
    return _line("e2fsck", "-f", device)


def resize_ext(device: str, kib: int = 0) -> str:
    """0 is the size of the device."""
    arguments = [device]
    if kib:
        arguments.append(f"{kib}K")
    return _line("resize2fs", *arguments)


def grow_xfs(directory: str) -> str:
    return _line("xfs_growfs", directory)


def resize_btrfs(directory: str, size: int = 0) -> str:
    """`size` is in bytes; 0 is the size of the device."""
    return _line("btrfs", "filesystem", "resize", str(size or "max"), directory)


def resize_physical_volume(device: str, kib: int = 0) -> str:
    """0 is the size of the device."""
    options = []
    if kib:
        options.append(f"--setphysicalvolumesize={kib}k")
    return _line("pvresize", *options, device)


# Of overlays: blockdev(8), losetup(8), dmsetup(8), udevadm(8), the checkers of filesystems


def load_modules() -> str:
    return _line("modprobe", "-a", "loop", "dm-snapshot")


def create_on_overlays(
    array: str, level: int, layout: str, chunk: int, metadata: str, disks: Sequence[str], *, own_offsets: bool
) -> str:
    """Never for disks: it writes new superblocks. Each disk may end with its data offset (`/dev/dm-3:2048s`)."""
    options = [f"--level={level}", f"--raid-devices={len(disks)}", f"--metadata={metadata}", "--bitmap=none"]
    if layout:
        options.append(f"--layout={layout}")
    if chunk:
        options.append(f"--chunk={chunk >> 10}K")
    if own_offsets:
        options.append("--data-offset=variable")
    return _line("mdadm", "--create", array, "--run", "--assume-clean", "--readonly", *options, *disks)


def hide_rule(rule: str) -> str:
    return _line("ln", "-s", "/dev/null", rule)


def reload_rules() -> str:
    return _line("udevadm", "control", "--reload")


def set_read_only(disk: str) -> str:
    return _line("blockdev", "--setro", disk)


def set_read_write(disk: str) -> str:
    return _line("blockdev", "--setrw", disk)


def attach_file(file: str) -> str:
    return _line("losetup", "--find", "--show", file)


def detach_file(loop: str) -> str:
    return _line("losetup", "--detach", loop)


def make_snapshot(name: str, uuid: str, sectors: int, origin: str, store: str) -> str:
    """Changes of `origin` go to `store`, in chunks of 8 sectors; they are lost at a restart (N)."""
    table = f"0 {sectors} snapshot {origin} {store} N 8"
    return _line("dmsetup", "create", name, "--uuid", uuid, "--noudevsync", "--table", table)


def remove_snapshot(name: str) -> str:
    return _line("dmsetup", "remove", "--retry", name)


def show_content(device: str) -> str:
    return _line("blkid", "-p", "-o", "export", device)


def check_ext(device: str) -> str:
    return _line("e2fsck", "-f", "-n", device)


def check_xfs(device: str) -> str:
    return _line("xfs_repair", "-n", device)


def check_btrfs(device: str) -> str:
    return _line("btrfs", "check", "--readonly", device)


def mount_to_replay(device: str, directory: str) -> str:
    return _line("mount", "-o", "nosuid,nodev,noexec", device, directory)


def mount_without_replay(device: str, directory: str, option: str) -> str:
    """`option` is `noload` for ext filesystems, `norecovery` for XFS."""
    return _line("mount", "-o", f"ro,{option},nosuid,nodev,noexec", device, directory)


def mount_read_only(device: str, directory: str) -> str:
    return _line("mount", "-o", "ro,nosuid,nodev,noexec", device, directory)


COMMANDS: tuple[Callable[..., str], ...] = (
    *(add_disk, add_disks, add_to_container, add_journal, add_bitmap, add_bitmap_with_chunk),
    *(assemble_array, assemble_by_uuid, assemble_dropping_lists, assemble_by_force),
    *(assemble_and_run, assemble_read_only, assemble_all),
    *(assemble_without_lists, check_array, show_detail, show_details),
    *(examine_disk, examine_disks, examine_bad_blocks, examine_version),
    *(fail_disk, make_idle, re_add_disk, re_add_without_list, make_read_only, make_writable),
    *(remove_disk, remove_bitmap, replace_disk, stop_array, wait_for_sync, zero_superblock),
    *(clear_want_replacement, clear_write_error, give_up_journal, resume_writes, show_mismatches),
    *(raise_stripe_cache, raise_sync_speed),
    *(audit_arrays, fix_bbl, fix_bbl_of_arrays, fix_bbl_of_host, plan_fix_bbl),
    *(fix_entries, fix_add, fix_rebuild, fix_remove, fix_replace, fix_restart),
    *(fix_assemble, fix_entries_from, fix_metadata, save_sectors, start_overlays, stop_overlays),
    *(resume_fix, disable_lists, create_mirrors_of_partitions, make_directory, list_lvm_raids),
    *(set_stripe, set_timeout, limit_retries, append_rule, enable_timers),
    *(show_signatures, show_smart, show_smart_of_kind, stop_swap, stop_unit, unmount),
    *(create_on_overlays, load_modules, hide_rule, reload_rules),
    *(set_read_only, set_read_write, attach_file, detach_file),
    *(make_snapshot, remove_snapshot, show_content, check_ext, check_xfs, check_btrfs),
    *(mount_to_replay, mount_without_replay, mount_read_only),
    *(change_level, change_level_adding, continue_reshape, reshape_array, reshape_adding, replace_with_spare),
    *(set_array_size, set_member_size, set_consistency_policy),
    *(check_ext_before_shrinking, resize_ext, grow_xfs, resize_btrfs, resize_physical_volume),
)
"""Every function of this module: what the proof must have executed."""


def _line(*words: str) -> str:
    return _check_printable(shlex.join(words))


def _check_printable(line: str) -> str:
    if printable(line) != line:
        return f"# Not a command, because a name in it has characters that cannot be typed: {printable(line)}"
    return line
