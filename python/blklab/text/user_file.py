"""Files of users, which can be anything: a device without end, or a small file that is gzip of a huge one."""

import gzip
import io
import os
import stat
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from blklab.errors import UsageError
from blklab.text.printing import printable

LARGEST = 256 << 20  # Maximum bytes of a file; fio's largest outputs are a tenth of that
GZIP = b"\x1f\x8b"
FIFO_S = 10.0  # Seconds that a FIFO may have no program that writes to it


@contextmanager
def open_user_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to read. Raises UsageError, also for a FIFO without a writer, for which `open` waits."""
    try:  # ValueError: a NUL in the name
        is_fifo = stat.S_ISFIFO(path.stat().st_mode)
        descriptor = _open_fifo(path) if is_fifo else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as stream:
            yield stream
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{printable(str(path))}: cannot be read: {reason}") from None


def _open_fifo(path: Path) -> int:
    """Returns the descriptor of a FIFO that a program has opened to write. Raises OSError if none does."""
    descriptors: list[int] = []
    thread = threading.Thread(target=lambda: descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC)), daemon=True)
    thread.start()
    thread.join(FIFO_S)
    if not thread.is_alive() and descriptors:
        return descriptors[0]
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))  # ends the other `open`
    thread.join(1)
    for descriptor in descriptors:
        os.close(descriptor)
    raise OSError(f"it is a FIFO, and no program has opened it to write for {FIFO_S:g} s")


def read_limited(stream: BinaryIO, path: Path, most: int | None = None) -> bytes:
    """Returns the content of an open file. Raises UsageError for more than `most` bytes, or `LARGEST`."""
    limit = LARGEST if most is None else most
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise UsageError(f"{printable(str(path))}: is larger than {limit >> 20} MiB; expected a smaller file")
    return content


def read_plain_file(path: Path, most: int | None = None) -> bytes:
    """Returns the content of a file as it is. At most `most` bytes are read, or `LARGEST`. Raises UsageError."""
    with open_user_file(path) as stream:
        return read_limited(stream, path, most)


def read_user_file(path: Path, most: int | None = None) -> bytes:
    """Returns the content of a file; of gzip, what is in it. Raises UsageError, also for more than `most` bytes."""
    content = read_plain_file(path, most)
    if not content.startswith(GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as inside:
            return read_limited(inside, path, most)  # type: ignore[arg-type]  # GzipFile has `read`
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{printable(str(path))}: damaged gzip: {getattr(error, 'strerror', None) or error}") from None
