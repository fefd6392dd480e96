"""Writes text and pictures: a file is either the old or the complete new one, never a device.

`-` and `/dev/stdout` are standard output. FIFOs and character devices (/dev/null) are written
directly; block devices, sockets and directories are refused. Symbolic links are followed.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blklab.errors import UsageError

STDOUT = frozenset({"-", "/dev/stdout"})  # Names that mean standard output


def check(path: str | Path | None, *, overwrite: bool = True) -> None:
    """Raises UsageError if a file cannot be written, before the work begins; None is no file.

    Also for a file that exists, without `overwrite`.
    """
    if path is None or str(path) in STDOUT:
        return
    if _is_stream(path):
        if not os.access(path, os.W_OK):
            raise UsageError(f"{path}: cannot be written: permission denied")
        return
    if os.path.lexists(path) and not overwrite:
        raise UsageError(f"{path}: exists; use --overwrite")
    directory = _target(path).parent
    if not directory.is_dir():
        missing = "is not a directory" if directory.exists() else "no such directory"
        raise UsageError(f"{path}: cannot be written: {directory}: {missing}")
    check_directory(directory, path)


def check_directory(directory: Path, path: str | Path | None = None) -> None:
    """Raises UsageError if no file can be made in a directory; `path` is the future file."""
    message = f"{directory}: cannot be written" if path is None else f"{path}: cannot be written"
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        prefix = "" if path is None else f"{directory}: "
        raise UsageError(f"{message}: {prefix}{error.strerror}") from error


def make_directory(path: Path) -> None:
    """Makes a directory for output. Raises UsageError if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{path}: is a file, expected a directory") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be made: {error.strerror}") from error
    check_directory(path)


def same(first: str | Path, other: str | Path) -> bool:
    """Tells whether two names mean the same file, also before it exists; never true of /dev/null."""
    names = [str(path) for path in (first, other)]
    if any(name in STDOUT for name in names):
        return all(name in STDOUT for name in names)
    if any(Path(name).is_char_device() for name in names):
        return False
    return _target(first) == _target(other)


def write(path: str | Path, content: bytes, *, mode: int | None = None) -> None:
    """Writes a file under a temporary name, syncs and renames it; a stream is written directly.

    `mode` is the file's permissions; None keeps those it has, or applies the umask. Raises
    OSError with the file's name, or UsageError as `check` does.
    """
    if str(path) in STDOUT:
        write_stdout(content)
        return
    with add_file_name(path):
        if _is_stream(path):
            _write_stream(path, content)
        else:
            replace(_target(path), content, mode=mode)


@contextmanager
def add_file_name(path: str | Path) -> Iterator[None]:
    """Puts the file's name into errors without one, or with that of a temporary file; not into BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_stdout(content: bytes) -> None:
    """Writes bytes to standard output, in any locale."""
    view = memoryview(content)
    with add_file_name("standard output"):
        sys.stdout.flush()
        while view:  # PYTHONUNBUFFERED: a write may be short
            view = view[sys.stdout.buffer.write(view) :]
        sys.stdout.buffer.flush()


def is_stream(path: str | Path) -> bool:
    """Tells whether a name means standard output, a FIFO or a character device."""
    return str(path) in STDOUT or Path(path).is_fifo() or Path(path).is_char_device()


def _is_stream(path: str | Path) -> bool:
    """Distinguishes FIFOs and character devices from files. Raises UsageError for others."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # Path("./-") would be "-"
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise UsageError(f"{path}: cannot be written: {Path(path).parent}: is not a directory") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return _is_stream_mode(path, mode)


def _is_stream_mode(path: str | Path, mode: int) -> bool:
    if stat.S_ISREG(mode):
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    kinds = {stat.S_IFBLK: "a block device", stat.S_IFDIR: "a directory", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "no file")
    raise UsageError(f"{path}: is {kind}; expected a file name")


def _target(path: str | Path) -> Path:
    """Returns the file behind a symbolic link, so that the link stays."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise UsageError(f"{path}: cannot be written: {error}") from error


def _write_stream(path: str | Path, content: bytes) -> None:
    # It neither makes nor truncates anything, should the name mean something else by now.
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    with open(descriptor, "wb") as stream:  # noqa: PTH123  # a descriptor, not a path
        if _is_stream_mode(path, os.fstat(descriptor).st_mode):
            stream.write(content)
            return
    replace(_target(path), content)


def replace(target: Path, content: bytes, *, mode: int | None = None) -> None:
    """Writes a file under a temporary name, syncs and renames it; replaces a link itself."""
    # A name may have 255 bytes, and the temporary one is longer than the file's.
    prefix = f".{target.name[:50]}."
    with add_file_name(target), _temporary(prefix, target.parent) as (descriptor, temporary):
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.chmod(_mode(target) if mode is None else mode)
        temporary.replace(target)


@contextmanager
def _temporary(prefix: str, directory: Path) -> Iterator[tuple[int, Path]]:
    """Makes a file that is removed if the block fails."""
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=directory)
    try:
        yield descriptor, Path(name)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Returns the permissions of an existing file, else those that the umask leaves."""
    try:
        status = target.lstat()
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISREG(status.st_mode):
            return status.st_mode & 0o777
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
