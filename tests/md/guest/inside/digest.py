"""Writes random bytes to the beginning of a device, or prints the SHA-256 of all of it, or of its beginning.

digest write DEVICE SEED MIB      digest read DEVICE [MIB]
"""

import hashlib
import os
import random
import sys

MIB = 1 << 20


def write(device: str, seed: int, mebibytes: int) -> None:
    source = random.Random(seed)  # A pattern, not a secret
    with open(device, "r+b", buffering=0) as disk:  # noqa: PTH123
        for _ in range(mebibytes):
            disk.write(source.randbytes(MIB))
        os.fsync(disk.fileno())


def read(device: str, mebibytes: int = 1 << 30) -> str:
    digest = hashlib.sha256()
    with open(device, "rb", buffering=0) as disk:  # noqa: PTH123
        for _ in range(mebibytes):
            piece = disk.read(MIB)
            if not piece:
                break
            digest.update(piece)
    return digest.hexdigest()


if __name__ == "__main__":
    what, path, *numbers = sys.argv[1:]
    if what == "write":
        write(path, *map(int, numbers))
    else:
        sys.stdout.write(read(path, *map(int, numbers)))
