"""Links and anchors of all Markdown files lead somewhere, in the site; pages that the program names are packaged."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from blklab.installed_documents import document_path
from tests.test_tidy import files

ROOT = Path(__file__).parents[1]
PAGES = [path for path in files() if path.suffix == ".md" and "data" not in path.parts]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
        elif ROOT / "docs" in page.parents and ROOT / "docs" not in target.resolve().parents:
            broken.append(f"{link} (the site has only docs/)")
    assert not broken


def named_documents() -> set[str]:
    """Return the pages that strings of the program name: help, messages, docstrings."""
    names = set()
    for source in (ROOT / "python/blklab").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.update(re.findall(r"(?<![\w/])docs/([a-z]+/[\w-]+\.md)", node.value))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "document_path":
                names.update(word.value for word in node.args if isinstance(word, ast.Constant))
    return names


def test_pages_that_the_program_names_are_in_the_package() -> None:
    names = named_documents()
    assert {"howto/install.md", "howto/predict.md", "reference/experiments.md"} <= names
    includes = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]["include"]
    packaged = {path for include in includes if "wheel" in include["format"] for path in ROOT.glob(include["path"])}
    for name in names:
        assert Path(document_path(name)) == ROOT / "docs" / name
        assert Path(document_path(name)).is_file()
        assert ROOT / "python/blklab/docs" / name in packaged
