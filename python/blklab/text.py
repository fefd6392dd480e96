"""Makes text from traces, disks and kernels, which may be hostile, safe to print."""

import pkgutil
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def document_path(name: str = "") -> str:
    """Returns the path of a document of this installation, such as `howto/predict.md`; by default their directory."""
    return str((Path(__file__).with_name("docs") / name).resolve())  # In a checkout, a link to docs/


def toml_file(package: str, name: str) -> Any:
    """Returns the content of a TOML file in a package."""
    return tomllib.loads((pkgutil.get_data(package, name) or b"").decode())


def printable(text: str) -> str:
    """Returns `text` with every control, formatting and unassigned character escaped.

    A process may have any name: an escape sequence in it must not reach a terminal, and a
    right-to-left override must not reorder a table. Backslashes stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escape(character) if unicodedata.category(character) in _UNSAFE else character for character in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def differing(names: Sequence[str]) -> list[str]:
    """Returns the part of each name by which it differs from the others, in the same order."""
    if len(names) < 2:
        return list(names)
    if len({re.sub(r":\d{1,9}$", "", name) for name in names}) == 1 and len(set(names)) > 1:
        return [f"line {name.rpartition(':')[2]}" for name in names]
    words = [re.findall(r"[^\W_]+|#", name) for name in names]
    start = common_start(words)
    end = common_start([each[start:][::-1] for each in words])
    short = ["-".join(each[start : len(each) - end]) for each in words]
    return short if all(short) and len(set(short)) == len(short) else list(names)


def common_start(words: Sequence[Sequence[str]]) -> int:
    """Returns how many first words all names share."""
    columns = enumerate(zip(*words, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, words)))


def natural_order(name: str) -> list[tuple[int, str]]:
    """Returns what sorts names as the kernel counts them: md2 before md10, sdz before sdaa."""
    return [(len(part), part) for part in re.findall(r"\d+|\D+", name)]


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Returns the values of each key, in their order: parts of a text or a table under one heading."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def similar(word: str, known: Iterable[str]) -> str:
    """Returns the end of a message that already lists what is known: `; did you mean 'sda'?`, or nothing."""
    import difflib  # Slow to load, and needed for errors only

    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {printable(found[0])!r}?" if found else ""


def label_patterns(text: str) -> dict[str, str]:
    """Returns the patterns of labels, of `stack=raid1,workload=rand*`. Raises ValueError."""
    wanted = {}
    for term in text.split(","):
        label, equals, pattern = (part.strip() for part in term.partition("="))
        if not equals or not label:
            raise ValueError(f"{term!r}: expected LABEL=PATTERN, such as stack=raid1")
        wanted[label] = pattern
    return wanted
