"""Writing a file so that it is either the old one or the whole new one."""

import os
import tempfile
from pathlib import Path

from blklab.errors import UsageError


def check(path: Path) -> None:
    """Raises UsageError if no file can be written there: before the work, not after it."""
    if path.is_dir():
        raise UsageError(f"{path}: is a directory, and a file is to be written there")
    folder = path.parent
    if not folder.is_dir():
        missing = "is not a directory" if folder.exists() else "no such directory"
        raise UsageError(f"{path}: cannot be written: {folder}: {missing}")
    if path.exists() and not path.is_file():
        return  # /dev/stdout and the like: written to as they are
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {folder}: {error.strerror}") from error


def folder(path: Path) -> None:
    """Makes a directory to write files into. Raises UsageError if that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        check(path / "chart.png")
    except FileExistsError as error:
        raise UsageError(f"{path}: is a file, and a directory is wanted") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be made: {error.strerror}") from error


def write(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, syncs it and renames it."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()  # a symbolic link stays one
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
