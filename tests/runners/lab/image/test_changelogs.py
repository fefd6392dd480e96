"""What the changelogs of Debian's kernels say about a commit."""

import pytest

from blklab.runners.lab.image.changelogs import look_for, normalize_subject, read_sections

# The form of the packages of Debian 12: linux-image-6.12.117+deb12-cloud-amd64.
CHANGELOG = """\
linux-signed-6.12-amd64 (6.12.117+1~deb12u1) bookworm-security; urgency=high

  * Sign kernel from linux-6.12 6.12.117-1~deb12u1

  * Rebuild for bookworm

 -- A Person <a@debian.org>  Sat, 14 Nov 2026 13:56:01 +0100

linux (6.12.117-1) trixie-security; urgency=high

  * New upstream stable update:
    https://www.kernel.org/pub/linux/kernel/v6.x/ChangeLog-6.12.117
    - md/raid10: wait barrier before returning (CVE-2026-1)

  [ A Person ]
  * md/raid5: a patch of Debian (Closes: #1154101)

 -- A Person <a@debian.org>  Fri, 13 Nov 2026 13:56:01 +0100

linux-6.12 (6.12.48-1~deb12u1) bookworm-security; urgency=high

  * Rebuild for bookworm

linux (6.12.48-1) trixie; urgency=medium

  * New upstream stable update:
    - md/raid1: fix data lost for writemostly rdev

linux (6.12.43-1) trixie; urgency=medium

  * New upstream stable update:
    - [x86] something else
"""


def words(subject: str, version: str) -> str:
    return look_for(normalize_subject(subject), version, read_sections(CHANGELOG)).words


def test_versions_are_those_of_the_unsigned_packages() -> None:
    assert [section.version for section in read_sections(CHANGELOG)] == [
        "6.12.117-1~deb12u1",
        "6.12.117-1",
        "6.12.48-1~deb12u1",
        "6.12.48-1",
        "6.12.43-1",
    ]


@pytest.mark.parametrize(
    ("subject", "version", "expected"),
    [
        ("md/raid1: fix data lost for writemostly rdev", "6.12.117-1~deb12u1", "yes, since 6.12.48-1"),
        ("md/raid1: Fix data  lost for writemostly rdev", "6.12.48-1~deb12u1", "yes, since 6.12.48-1"),
        ("md/raid1: fix data lost for writemostly rdev", "6.12.43-1", "no"),
        ("md/raid10: wait barrier before returning", "6.12.117-1~deb12u1", "yes, since 6.12.117-1"),
        ("md/raid10: wait barrier before returning", "6.12.48-1~deb12u1", "no"),
        ("md/raid5: a patch of Debian", "6.12.117-1", "yes, since 6.12.117-1"),
        ("md/raid1: fix data lost", "6.12.117-1", "not named in its changelog"),
        ("md/raid1: fix data lost for writemostly rdev", "6.12.200-1", "not named in its changelog"),
    ],
)
def test_a_version_has_what_its_section_or_an_older_one_names(subject: str, version: str, expected: str) -> None:
    assert words(subject, version) == expected


def test_a_text_without_sections_says_nothing() -> None:
    assert read_sections("a file\n") == []
