"""Which shared libraries a program or a library is linked with.

The layout is that of elf(5) and of the System V ABI, AMD64 supplement: 64 bits, little-endian.
"""

import struct
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x7fELF"
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_END, _NEEDED, _STRINGS, _STRINGS_BYTES, _RPATH, _RUNPATH = 0, 1, 5, 10, 15, 29


class NotElf(ValueError):
    """What is read is no ELF file of this architecture, or a damaged one."""


@dataclass(frozen=True)
class Linked:
    """What the dynamic linker is told by a file."""

    interpreter: str | None
    needed: tuple[str, ...]
    directories: tuple[str, ...]
    """Searched before the usual ones; `$ORIGIN` is the directory of the file itself."""


def linked(content: bytes) -> Linked:
    """Returns what an ELF file is linked with: nothing of a static one. Raises NotElf."""
    try:
        return _linked(content)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise NotElf(f"a damaged ELF file: {error}") from None


def _linked(content: bytes) -> Linked:
    if content[:4] != MAGIC or content[4:6] != b"\x02\x01":
        raise NotElf("not an ELF file of 64 bits, little-endian")
    (machine,) = struct.unpack_from("<H", content, 18)
    if machine != 62:
        raise NotElf(f"made for machine {machine}, not for x86-64 (62)")
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    # Type, flags, offset, virtual address, physical address, bytes in the file.
    segments = [struct.unpack_from("<IIQQQQ", content, table + i * size) for i in range(count)]
    interpreter = None
    tags: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length in segments:
        if kind == _INTERPRETER:
            interpreter = _text(content, offset, offset + length)
        elif kind == _DYNAMIC:
            tags = _tags(content, offset, length)
    values = dict(tags)
    if _STRINGS not in values:
        return Linked(interpreter, (), ())
    start = _offset(segments, values[_STRINGS])
    end = start + values.get(_STRINGS_BYTES, 0)
    needed = tuple(_text(content, start + at, end) for tag, at in tags if tag == _NEEDED)
    # RUNPATH replaces RPATH where there are both (ld.so(8)).
    path = values.get(_RUNPATH, values.get(_RPATH))
    searched = _text(content, start + path, end).split(":") if path is not None else []
    return Linked(interpreter, needed, tuple(filter(None, searched)))


def _tags(content: bytes, offset: int, length: int) -> list[tuple[int, int]]:
    tags = []
    for at in range(offset, offset + length - 15, 16):
        tag, value = struct.unpack_from("<qQ", content, at)
        if tag == _END:
            break
        tags.append((tag, value))
    return tags


def _offset(segments: list[tuple[int, ...]], address: int) -> int:
    """Returns where in the file that is which is loaded to `address`."""
    for kind, _, offset, start, _, length in segments:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    raise NotElf(f"a damaged ELF file: nothing is loaded to {address:#x}")


def _text(content: bytes, start: int, end: int) -> str:
    if not 0 <= start < min(end, len(content)):
        raise NotElf("a damaged ELF file: a name lies outside it")
    return content[start:end].split(b"\0", 1)[0].decode()
