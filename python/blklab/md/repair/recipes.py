"""What to do where the running array cannot be helped: printed for people, run by nobody here."""

import shlex
from collections.abc import Iterator

from blklab.md.audit.bad_blocks import written_anew
from blklab.md.audit.rule import command
from blklab.md.model import Array, ArrayMember
from blklab.md.sector_mapping import array_ranges

OFFLINE = """\
# Take the lists away while the array is stopped: from a rescue system, or an initramfs's shell.
# Debian, Ubuntu: add break=premount to the kernel's command line; dracut: rd.break=pre-mount.
# Lists must be empty: one with entries stays, though mdadm ends with status 0.
{stop}
{assemble}
# Believe this only, of each member: "No bad-blocks list configured on".
{examine}"""

INSTALLER = """\
# Before an installer makes its arrays, in a shell (Debian: Ctrl-Alt-F2; Anaconda: Ctrl-Alt-F2):
mkdir -p /etc/mdadm
echo 'CREATE bbl=no' >> /etc/mdadm/mdadm.conf     # Debian, Ubuntu
echo 'CREATE bbl=no' >> /etc/mdadm.conf           # Red Hat, SUSE, Arch
# Preseeding: d-i partman/early_command string mkdir -p /etc/mdadm; \
echo 'CREATE bbl=no' > /etc/mdadm/mdadm.conf
# Kickstart: the echo in %pre. Then, and of every array that is made by hand:
mdadm --examine-badblocks /dev/sdX1     # "No bad-blocks list configured on"
# The installed system needs the line as well: every --add makes a superblock, and with it a list.
# No line, and too late: blklab md fix bbl /dev/md0"""


def offline(array: Array | None) -> str:
    """Returns how lists go while an array is stopped; of any array, if none is named."""
    path = array.path if array else "/dev/md0"
    members = [member.path for member in array.members] if array else ["/dev/sdX1", "/dev/sdY1"]
    return OFFLINE.format(
        stop=command("mdadm", "--stop", path),
        assemble=command("mdadm", "--assemble", path, "--update=no-bbl", *members),
        examine="\n".join(command("mdadm", "--examine-badblocks", one) for one in members),
    )


def entries(array: Array, member: ArrayMember, *, adding_fails: bool) -> str:
    """Returns what can be done about a list with entries, and what must not."""
    node = f"/sys/block/{array.name}/md/dev-{member.name}"
    lines = [
        f"# {member.path} has bad blocks; what is there is on the others alone; nothing is forced:",
        "# --update=force-no-bbl presents stale data as good, and repair of a RAID-1 corrupts.",
        "# 1. Is the disk well? If it is not, replace it.",
        command("smartctl", "--all", member.path),
        "# 2a. If it is, write those ranges anew, out of the others, while nothing else writes to",
        "#     the array (unmount what is on it).",
        f"echo -write_error > {shlex.quote(node + '/state')}",
        *_rewritten(array, member),
        command("mdadm", "--examine-badblocks", member.path) + "   # the entries are gone",
        command("mdadm", "--action=check", array.path) + "   # and mismatch_cnt is 0",
        "# 2b. Or have the whole member written anew, as if it were another disk.",
    ]
    if adding_fails:
        lines.append("#     Not here: with this kernel --add fails until mdadm is 4.5 or newer.")
    else:
        lines += written_anew(array, member)
    return "\n".join([*lines, f"# 3. Then: {command('blklab', 'md', 'fix', 'bbl', array.path)}"])


def _rewritten(array: Array, member: ArrayMember) -> Iterator[str]:
    """Commands that read ranges of the array and write the same back, in whole pages."""
    for range_ in member.ranges:
        mapped = array_ranges(array, member, range_)
        if not mapped:
            yield f"#     {range_} of the member is parity, or no data: for that take 2b."
        for at in mapped or ():
            first, last = at.sector // 8, -(-at.end // 8)
            yield command(
                "dd", f"if={array.path}", f"of={array.path}", "bs=4096", f"skip={first}",
                f"seek={first}", f"count={last - first}", "iflag=direct", "oflag=direct",
                "conv=notrunc",
            )  # fmt: skip
