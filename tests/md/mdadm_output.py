"""Records what an mdadm says about the members that are recorded or crafted.

`python -m tests.md.mdadm_output PROGRAM... > tests/data/md/mdadm/examine-4.6.txt`; the words are a command that runs
this mdadm. It needs no md. mdadm reads a bitmap only from a block device: for that question the image is, as root, a
read-only loop device.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.loop_devices import attach_loop_device
from tests.md.conftest import image
from tests.md.crafted import CRAFTED

MEMBERS = (
    *("raid1-090.vda", "raid1-10.vda", "raid1-11.vda", "raid1-12.vda", "raid1-12-bitmap.vdb"),
    *("raid1-12-conf-bblno.vda", "raid1-12-populated.vda", "raid10-n2.vda", "raid10-f2.vda", "raid10-o2.vda"),
    *(f"crafted-{name}" for name in CRAFTED),
)


def member_image(name: str, directory: Path) -> Path:
    """Writes a member, and returns its path."""
    crafted = CRAFTED.get(name.removeprefix("crafted-"))
    path = crafted("vda", directory) if crafted else image(name, directory)
    return path.rename(directory / f"{name}.img")


@contextmanager
def loop_device(path: Path) -> Iterator[str]:
    """Attaches a read-only loop device. Raises CalledProcessError, or OSError without losetup."""
    device = attach_loop_device(path, "--read-only")
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)


def asked(program: Sequence[str], question: str, target: str, path: Path) -> str:
    """Returns the question, the answer and the exit status, with the image's name for its path."""
    done = subprocess.run(
        [*program, question, target], env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    answer = done.stdout.decode().replace(target, path.name).rstrip("\n")
    return f"$ mdadm {question} {path.name}\n{answer}\nrc={done.returncode}\n"


def outputs(program: Sequence[str], members: Sequence[str] = MEMBERS, *, bitmaps: bool = True) -> Iterator[str]:
    """Yields the answers about members."""
    for member in members:
        with TemporaryDirectory() as directory:
            path = member_image(member, Path(directory))
            for question in ("--examine", "--examine-badblocks"):
                yield asked(program, question, str(path), path)
            if bitmaps:
                with loop_device(path) as device:
                    yield asked(program, "--examine-bitmap", device, path)


if __name__ == "__main__":
    sys.stdout.writelines(outputs(sys.argv[1:]))
