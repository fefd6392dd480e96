"""Writes files whose every block says whose it is, and finds those blocks on a disk."""

import json
import os
import struct
import sys
from pathlib import Path

MAGIC = b"blklab-was-here!"
BLOCK = 4096
NAMES = ("plain", "deep/deeper/file", "a\nname \udcff\x1b[31m", "deep/sparse")


def write(directory: Path) -> list[str]:
    """Files of several sorts: fragmented, with holes, of a hostile name, with two names."""
    (directory / "deep/deeper").mkdir(parents=True)
    paths = [directory / name for name in NAMES]
    for turn in range(0, 48, 4):  # in turns, so that their extents lie between one another
        for which, path in enumerate(paths):
            with path.open("r+b" if path.exists() else "wb") as file:
                for at in range(turn, turn + 4):
                    place = at * (5 if path.name == "sparse" else 1)
                    file.seek(place * BLOCK)
                    file.write((MAGIC + struct.pack("<II", which, place)).ljust(BLOCK, b"."))
                os.fsync(file.fileno())
    (directory / "deep/plain-again").hardlink_to(paths[0])
    (directory / "link").symlink_to("/")
    os.mkfifo(directory / "pipe")
    os.sync()
    return [str(path) for path in paths]


def find(member: Path) -> list[tuple[int, int, int]]:
    """Returns which sectors of a disk hold which file's block: sector, file, block."""
    result = []
    with member.open("rb", buffering=0) as disk:
        at = 0
        while piece := disk.read(1 << 20):
            for begin in range(0, len(piece), BLOCK):
                if piece.startswith(MAGIC, begin):
                    which, place = struct.unpack_from("<II", piece, begin + len(MAGIC))
                    result.append(((at + begin) // 512, which, place))
            at += len(piece)
    return result


def table(device: Path) -> None:
    """Writes a partition table of DOS with one partition, of 330 MiB behind the first MiB."""
    entry = struct.pack("<4xB3xII", 0x83, 2048, 330 << 11)
    with device.open("r+b", buffering=0) as disk:
        disk.write((bytes(446) + entry).ljust(510, b"\0") + b"\x55\xaa")


def lay(directory: Path, member: Path) -> list[tuple[int, str, int]]:
    """Writes files; returns which sectors of a member hold which file's bytes."""
    paths = write(directory)
    return [(sector, paths[which], at * BLOCK) for sector, which, at in find(member)]


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    if what == "table":
        table(Path(paths[0]))
    else:
        sys.stdout.write(json.dumps(lay(Path(paths[0]), Path(paths[1]))))
