"""Reads the files of an experiment, TOML and text, and names the place of errors."""

import re
import tomllib
from pathlib import Path
from typing import Any

from blklab.errors import UsageError
from blklab.text.user_file import read_plain_file

MOST_PARTS = 1_000  # Of a dotted key: the time of reading one grows with the square of their number
MOST_KEYS = 20_000  # Of all tables together: the largest experiments have hundreds
LARGEST = 16 << 20  # Bytes; people type experiment files, so they are small


def read_text(path: Path) -> str:
    """Returns a small text file. Raises UsageError."""
    content = read_plain_file(path, LARGEST)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8 text") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Returns a TOML file's content. Raises UsageError with line and column."""
    text = read_text(path)
    _refuse_long_keys(path, text)
    try:
        content = tomllib.loads(text)
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
    _refuse_unusual_values(path, content)
    return content


def _refuse_unusual_values(path: Path, content: dict[str, Any]) -> None:
    """Raises UsageError for very many keys, and for a number that TOML does not have and Python cannot print."""
    values: list[object] = [content]
    key_count = 0
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
            key_count += len(value)
        elif isinstance(value, list):
            values += value
        elif isinstance(value, int) and value.bit_length() > 64:
            raise UsageError(f"{path}: a number has too many digits: expected at most 19")
    if key_count > MOST_KEYS:
        raise UsageError(f"{path}: found {key_count:,} keys, expected at most {MOST_KEYS:,}")


_PART = r"""(?:(?<![A-Za-z0-9_-])[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:{_PART}[ \t]*\.[ \t]*){{{MOST_PARTS}}}")


def _refuse_long_keys(path: Path, text: str) -> None:
    """Raises UsageError for a key with very many parts, of a table or inside of one."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") >= MOST_PARTS and _LONG_KEY.search(line):
            raise UsageError(f"{path}: line {number}: a key has more than {MOST_PARTS:,} parts")
