"""Access to a JSON document from any source: each defect is an error of one line."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from blklab.errors import BlklabError
from blklab.text.printing import printable

FioDocument = dict[str, Any]  # fio's JSON, or a part of it, before it is checked
LARGEST = 1 << 64  # fio's counters have 64 bits


@dataclass(frozen=True)
class JsonNode:
    """A table of the document and its path. All methods raise BlklabError."""

    table: FioDocument
    location: str

    def has(self, key: str) -> bool:
        """Returns whether a field is there, and not null."""
        return self.table.get(key) is not None

    def number(self, key: str, default: float | None = None) -> float:
        """Returns a number of 0 or more; without a default, it must exist."""
        value = self.table.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, value, "a number")
        if not 0 <= value < LARGEST:  # NaN is neither
            raise self.wrong(key, value, "a number from 0 to 2^64")
        return float(value)

    def count(self, key: str, default: int | None = None) -> int:
        """Returns a whole number of 0 or more."""
        number = float(self.number(key, default))
        value = self.table.get(key)
        if isinstance(value, int):  # a float is too small for some of them
            return value
        if not number.is_integer():
            raise self.wrong(key, value, "a whole number")
        return int(number)

    def text(self, key: str, default: str) -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, value, "text")
        return printable(value)

    def part(self, key: str) -> "JsonNode | None":
        """Returns a nested table, or None if it does not exist."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, value, "an object")
        return JsonNode(value, f"{self.location}.{key}")

    def parts(self, key: str) -> "Iterator[JsonNode]":
        """Yields the tables of a list; none if it does not exist."""
        value = self.table.get(key)
        if value is not None and not isinstance(value, list):
            raise self.wrong(key, value, "a list")
        for number, entry in enumerate(value or []):
            location = f"{self.location}.{key}[{number}]".lstrip(".")
            if not isinstance(entry, dict):
                raise BlklabError(f"{location}: found {_short(entry)}, expected an object")
            yield JsonNode(entry, location)

    def words(self, key: str) -> dict[str, str]:
        """Returns a table of texts, such as options; other values are converted to text."""
        part = self.part(key)
        table = part.table if part is not None else {}
        return {
            printable(name): printable(value if isinstance(value, str) else str(value)[:1000])
            for name, value in table.items()
        }

    def numbers(self) -> list[tuple[float, float]]:
        """Returns a table with numeric keys, such as percentiles, in their order."""
        numbers = []
        for key in self.table:
            try:
                name = float(key)
            except ValueError:
                name = math.nan
            if not 0 <= name < LARGEST:
                raise BlklabError(f"{self.location}: found key {_short(key)}, expected a number")
            numbers.append((name, self.number(key)))
        return sorted(numbers)

    def wrong(self, key: str, value: object, expected: str) -> BlklabError:
        """Returns the error for a field of the wrong type."""
        value_text = "nothing" if value is None else _short(value)
        return BlklabError(f"{self.location}.{key}: found {value_text}, expected {expected}")


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)[:80]
    return printable(text)
