"""Reads the files of an experiment, TOML and text, and names the place of errors."""

import tomllib
from pathlib import Path
from typing import Any

from blklab.errors import UsageError

MOST_PARTS = 1_000  # Of a dotted key: the time of reading one grows with the square of their number
LARGEST = 16 << 20  # Bytes; people type experiment files, so they are small


def read_text(path: Path) -> str:
    """Returns a small text file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path}: cannot be read: {reason}") from error
    if len(content) > LARGEST:
        raise UsageError(f"{path}: larger than 16 MiB, the limit of such a file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8 text") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Returns a TOML file's content. Raises UsageError with line and column."""
    text = read_text(path)
    _refuse_long_keys(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # "Expected '=' after a key in a key/value pair (at line 3, column 7)"
        reason, _, position = str(error).rpartition(" (at ")
        position = position.removesuffix(")")
        if position == "end of document":
            position = f"line {max(1, text.count(chr(10)))}, at the end"
        raise UsageError(f"{path}: {position}: {reason[:1].lower()}{reason[1:]}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: tables are nested too deeply") from error
    except ValueError as error:  # Python reads no integer of more than 4,300 digits
        raise UsageError(f"{path}: a number has too many digits: expected at most 19") from error


def _refuse_long_keys(path: Path, text: str) -> None:
    """Raises UsageError for a key with very many parts."""
    for number, line in enumerate(text.splitlines(), 1):
        key, _, _ = line.partition("=")
        if key.count(".") > MOST_PARTS:
            raise UsageError(f"{path}: line {number}: a key has more than {MOST_PARTS:,} parts")
