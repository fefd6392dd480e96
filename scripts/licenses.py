"""Print the licences of what a package of blklab contains of others, with their texts.

.venv/bin/python scripts/licenses.py [DIRECTORY]

Without DIRECTORY, of the wheel: the crates, and the report's JavaScript. With it, of a Debian package, whose Python
packages are there. The text of the Apache License is left out: it is next to this file, or Debian has it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")

TEXT = re.compile(r"(un)?licen[cs]e|copying|copyright|notice|authors", re.IGNORECASE)
"""How the names of files with licences begin."""

OTHER_CHOICE = re.compile(r"licen[cs]e[-.]|copying$|unlicense$", re.IGNORECASE)
"""The other licences of a crate that may be used under the MIT license."""

BUNDLED = {"liblzma-sys": "xz/COPYING.0BSD", "zstd-sys": "zstd/LICENSE"}
"""The licences of the libraries in C that crates contain."""

APACHE = re.compile(r"\s*Apache License\s+Version 2\.0, January 2004.*?END OF TERMS AND CONDITIONS\n", re.DOTALL)


class Part(NamedTuple):
    """Something of others in a package."""

    name: str
    license: str
    files: list[Path]


def cargo(*arguments: str) -> str:
    return subprocess.run(["scripts/cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates(*programs: str) -> Iterator[Part]:
    """Yield the crates that are linked into programs, for any target: each machine makes the same file."""
    options = [f"--package={program}" for program in programs] + [f"--target={target}" for target in TARGETS]
    tree = cargo("tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}", *options)
    linked = {tuple(line.split()[:2]) for line in tree.splitlines()}
    platforms = [f"--filter-platform={target}" for target in TARGETS]
    for package in json.loads(cargo("metadata", "--locked", "--format-version=1", *platforms))["packages"]:
        name, version = package["name"], package["version"]
        if not package["source"] or (name, f"v{version}") not in linked:
            continue
        directory = Path(package["manifest_path"]).parent
        files = sorted(file for file in directory.iterdir() if TEXT.match(file.name))
        if any("MIT" in file.name for file in files):
            files = [file for file in files if "MIT" in file.name or not OTHER_CHOICE.match(file.name)]
        if name in BUNDLED:
            files.append(directory / BUNDLED[name])
        yield Part(f"{name} {version}", package["license"], files)
        if name == "liblzma-sys" and "blklab-agent" in programs:
            # The agent is linked with it statically; this crate happens to have the text.
            yield Part("GNU C Library (in blklab/_agent)", "LGPL-2.1-or-later", [directory / "xz/COPYING.LGPLv2.1"])


def python_packages(directory: Path) -> Iterator[Part]:
    """Yield the packages in a directory that pip installed into."""
    for installed in directory.glob("*.dist-info"):
        metadata = PathDistribution(installed).metadata
        if metadata["Name"] != "blklab":
            classifiers = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier", []) if "License" in line]
            texts = sorted(file for file in installed.rglob("*") if file.is_file() and TEXT.match(file.name))
            name = metadata["License-Expression"] or metadata["License"] or ", ".join(classifiers)
            yield Part(f"{metadata['Name']} {metadata['Version']}", name, texts)


def report(parts: Iterable[Part], apache: str) -> Iterator[str]:
    """Yield the list, then each text once, below the names of what it is for."""
    texts: dict[str, tuple[str, list[str]]] = {}
    for part in sorted(parts, key=lambda part: part.name.lower()):
        yield f"{part.name}: {part.license}"
        if not part.files:
            sys.exit(f"licenses: error: {part.name} has no file with its licence")
        for file in part.files:
            text = APACHE.sub(f"\n[The text of the Apache License 2.0 is in {apache}.]\n", file.read_text()).strip("\n")
            _, names = texts.setdefault(" ".join(text.split()), (text, []))
            if part.name not in names:
                names.append(part.name)
    for text, names in texts.values():
        yield f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}"


def main(directory: Path | None) -> None:
    """Print the licences."""
    parts = [
        Part("Rust's standard library", "MIT OR Apache-2.0", [ROOT / "LICENSE"]),
        Part("vega.js", "BSD-3-Clause AND ISC AND MIT", [ROOT / "python/blklab/render/vendor/LICENSES.md"]),
    ]
    agent = directory is None or (directory / "blklab/_agent").exists()
    parts += crates("blklab-py", "blklab-agent") if agent else crates("blklab-py")
    parts += python_packages(directory) if directory else ()
    lines = report(parts, "/usr/share/common-licenses/Apache-2.0" if directory else "LICENSE")
    sys.stdout.write("This package contains parts of others. Their licences:\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
