"""Files of users, which can be anything: a device without end, or a small file that is gzip of a huge one."""

import gzip
import io
import zlib
from pathlib import Path

from blklab.errors import UsageError
from blklab.text.printing import printable

LARGEST = 256 << 20  # Maximum bytes of a file; fio's largest outputs are a tenth of that
GZIP = b"\x1f\x8b"


def read_user_file(path: Path) -> bytes:
    """Returns the content of a file; of gzip, what is in it. At most `LARGEST` bytes are read. Raises UsageError."""
    location = printable(str(path))
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        if content.startswith(GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as inside:
                content = inside.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{location}: {reason}") from None
    if len(content) > LARGEST:
        raise UsageError(f"{location}: is larger than 256 MiB; expected a result")
    return content
