"""md arrays, made by mdadm."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from blklab.errors import BlklabError
from blklab.md.levels import LEVELS, PARITIES, REDUNDANT
from blklab.outcome import VolumeReport
from blklab.runners.lab.stacks.guest import GuestLayer, GuestStack

MODULES = {**{level: level for level in LEVELS}, "linear": "md-linear", **dict.fromkeys(PARITIES, "raid456")}
CONFIGURATION = "/etc/mdadm/mdadm.conf"


def configure(guest: GuestStack, *, bad_blocks: bool) -> None:
    """Writes mdadm.conf.

    With bad-block lists, mdadm before 4.5 cannot add a member to an array of Linux 6.12 and later.
    """
    guest.write(CONFIGURATION, "" if bad_blocks else "CREATE bbl=no\n")


def create(guest: GuestStack, md: Mapping[str, Any], members: Sequence[str | None]) -> str:
    """Makes an array of devices (None: missing) and returns its path.

    A resync, or the recovery of rebuilding members, waits for the load's first I/O, also of
    layers above the array. Raises BlklabError with mdadm's message.
    """
    level = md["level"]
    sync = md["sync"]
    guest.load_modules(MODULES[level])
    kernel = f"md{len(guest.members)}"
    path = f"/dev/{kernel}"
    command = ["mdadm", "--create", path, "--run", "--metadata=1.2", "--homehost=any"]
    command += [f"--name={kernel}", f"--level={level.removeprefix('raid')}"]
    command += [f"--raid-devices={len(members)}", *_options(md)]
    if sync == "resync":
        command.append("--readonly")  # or it would begin at once
        if level in {"raid4", "raid5"}:
            command.append("--force")  # else mdadm makes it of a spare, which is recovered
    elif level in REDUNDANT:
        command.append("--assume-clean")
    rebuilding = [slot["rebuilding"] for slot in md["members"]]
    for member, absent in zip(members, rebuilding, strict=True):
        command.append("missing" if member is None or absent else member)
    guest.run(*command)
    guest.add_layer(GuestLayer(md["name"], "md", kernel), *filter(None, members))
    guest.undoing.append(lambda: _stop(guest, path, members))
    guest.members[md["name"]] = members
    guest.mostly |= {
        member
        for slot, member in zip(md["members"], members, strict=True)
        if slot["write_mostly"] and member is not None
    }
    _tune(guest, kernel, md, members)
    if sync != "idle":
        _hold_sync(guest, md, kernel, [name for name, absent in zip(members, rebuilding, strict=True) if absent])
    elif md["bitmap"] and None not in members:
        # mdadm sets all bits of a new bitmap. md clears them within 15 s, if no member is missing.
        clean = f"{kernel} : .*\\n.*\\n.* bitmap: 0/"
        guest.readying.append(
            lambda: guest.until(
                lambda: re.search(clean, guest.read("/proc/mdstat") or "") is not None, f"the bitmap of {path} is clean"
            )
        )
    guest.reports.append(lambda: report(guest, md["name"], kernel, members))
    return path


def _hold_sync(guest: GuestStack, md: Mapping[str, Any], kernel: str, rebuilding: Sequence[str | None]) -> None:
    """Prepares an array so that one write to `sync_action` begins its sync."""
    action = f"/sys/block/{kernel}/md/sync_action"
    sync = md["sync"]
    guest.syncing[md["name"]] = sync
    if sync == "check":
        guest.starting.append(lambda: guest.write(action, "check"))
        return
    guest.write(action, "frozen")
    if sync == "resync":
        guest.run("mdadm", "--readwrite", f"/dev/{kernel}")
    for member in rebuilding:
        if member is not None:
            _add(guest, md["name"], "--add", member)
    # It ends the freeze, and md looks what there is to do (md.c, `action_store`).
    guest.starting.append(lambda: guest.write(action, "idle"))


def _options(md: Mapping[str, Any]) -> list[str]:
    level = md["level"]
    options = []
    if md["chunk"]:
        options.append(f"--chunk={md['chunk'] >> 10}")
    if level == "raid10":
        copies = md["near"] if md["near"] > 1 else md["far"]
        kind = "f"
        if md["far"] == 1:
            kind = "n"
        elif md["offset"]:
            kind = "o"
        options.append(f"--layout={kind}{copies}")
    if level in REDUNDANT:
        if md["bitmap"]:
            options += ["--bitmap=internal", f"--bitmap-chunk={md['bitmap_chunk'] >> 10}"]
        else:
            options.append("--bitmap=none")
    return options


def _tune(guest: GuestStack, kernel: str, md: Mapping[str, Any], members: Sequence[str | None]) -> None:
    base = f"/sys/block/{kernel}/md"
    if md["level"] in PARITIES:
        guest.write(f"{base}/stripe_cache_size", str(md["stripe_cache"]))
        for key in ("group_thread_cnt", "rmw_level"):
            if key in md:
                guest.write(f"{base}/{key}", str(md[key]))
    if md["level"] in REDUNDANT:
        # The smaller first: md refuses a minimum above the maximum.
        guest.write(f"{base}/sync_speed_min", str(min(md["sync_speed_min"], md["sync_speed_max"])))
        guest.write(f"{base}/sync_speed_max", str(md["sync_speed_max"]))
    for slot, member in zip(md["members"], members, strict=True):
        if member in guest.mostly and not slot["rebuilding"]:
            _mostly(guest, kernel, str(member))


def _mostly(guest: GuestStack, kernel: str, member: str) -> None:
    guest.write(f"/sys/block/{kernel}/md/dev-{member.removeprefix('/dev/')}/state", "writemostly")


def fail(guest: GuestStack, name: str, member: str) -> None:
    """Makes a member of an array fail, and removes it. Raises BlklabError."""
    path = guest.find_layer(name).path
    guest.run("mdadm", path, "--fail", member)
    # The member is still busy until what is in flight has come back.
    guest.until(
        lambda: guest.run("mdadm", path, "--remove", member, check=False).status == 0, f"{name}: {member} is removed"
    )


def re_add(guest: GuestStack, name: str, member: str) -> None:
    """Re-adds a member if its event count and the bitmap allow that, otherwise adds it as new."""
    if not _add(guest, name, "--re-add", member, check=False):
        _add(guest, name, "--add", member)


def _add(guest: GuestStack, name: str, how: str, member: str, *, check: bool = True) -> bool:
    layer = guest.find_layer(name)
    if guest.run("mdadm", layer.path, how, member, check=check).status:
        return False
    if member in guest.mostly:
        # Not by `--add --write-mostly`: mdadm 4.2 then writes that the member is faulty.
        _mostly(guest, layer.kernel, member)
    return True


def member(guest: GuestStack, name: str, slot: int) -> str:
    """Returns the path of an array's member, by its original slot. Raises BlklabError."""
    members = guest.members.get(name, ())
    path = members[slot] if slot < len(members) else None
    if path is not None:
        return path
    raise BlklabError(f"array {name} has no member in slot {slot}")


def report(guest: GuestStack, name: str, kernel: str, members: Sequence[str | None]) -> VolumeReport:
    """Returns an array's state, and each member's bad-block list."""
    base = f"/sys/block/{kernel}/md"
    keys = ("array_state", "degraded", "sync_action", "sync_completed", "mismatch_cnt")
    answers = guest.agent.read([f"{base}/{key}" for key in keys])
    values = {key: (answers[f"{base}/{key}"] or "").strip() or None for key in keys}
    member_reports = [_member(guest, base, member) for member in members if member is not None]
    return {"name": name, "kind": "md", **values, "members": member_reports}


def _member(guest: GuestStack, base: str, member: str) -> dict[str, Any]:
    kernel = member.removeprefix("/dev/")
    state = guest.read(f"{base}/dev-{kernel}/state")
    bad_block_lines = guest.run("mdadm", "--examine-badblocks", member, check=False).stdout.splitlines()
    return {
        "name": guest.layer(kernel).name,
        "state": state,
        # mdadm 4.2, super1.c: "No bad-blocks list configured on D", "Bad-blocks list is empty in
        # D", or a line "Bad-blocks on D:" and one for each range.
        "bad_blocks": None
        if not bad_block_lines or bad_block_lines[0].startswith("No ")
        else [line.strip() for line in bad_block_lines[1:]],
    }


def _stop(guest: GuestStack, path: str, members: Sequence[str | None]) -> None:
    guest.until(lambda: guest.run("mdadm", "--stop", path, check=False).status == 0, f"{path} is stopped")
    present = [member for member in members if member is not None]
    guest.run("mdadm", "--zero-superblock", "--force", *present, check=False)
