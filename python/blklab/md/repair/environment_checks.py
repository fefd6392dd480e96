"""Finds conditions outside of an array that prevent its repair: swap, other arrays, mdadm."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from blklab.md import command_lines
from blklab.md.probing import is_spare_monitor, read_mdadm_conf, sees_all_processes, split_lines
from blklab.system.layers import beneath, filesystem_devices, swap_areas
from blklab.system.process import start_of
from blklab.system.roots import Roots, entries, read_text


def find_swap(node: Path, roots: Roots) -> str:
    """Returns the path of swap on an array or on a volume of it, or an empty string.

    `node` is the array's directory in sysfs, here and below.
    """
    number = read_text(node / "dev") or ""
    for path, swap_number in swap_areas(roots):
        try:
            numbers = {swap_number} if swap_number else filesystem_devices(path.parent, roots)[0]
        except OSError:
            numbers = set()
        if any(number in beneath(device_number, roots) for device_number in numbers):
            return str(path)
    return ""


def find_busy_neighbour(node: Path, roots: Roots) -> str:
    """Returns another array on the same disks that md syncs or checks, with the action.

    md does not rebuild a member of this array before that ends (drivers/md/md.c, `match_mddev_units`).
    """
    disks = set(_disks(node))
    for entry in entries(roots.sys / "block"):
        other = entry.resolve()
        action = read_text(other / "md/sync_action")
        if other != node and action not in {"idle", "frozen", None} and disks & set(_disks(other)):
            return f"{other.name}: {action}"
    return ""


def _disks(node: Path) -> Iterator[Path]:
    for member in entries(node / "md"):
        if member.name.startswith("dev-") and (member / "block").exists():
            block = (member / "block").resolve()
            yield block.parent if (block / "partition").exists() else block


def find_spare_monitor(node: Path, roots: Roots) -> tuple[str, str]:
    """Returns why mdadm --monitor may move another array's spare into this one, and the command that stops it.

    Both are empty if it cannot.

    It moves spares between arrays with a common spare-group or domain; the `action` of a POLICY does not matter
    (mdadm: mdmonitor.c, `try_spare_migration`). What blklab cannot know counts as permitted.
    """
    donor = next((entry.name for entry in entries(roots.sys / "block") if _has_spare(entry.resolve(), node)), "")
    if not donor:
        return "", ""
    for process in entries(roots.proc):
        if reason := _sharing_reason(process, roots):
            service = re.search(r"([^/]+\.service)$", read_text(process / "cgroup") or "")
            moving = f"mdadm --monitor (process {process.name}) may move the spare of {donor} into it: {reason}"
            if service:
                return moving, command_lines.stop_unit(service[1])
            # No `kill`: the number may be that of another process when it is typed.
            return f"{moving}; stop it during the repair", ""
    if not sees_all_processes(roots) and (roots.proc / "self/ns/pid").is_symlink():
        return (
            f"mdadm --monitor may run outside of this container and move the spare of {donor} into it: "
            "run blklab on the host, or in a container with the host's processes (--pid=host)"
        ), ""
    return "", ""


def _has_spare(other: Path, node: Path) -> bool:
    return other != node and any(
        "spare" in (read_text(member / "state") or "").split(",") and read_text(member / "slot") == "none"
        for member in entries(other / "md")
        if member.name.startswith("dev-")
    )


def _sharing_reason(process: Path, roots: Roots) -> str:
    """Returns why a process may move spares; empty if it cannot."""
    arguments = (read_text(process / "cmdline") or "").split("\0")
    if not is_spare_monitor(process):
        return ""
    if any(re.match(r"-[A-Za-z0-9]*c|--c", argument) for argument in arguments[1:]):
        return "it has another configuration file"
    ticks = start_of(int(process.name), roots)
    boot = re.search(r"^btime (\d+)", read_text(roots.proc / "stat") or "", re.M)
    for path, content in read_mdadm_conf(roots):
        if content is None:
            return f"{roots.format_path(path)} cannot be read"
        if ticks is None or not boot or path.stat().st_mtime > int(boot[1]) + ticks / os.sysconf("SC_CLK_TCK"):
            return f"it may have read an older {roots.format_path(path)}, which has changed since it started"
        if setting := _find_setting(content, ("array", "policy", "part-policy"), r"(spare-group|domain)=.*"):
            return f"{roots.format_path(path)} has {setting}"
    return ""


def find_re_add_policy(roots: Roots) -> tuple[str, Path] | None:
    """Returns a POLICY and its file, by which udev (mdadm --incremental) re-adds members that are out.

    All actions except `include` permit this (mdadm: policy.c, `policy_action_allows`).
    """
    for path, content in read_mdadm_conf(roots):
        if setting := _find_setting(content or "", ("policy", "part-policy"), "action=(re-add|spare.*|force-spare)"):
            return setting, path
    return None


def _find_setting(content: str, keywords: tuple[str, ...], pattern: str) -> str:
    """Returns the first word that matches in lines with one of the keywords (mdadm.conf(5))."""
    for tokens in split_lines(content):
        if len(tokens[0]) >= 3 and any(keyword.startswith(tokens[0].lower()) for keyword in keywords):
            for token in tokens[1:]:
                if re.fullmatch(pattern, token, re.I):
                    return f"{tokens[0].upper()} … {token}"
    return ""
