"""Relative links and anchors of all Markdown files lead somewhere, and stay in the site."""

import re
from pathlib import Path

import pytest

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
