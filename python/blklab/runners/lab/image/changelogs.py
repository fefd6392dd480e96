"""Which of Debian's kernels have a change: the changelog of the newest package of each series says it.

Debian's kernels follow the stable kernels. The changelog of a package has a section for each earlier version, with the
subjects of the commits that this version took: `    - md/raid1: fix data lost for writemostly rdev`.
"""

import re
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from blklab.errors import BlklabError
from blklab.grouping import by_key
from blklab.md.kernel_changelog import strip_additions
from blklab.runners.lab.image.debian import DebianArchive, Note, PackageFiles, fetch
from blklab.runners.lab.image.kernels import OfferedKernel
from blklab.text.printing import printable

MOST_BYTES = 64 << 20  # Of a changelog; those of Debian have about 5 MiB

_HEADING = re.compile(r"^linux[\w.+-]* \(([^()\s]+)\) .*;", re.M)
_SIGNED = re.compile(r"^ +\* Sign kernel from linux[\w.+-]* (\S+)$", re.M)
"""The newest section of a signed package: it is the version of the unsigned one."""


@dataclass(frozen=True)
class ChangelogSection:
    """The changes of one version of a package."""

    version: str
    subjects: frozenset[str]  # In lower case, without what Debian adds, such as `(CVE-2025-22125)`


@dataclass(frozen=True)
class KernelNamesChange:
    """What the changelog of a kernel's series says about a change."""

    answer: bool | None  # None if no version of the series names it
    since: str = ""  # The first version with the change

    @property
    def words(self) -> str:
        """The answer in words."""
        if self.answer is None:
            return "not named in its changelog"
        return f"yes, since {self.since}" if self.answer else "no"


def find_subject_in_kernels(
    debian: DebianArchive, subject: str, kernels: Sequence[OfferedKernel], note: Note
) -> list[KernelNamesChange]:
    """Returns for each kernel whether it has the commit with this subject. `kernels` begin with the newest.

    Downloads the newest package of each series. A series that had the commit from its beginning does not name it.
    Raises BlklabError if a package has no changelog, EnvironmentLacks if it cannot be downloaded.
    """
    wanted = normalize_subject(subject)
    answers: dict[str, KernelNamesChange] = {}
    for series, kernels_of_series in by_key((_series(kernel.name), kernel) for kernel in kernels).items():
        note(f"reading the changelog of Linux {series}")
        sections = read_sections(_read_changelog(debian, kernels_of_series[0]))
        for kernel in kernels_of_series:
            answers[kernel.name] = look_for(wanted, kernel.version, sections)
    return [answers[kernel.name] for kernel in kernels]


def _series(name: str) -> str:
    return ".".join(name.split(".")[:2])


def normalize_subject(subject: str) -> str:
    """Returns a subject as sections have it."""
    return strip_additions(" ".join(subject.split())).lower()


def read_sections(text: str) -> list[ChangelogSection]:
    """Returns the sections of a changelog, the newest first."""
    headings = list(_HEADING.finditer(text))
    sections = []
    for heading, next_heading in zip_longest(headings, headings[1:]):
        body = text[heading.end() : next_heading.start() if next_heading else None]
        signed = _SIGNED.search(body)
        lines = [line.strip().lstrip("*-").strip() for line in body.splitlines()]
        subjects = frozenset(normalize_subject(line) for line in lines if line)
        sections.append(ChangelogSection(signed[1] if signed else heading[1], subjects))
    return sections


def look_for(wanted: str, version: str, sections: Sequence[ChangelogSection]) -> KernelNamesChange:
    """Returns whether a version has a change, from the sections of a newer version of the same series."""
    positions = [number for number, section in enumerate(sections) if wanted in section.subjects]
    versions = [section.version for section in sections]
    if not positions or version not in versions:
        return KernelNamesChange(None)
    first = positions[-1]  # The oldest: sections begin with the newest
    if versions.index(version) > first:
        return KernelNamesChange(answer=False)
    return KernelNamesChange(answer=True, since=versions[first])


def _read_changelog(debian: DebianArchive, kernel: OfferedKernel) -> str:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _, paths = fetch(debian, lambda: debian.kernel(kernel.name), scratch)
        files = PackageFiles()
        for path in paths:
            files.add(path, scratch)
        for path_in_package in files.below("usr/share/doc"):
            if path_in_package.endswith(("/changelog.gz", "/changelog.Debian.gz")):
                return _unpack(files.read(path_in_package), kernel)
    raise BlklabError(f"the package of {printable(kernel.name)} has no changelog: give --tree")


def _unpack(content: bytes, kernel: OfferedKernel) -> str:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(content, MOST_BYTES)
    except zlib.error as error:
        raise BlklabError(f"the changelog of {printable(kernel.name)} is damaged: {error}") from None
    return text.decode(errors="replace")
