"""Reads what the changelog of the running kernel's package says about md.

Distributions port fixes back, so the release of a kernel does not say whether it has a fix. Debian and Ubuntu install
the changelog of a kernel's package as a file; with RPM, the database of packages has it. Both name commits by their
subject: `- md/raid1: fix data lost for writemostly rdev`.
"""

import gzip
import re
import shutil
import subprocess
import zlib
from functools import lru_cache
from pathlib import Path

from blklab.system import child_process
from blklab.system.dmsetup import PATH
from blklab.system.roots import Roots, read_text

MOST_BYTES = 64 << 20  # Of a changelog; those of Debian have about 2 MiB
RPM_TIMEOUT_S = 20

SUBJECT = re.compile(r"^ *[-*]? *(?:\[[^\]\n]*\] *)*(md(?:/[\w,-]+)?: \S.*?) *$", re.M)
"""A line of a changelog about a commit of md: `    - md/raid1: free r1_bio`, or `- [md] md: fix` with RPM."""

ADDITION = re.compile(r" *(?:\((?:CVE|Closes|LP|[A-Z][\w.]* [A-Z])[^()]*\)|\[[^\]]*\]|\{[^}]*\})$")
"""What distributions add to a subject: `(CVE-2025-22125)`, `(Nigel Croxon) [2176108]`, `{CVE-2024-1}`."""


@lru_cache(maxsize=4)  # A repair asks before each member, and the exporter again and again
def read_md_changes(roots: Roots, *, runs_programs: bool) -> frozenset[str] | None:
    """Returns the subjects of commits of md in the changelog of the running kernel, in lower case.

    None if there is no changelog, or it names no commit of md.
    `runs_programs` says whether `roots` are those of this machine, so that rpm may run.
    """
    release = read_text(roots.proc / "sys/kernel/osrelease")
    if not release or not re.fullmatch(r"[\w.+~-]{1,200}", release):
        return None
    text = _read_file(roots.dev.parent / "usr/share/doc" / f"linux-image-{release}")
    if text is None and runs_programs:
        text = _ask_rpm(release)
    if text is None:
        return None
    subjects = frozenset(strip_additions(subject).lower() for subject in SUBJECT.findall(text))
    return subjects or None


def strip_additions(subject: str) -> str:
    """Returns a subject without what distributions add at its end."""
    while (shorter := ADDITION.sub("", subject)) != subject:
        subject = shorter
    return subject


def _read_file(directory: Path) -> str | None:
    for name in ("changelog.Debian.gz", "changelog.gz"):
        try:
            with gzip.open(directory / name) as file:
                return file.read(MOST_BYTES).decode(errors="replace")
        except (OSError, EOFError, zlib.error):  # none, or damaged
            continue
    return None


def _ask_rpm(release: str) -> str | None:
    program = shutil.which("rpm", path=PATH)
    if program is None:
        return None
    for package in ("kernel-core", "kernel-default", "kernel"):
        try:
            result = child_process.run([program, "-q", "--changelog", f"{package}-{release}"], timeout=RPM_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if result.returncode == 0 and result.stdout:
            return str(result.stdout)[:MOST_BYTES]
    return None
