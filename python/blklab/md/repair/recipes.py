"""Instructions for what blklab does not do itself; they are only printed."""

from blklab.md.audit.bad_blocks import rebuild_commands, rewrite_commands
from blklab.md.audit.rule import quote_command
from blklab.md.model import Array, ArrayMember

OFFLINE = """\
# Remove the lists while the array is stopped, in a rescue system or in the shell of an initramfs.
# Debian, Ubuntu: add break=premount to the kernel command line; dracut: rd.break=pre-mount.
# Lists must be empty: mdadm keeps a list with entries, and still exits with status 0.
{stop}
{assemble}
# Check the result. Each member must print "No bad-blocks list configured on".
{examine}"""

INSTALLER = """\
# Before the installer makes arrays, open a shell (Debian, Anaconda: Ctrl-Alt-F2) and run:
mkdir -p /etc/mdadm
echo 'CREATE bbl=no' >> /etc/mdadm/mdadm.conf     # Debian, Ubuntu
echo 'CREATE bbl=no' >> /etc/mdadm.conf           # Red Hat, SUSE, Arch
# With preseeding: d-i partman/early_command string mkdir -p /etc/mdadm; \
echo 'CREATE bbl=no' > /etc/mdadm/mdadm.conf
# With Kickstart: put the echo into %pre. Then check each member of each array:
mdadm --examine-badblocks /dev/sdX1     # "No bad-blocks list configured on"
# The installed system also needs this line, because mdadm --add makes lists without it.
# If an array already has lists: blklab md fix bbl /dev/md0"""


def offline_recipe(array: Array | None) -> str:
    """Returns how to remove lists from a stopped array; of an example if `array` is None."""
    path = array.path if array else "/dev/md0"
    members = [member.path for member in array.members] if array else ["/dev/sdX1", "/dev/sdY1"]
    return OFFLINE.format(
        stop=quote_command("mdadm", "--stop", path),
        assemble=quote_command("mdadm", "--assemble", path, "--update=no-bbl", *members),
        examine="\n".join(quote_command("mdadm", "--examine-badblocks", path) for path in members),
    )


def entries_recipe(array: Array, member: ArrayMember, *, adding_fails: bool) -> str:
    """Returns what to do about a list with entries, and what not to do."""
    lines = [
        f"# {member.path} has bad blocks: only the other members hold current data there.",
        "# Do NOT use --update=force-no-bbl: it presents stale data as good.",
        "# Do NOT run `repair` on a RAID-1 with bad blocks: it corrupts data.",
        "# 1. Check the disk. If it fails, replace it, and stop here.",
        quote_command("smartctl", "--all", member.path),
        "# 2a. If the disk is healthy, rewrite the bad ranges from the other members. Nothing else",
        "#     may write to the array meanwhile: unmount its filesystems.",
        *rewrite_commands(array, member),
        quote_command("mdadm", "--examine-badblocks", member.path) + "   # must show no entries",
        quote_command("mdadm", "--action=check", array.path) + "   # then mismatch_cnt must be 0",
        "# 2b. Or rebuild the whole member, as if it were a new disk.",
    ]
    if adding_fails:
        lines.append("#     Not possible now: with this kernel, --add needs mdadm 4.5 or newer.")
    else:
        lines += rebuild_commands(array, member)
    return "\n".join([*lines, f"# 3. Then: {quote_command('blklab', 'md', 'fix', 'bbl', array.path)}"])
