"""docs/reference/formats.md names every field of the profile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blklab.report.view import ProfileView

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
FREE = {"events", "errors", "cpus", "device_names", "ios"}
"""Objects whose keys are data: letters, errnos, CPU and device numbers."""


def fields(value: Any, of: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                if of not in FREE:
                    yield key
                yield from fields(inner, key)
        case list():
            for inner in value[:3]:
                yield from fields(inner, of)


def test_every_field_is_documented(pgbench: ProfileView, scsi: ProfileView) -> None:
    section = DOCUMENT.read_text().split("## profile")[1].split("\n## ")[0]
    output = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section))))
    for view in (pgbench, scsi):
        assert set(fields(view.profile)) - output == set()
