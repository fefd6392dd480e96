"""The shared libraries that a program or a library needs."""

from dataclasses import dataclass
from io import BytesIO


class NotElf(ValueError):
    """Not an ELF file of this architecture, or a damaged one."""


@dataclass(frozen=True)
class ElfDependencies:
    """What an ELF file requests from the dynamic linker."""

    interpreter: str | None
    needed: tuple[str, ...]
    directories: tuple[str, ...]  # Directories that are searched first; `$ORIGIN` is the directory of the file itself


def linked(content: bytes) -> ElfDependencies:
    """Returns the dependencies of an ELF file; none for a static one. Raises NotElf."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotElf("not an ELF file of 64 bits, little-endian")
    try:
        return _linked(content)
    except NotElf:
        raise
    except Exception as error:  # pyelftools has no one error for damaged files
        raise NotElf(f"a damaged ELF file: {error}") from None


def _linked(content: bytes) -> ElfDependencies:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    file = ELFFile(BytesIO(content))
    if file["e_machine"] != "EM_X86_64":
        raise NotElf(f"made for machine {file['e_machine']}, not for x86-64 (62)")
    interpreter: str | None = None
    needed: list[str] = []
    paths: dict[str, str] = {}
    for segment in file.iter_segments():
        if isinstance(segment, InterpSegment):
            interpreter = segment.get_interp_name()
        elif isinstance(segment, DynamicSegment):
            for tag in segment.iter_tags():
                kind = tag.entry.d_tag
                if kind == "DT_NEEDED":
                    needed.append(getattr(tag, "needed"))  # noqa: B009  # set by the kind
                elif kind in {"DT_RPATH", "DT_RUNPATH"}:
                    paths[kind] = getattr(tag, kind.removeprefix("DT_").lower())
    # RUNPATH replaces RPATH where there are both (ld.so(8)).
    searched = paths.get("DT_RUNPATH", paths.get("DT_RPATH", "")).split(":")
    return ElfDependencies(interpreter, tuple(needed), tuple(filter(None, searched)))
