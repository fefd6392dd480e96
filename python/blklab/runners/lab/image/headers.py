"""The headers of a packaged kernel, to build its modules from other sources without installing anything."""

import re
from pathlib import Path

from blklab.runners.lab.image.cache import ImageCache, directory
from blklab.runners.lab.image.debian import DebianArchive, DebianPackage, Note, fetch, run

_NEEDED = re.compile(r"linux-(?:headers|kbuild)-")
_SOURCES = "/usr/src/"  # Where the packages expect each other


def headers(version: str, note: Note) -> Path:
    """Returns the directory for `make -C` to build modules for a kernel, such as 6.1.0-49-cloud-amd64.

    Raises EnvironmentLacks if the packages cannot be downloaded.
    """
    cache = ImageCache(directory())
    name = f"headers-{version}"
    sources = cache.root / name / "usr/src"
    if cache.find(name) is None:
        with cache.locked(note):
            debian = DebianArchive(cache.root / "debian", note)

            def fill(into: Path) -> None:
                with cache.scratch() as scratch:
                    _, debs = fetch(debian, lambda: _packages(debian, version), scratch)
                    for deb in debs:
                        run(["dpkg-deb", "--extract", str(deb), str(into)])
                for makefile in into.glob("usr/src/*/Makefile"):
                    text = makefile.read_text()
                    makefile.write_text(text.replace(f"include {_SOURCES}", f"include {sources}/"))

            cache.make(name, fill)
    return sources / f"linux-headers-{version}"


def compiler(headers_directory: Path) -> str:
    """Returns the compiler of a kernel, such as gcc-12, as Debian's package of headers names it."""
    match = re.search(r"\b(gcc-\d+)\b", (headers_directory / ".kernelvariables").read_text())
    return match[1] if match else "gcc"


def _packages(debian: DebianArchive, version: str) -> list[DebianPackage]:
    packages = debian.with_dependencies([f"linux-headers-{version}"])
    return [deb for deb in packages if _NEEDED.match(deb.name)]
