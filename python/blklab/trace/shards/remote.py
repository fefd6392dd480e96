"""Files behind URLs: fsspec's filesystems, with errors of one line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blklab.errors import BlklabError, EnvironmentLacks, UsageError
from blklab.package_data import toml_file

PACKAGES: dict[str, str] = toml_file(__package__, "packages.toml")
REFUSED = {"NoCredentialsError", "PermissionError", "Forbidden", "AuthenticationException"}
UNREACHABLE = {"ClientConnectorError", "ConnectTimeoutError", "EndpointConnectionError", "gaierror"} | {
    "ConnectionRefusedError",
    "NoValidConnectionsError",
}


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Turns every error of a filesystem into one line about `url`."""
    try:
        yield
    except (BlklabError, KeyboardInterrupt):
        raise
    except ImportError as error:
        if error.name == "fsspec":  # Of the extra `cluster`
            raise
        package = PACKAGES.get(url.partition("://")[0], "")
        missing = f"{url}: a package for this protocol is not installed"
        raise EnvironmentLacks(missing, f"pip install {package}" if package else str(error)) from None
    except Exception as error:
        raise _plain(url, error) from None


def _plain(url: str, error: Exception) -> BlklabError:
    names: set[str] = set()
    for cause in _causes(error):
        names.update(kind.__name__ for kind in type(cause).__mro__)
    reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    if names & UNREACHABLE:
        return BlklabError(f"{url}: cannot be reached ({reason})")
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{url}: not found: check the bucket, the directory and the name")
    if names & REFUSED or "No authentication methods" in reason:  # paramiko has no class for this
        return BlklabError(f"{url}: no permission ({reason}): check the credentials on this machine")
    if isinstance(error, ValueError) and "Protocol not known" in reason:
        return UsageError(f"{url}: unknown protocol: expected s3, gs, http, sftp or another one of fsspec")
    return BlklabError(f"{url}: cannot be read ({reason})")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _filesystem(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(url)
    return filesystem, str(path)


def find(url: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """Returns the path of a pattern, and the paths that it matches with the URLs of their files.

    A pattern is also the beginning of the names of per-CPU files.
    """
    with naming(url):
        filesystem, path = _filesystem(url)
        matches = filesystem.glob(path, detail=True) or filesystem.glob(f"{path}.blktrace.*", detail=True)
        files = [
            (name, filesystem.find(name, maxdepth=1) if info["type"] == "directory" else [name])
            for name, info in matches.items()
        ]
        start = url.removesuffix(path)  # With the host, which fsspec leaves out of the URLs that it makes for sftp

        def url_of(file: str) -> str:
            if start in {"", url}:
                return str(filesystem.unstrip_protocol(file))
            return start + file

        return path, [(name, list(map(url_of, shard_files))) for name, shard_files in files]


def download(urls: Sequence[str], directory: Path) -> list[str]:
    """Copies files to a directory; returns their paths there."""
    paths = []
    for url in urls:
        path = directory / url.rpartition("/")[2]
        with naming(url):
            filesystem, remote = _filesystem(url)
            filesystem.get_file(remote, str(path))
        paths.append(str(path))
    return paths
