"""Files of users, which can be anything: a device without end, or a small file that is gzip of a huge one."""

import gzip
import io
import os
import select
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from blklab.errors import UsageError
from blklab.text.printing import printable

LARGEST = 256 << 20  # Maximum bytes of a file; fio's largest outputs are a tenth of that
GZIP = b"\x1f\x8b"
FIFO_S = 10.0  # Seconds that a FIFO may have no data: mostly nobody writes to it


@contextmanager
def open_user_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to read. Raises UsageError, also for a FIFO that nobody writes to, which `open` waits for."""
    try:
        # ValueError: a NUL in the name
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as stream:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                _wait_for_data(descriptor)
            os.set_blocking(descriptor, True)
            yield stream
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{printable(str(path))}: cannot be read: {reason}") from None


def _wait_for_data(descriptor: int) -> None:
    """Raises OSError if nobody opens the other end of a FIFO."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(FIFO_S * 1000):
        raise OSError(f"it is a FIFO, and no program has written to it for {FIFO_S:g} s")


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
