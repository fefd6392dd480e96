"""Write the bill of materials of the packages, in CycloneDX's format: the locked crates and Python packages.

.venv/bin/python scripts/sbom.py FILE
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from blklab import __version__

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def components() -> Iterator[Component]:
    """Yield what the extension is built from, and what blklab imports."""
    for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]:
        if "source" in package:
            yield component("cargo", package["name"], package["version"])
    for name, version in PINNED.findall((ROOT / "requirements/runtime.txt").read_text()):
        yield component("pypi", name, version)


def component(kind: str, name: str, version: str) -> Component:
    """Return a library with its package URL."""
    url = PackageURL(kind, None, name, version)
    return Component(type=ComponentType.LIBRARY, name=name, version=version, purl=url, bom_ref=str(url))


def main(file: Path) -> None:
    """Write the file. It has no serial number and no time, so that it is the same for the same sources."""
    bom = Bom(components=components())
    bom.metadata.component = Component(
        type=ComponentType.APPLICATION, name="blklab", version=__version__, bom_ref="blklab"
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    text = JsonV1Dot5(bom).output_as_string(indent=2)
    text = re.sub(r'\n *"(serialNumber|timestamp)": "[^"]*",?', "", text)
    file.write_text(re.sub(r",(\s*[}\]])", r"\1", text) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
