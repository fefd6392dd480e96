"""Reads files with pasted text, within limits, and distinguishes them from images of members."""

import sys
from collections.abc import Sequence
from pathlib import Path

from blklab.errors import UsageError
from blklab.md.model import Inventory
from blklab.md.pasted.inventory import MOST_BYTES, read_texts
from blklab.text.user_file import open_user_file

HEAD_BYTES = 4096
STDIN = "-"


def is_text_file(name: str) -> bool:
    """Whether a name is that of a file of text, or stdin: an image of a member has zeros at its start or later."""
    if name == STDIN:
        return True
    path = Path(name)
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return False
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return bool(head) and b"\0" not in head


def read_text_files(names: Sequence[str]) -> Inventory:
    """Returns the arrays of files with pasted text. Raises UsageError for another file, or a text without an array."""
    return read_texts([(name, _read_text(name)) for name in dict.fromkeys(names)])


def _read_text(name: str) -> str:
    if name == STDIN:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with open_user_file(Path(name)) as file:
            content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES or b"\0" in content[:HEAD_BYTES]:
        raise UsageError(f"{name}: is not a text: to audit an image of a member: --image {name}")
    return content.decode(errors="replace")
