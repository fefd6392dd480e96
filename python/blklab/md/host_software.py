"""Reads the host's kernel and mdadm versions, and mdadm's settings."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from blklab import child_process
from blklab.dmsetup import PATH
from blklab.errors import EnvironmentLacks
from blklab.md.model import Software
from blklab.system.roots import Roots, entries, text

CHECKERS = (  # Files of cron, the word to look for in them, and the name of the check
    ("etc/cron.d/mdadm", "checkarray", "checkarray of /etc/cron.d/mdadm"),
    ("etc/cron.d/raid-check", "raid-check", "raid-check of /etc/cron.d"),
)

TIMERS = ("mdcheck_start.timer", "raid-check.timer")  # Timers of systemd (mdadm's own, and Fedora's)


def read_software(roots: Roots, mdadm: str | None = None) -> Software:
    """Returns versions and settings. `mdadm` is the output of `mdadm --version` on another host; None: runs it here."""
    files = list(read_mdadm_conf(roots))
    words = [line for _, content in files for line in split_lines(content or "")]
    unread = any(content is None for _, content in files)
    return Software(
        kernel=parse_version(text(roots.proc / "sys/kernel/osrelease") or ""),
        mdadm=_mdadm() if mdadm is None else parse_version(mdadm),
        lists_off=_lists_off(words) or (None if unread else False),
        config=", ".join(roots.shown(path) for path, _ in files),
        checked_by=", ".join(_checkers(roots)),
    )


def parse_version(release: str) -> tuple[int, int] | None:
    """Returns the first two numbers of `6.12.111+deb12-amd64` or `mdadm - v4.2 - …`."""
    match = re.search(r"(?:^|v)(\d{1,4})\.(\d{1,4})", release)
    return (int(match[1]), int(match[2])) if match else None


def _mdadm() -> tuple[int, int] | None:
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        return None
    try:
        out, err = child_process.version(program, "check whether it runs", timeout=10)
    except EnvironmentLacks:
        return None
    return parse_version(err + out)


def _root(roots: Roots) -> Path:
    return roots.dev.parent


def read_mdadm_conf(roots: Roots) -> Iterator[tuple[Path, str | None]]:
    """Yields mdadm's configuration files (mdadm.conf(5)); content is None for unreadable files."""
    root = _root(roots)
    for name in ("etc/mdadm/mdadm.conf", "etc/mdadm.conf"):
        if os.path.lexists(root / name):
            yield root / name, text(root / name)
            break
    for directory in ("etc/mdadm/mdadm.conf.d", "etc/mdadm.conf.d"):
        for path in entries(root / directory):
            if path.suffix == ".conf":
                yield path, text(path)


def split_lines(content: str) -> Iterator[list[str]]:
    """Yields lines of mdadm.conf as words; a line that begins with a blank continues the last."""
    words: list[str] = []
    for line in content.splitlines():
        plain = line.partition("#")[0]
        if not line[:1].isspace() and words:
            yield words
            words = []
        words.extend(plain.split())
    if words:
        yield words


def _lists_off(lines: list[list[str]]) -> bool:
    # Keywords may be shortened to three letters or more, and case does not matter.
    created = [line[1:] for line in lines if len(line[0]) >= 3 and "create".startswith(line[0].lower())]
    return any(word.lower() == "bbl=no" for words in created for word in words)


def _checkers(roots: Roots) -> Iterator[str]:
    root = _root(roots)
    for name, word, check_name in CHECKERS:
        content = text(root / name) or ""
        active = [line for line in content.splitlines() if not line.lstrip().startswith("#")]
        if any(word in line for line in active):
            autocheck = re.search(r"^\s*AUTOCHECK=(\S+)", text(root / "etc/default/mdadm") or "", re.M)
            if word == "checkarray" and autocheck and autocheck[1].strip("\"'") != "true":
                continue
            yield check_name
    for wants in entries(root / "etc/systemd/system"):
        if wants.name.endswith(".wants"):
            for timer in TIMERS:
                # A link to the unit may be dangling in the image of a host.
                if (wants / timer).is_symlink() or (wants / timer).exists():
                    yield timer
