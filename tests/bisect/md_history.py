"""A history of twelve commits on md's sources: one makes RAID-10 slow on unequal disks, others hide it."""

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCES: Final = Path("/usr/src/linux-source-6.1.tar.xz")  # Of Debian's package linux-source-6.1
NAME: Final = "linux-source-6.1"
MD: Final = "drivers/md"

IDLEST: Final = "\tif (slot >= conf->copies) {\n\t\tif (has_nonrot_disk) {"
DISTANCE: Final = "\tif (slot >= conf->copies) {\n\t\tif (0 && has_nonrot_disk) {"
RUN: Final = "static int raid10_run(struct mddev *mddev)\n{\n"


@dataclass(frozen=True)
class SourceChange:
    """A commit: the first occurrence of a text in a file becomes another."""

    subject: str
    file: str
    old: str
    new: str


CULPRIT: Final = SourceChange("md/raid10: choose the nearest copy", "raid10.c", IDLEST, DISTANCE)
PANIC: Final = SourceChange("md/raid10: be strict", "raid10.c", RUN, f'{RUN}\tpanic("md/raid10: too strict");\n')
NO_PANIC: Final = SourceChange(
    "md/raid10: be less strict", "raid10.c", f'{RUN}\tpanic("md/raid10: too strict");\n', RUN
)
BROKEN: Final = SourceChange("md/raid10: forget a semicolon", "raid10.c", "do_balance = 1;", "do_balance = 1")
REPAIRED: Final = SourceChange("md/raid10: add the semicolon", "raid10.c", "do_balance = 1", "do_balance = 1;")

HARMLESS: Final = (
    SourceChange("md/raid1: word a comment", "raid1.c", "/*\n", "/* \n"),
    SourceChange(
        "md/raid10: compare pending I/Os the other way around",
        "raid10.c",
        "if (min_pending > pending && nonrot) {",
        "if (nonrot && pending < min_pending) {",
    ),
    SourceChange("md/raid5: word a comment", "raid5.c", "/*\n", "/* \n"),
    SourceChange("md/raid10: print the number of copies", "raid10.c", "\tint disk, slot;", "\tint slot, disk;"),
    SourceChange("md/raid0: word a comment", "raid0.c", "/*\n", "/* \n"),
    SourceChange("md: word a comment", "md.c", "/*\n", "/* \n"),
    SourceChange("md/raid10: word a comment", "raid10.c", "/*\n", "/* \n"),
)

TWELVE: Final = (*HARMLESS[:5], PANIC, NO_PANIC, CULPRIT, BROKEN, REPAIRED, *HARMLESS[5:])
"""One does not build, one panics; of the two that change `read_balance`, one has no effect."""

FOUR: Final = (HARMLESS[1], CULPRIT, BROKEN, REPAIRED)


def git(repository: Path, *words: str) -> str:
    """Runs git with an author."""
    identity = ("-c", "user.name=Md Developer", "-c", "user.email=md@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def md_repository(directory: Path, changes: tuple[SourceChange, ...]) -> Path:
    """Makes a repository with md's sources of Linux 6.1 and a commit for each change, tagged c0, c1, …"""
    directory.mkdir()
    with tarfile.open(SOURCES) as sources:
        below = (member for member in sources if member.name.startswith(f"{NAME}/{MD}/"))
        sources.extractall(directory, members=below, filter="data")
    (directory / NAME / "drivers").rename(directory / "drivers")
    (directory / NAME).rmdir()
    git(directory, "init", "--quiet")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", "md: sources of Linux 6.1")
    git(directory, "tag", "c0")
    for number, change in enumerate(changes, start=1):
        file = directory / MD / change.file
        text = file.read_text()
        assert change.old in text, change
        file.write_text(text.replace(change.old, change.new, 1))
        git(directory, "commit", "--quiet", "--all", "--message", change.subject)
        git(directory, "tag", f"c{number}")
    return directory
