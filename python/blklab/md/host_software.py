"""What of the machine's software decides how its arrays behave: kernel, mdadm, their settings."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from blklab import child_process
from blklab.errors import EnvironmentLacks
from blklab.md.model import Software
from blklab.system.roots import Roots, entries, text

PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
"""Where mdadm is; that is seldom in the PATH of those who are not root."""

CHECKERS: Final = (
    ("etc/cron.d/mdadm", "checkarray", "checkarray of /etc/cron.d/mdadm"),
    ("etc/cron.d/raid-check", "raid-check", "raid-check of /etc/cron.d"),
)
"""Files of cron, the word that must be in them, and what to call that."""

TIMERS: Final = ("mdcheck_start.timer", "raid-check.timer")
"""Timers of systemd (mdadm's own, and Fedora's)."""


def software(roots: Roots, mdadm: str | None = None) -> Software:
    """Returns what is installed and set; starts `mdadm --version`, which does nothing else.

    Not if it is given what that said, on another machine.
    """
    files = list(_config(roots))
    words = [line for _, content in files for line in _lines(content or "")]
    unread = any(content is None for _, content in files)
    return Software(
        kernel=version(text(roots.proc / "sys/kernel/osrelease") or ""),
        mdadm=_mdadm() if mdadm is None else version(mdadm),
        lists_off=_lists_off(words) or (None if unread else False),
        config=", ".join(roots.shown(path) for path, _ in files),
        checked_by=", ".join(_checkers(roots)),
    )


def configured(roots: Roots) -> list[list[str]]:
    """Returns the lines of mdadm's configuration, as words (mdadm.conf(5))."""
    return [line for _, content in _config(roots) for line in _lines(content or "")]


def version(release: str) -> tuple[int, int] | None:
    """Returns the first two numbers of `6.12.111+deb12-amd64` or `mdadm - v4.2 - …`."""
    match = re.search(r"(?:^|v)(\d{1,4})\.(\d{1,4})", release)
    return (int(match[1]), int(match[2])) if match else None


def _mdadm() -> tuple[int, int] | None:
    program = shutil.which("mdadm", path=PATH)
    if program is None:
        return None
    try:
        out, err = child_process.version(program, "see whether it runs", timeout=10)
    except EnvironmentLacks:
        return None
    return version(err + out)


def _root(roots: Roots) -> Path:
    return roots.dev.parent


def _config(roots: Roots) -> Iterator[tuple[Path, str | None]]:
    """The files that mdadm reads (mdadm.conf(5)); without content, those that may not be read."""
    root = _root(roots)
    for name in ("etc/mdadm/mdadm.conf", "etc/mdadm.conf"):
        if os.path.lexists(root / name):
            yield root / name, text(root / name)
            break
    for directory in ("etc/mdadm/mdadm.conf.d", "etc/mdadm.conf.d"):
        for path in entries(root / directory):
            if path.suffix == ".conf":
                yield path, text(path)


def _lines(content: str) -> Iterator[list[str]]:
    """The lines of mdadm.conf as words: those that begin with a blank go on with the one before."""
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
    # Keywords may be cut to three letters or more, and case does not count.
    created = [
        line[1:] for line in lines if len(line[0]) >= 3 and "create".startswith(line[0].lower())
    ]
    return any(word.lower() == "bbl=no" for words in created for word in words)


def _checkers(roots: Roots) -> Iterator[str]:
    root = _root(roots)
    for name, word, called in CHECKERS:
        content = text(root / name) or ""
        used = [line for line in content.splitlines() if not line.lstrip().startswith("#")]
        if any(word in line for line in used):
            autocheck = re.search(
                r"^\s*AUTOCHECK=(\S+)", text(root / "etc/default/mdadm") or "", re.M
            )
            if word == "checkarray" and autocheck and autocheck[1].strip("\"'") != "true":
                continue
            yield called
    for wants in entries(root / "etc/systemd/system"):
        if wants.name.endswith(".wants"):
            for timer in TIMERS:
                # A link to the unit, which may be elsewhere in an image of a machine.
                if (wants / timer).is_symlink() or (wants / timer).exists():
                    yield timer
