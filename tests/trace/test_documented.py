"""docs/reference names every field of the profile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blklab.trace.view import ProfileView

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
DOCUMENT = REFERENCE / "formats.md"
FREE = {"events", "errors", "cpus", "device_names", "ios", "models"}
"""Objects whose keys are data: letters, errnos, CPU and device numbers, digests of models."""


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


def documented_fields(document: str, *sections: str) -> set[str]:
    """Return the words in code of a document of documents.md, and of sections of formats.md."""
    pages = [((REFERENCE / "documents.md").read_text(), f"Document: {document}")]
    pages += [(DOCUMENT.read_text(), section) for section in sections]
    text = "".join(page.split(f"\n## {title}\n")[1].split("\n## ")[0] for page, title in pages)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))


def test_every_field_is_documented(pgbench: ProfileView, scsi: ProfileView) -> None:
    for view in (pgbench, scsi):
        assert set(fields(view.profile)) - documented_fields("profile") == set()
