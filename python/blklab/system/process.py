"""The identity of processes: a pid can belong to another process later, or after a boot."""

from blklab.system.roots import Roots, read_text


def boot_id(roots: Roots) -> str | None:
    """Returns the id of this boot of the kernel (random(4)); None without /proc."""
    return read_text(roots.proc / "sys/kernel/random/boot_id") or None


def start_of(pid: int, roots: Roots) -> int | None:
    """Returns when a process began, in ticks since boot; None if it has ended or is a zombie.

    The 22nd field of /proc/PID/stat (proc(5)); the second, the program's name, may contain blanks and parentheses.
    """
    fields = (read_text(roots.proc / str(pid) / "stat") or "").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"} or not fields[19].isdigit():
        return None
    return int(fields[19])
