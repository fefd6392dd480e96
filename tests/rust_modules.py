"""Which top-level modules of a Rust crate use which others, read from its sources without tests."""

import re
from collections.abc import Iterator
from pathlib import Path

COMMENT = re.compile(r"//.*")
MODULE = re.compile(r"^\s*(?:pub(?:\(.*?\))? )?mod (\w+);", re.M)
REFERENCE = re.compile(r"\b(crate|super(?:::super)*)::(\w+|\{)")
EXPORT = re.compile(r"^pub use (?:crate::|self::)?(\w+)::(.*?);", re.M | re.S)


def uses(source: Path) -> dict[str, set[str]]:
    """Returns the graph of a crate's top-level modules; `source` is its `src`."""
    root = next(path for name in ("lib.rs", "main.rs") if (path := source / name).exists())
    text, _ = without_tests(root.read_text())
    modules = set(MODULE.findall(text))
    exports = {
        name: module
        for module, names in EXPORT.findall(text)
        for name in re.findall(r"\w+", names)
        if name not in modules
    }
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for path in product_files(source, root):
        parts = path.relative_to(source).with_suffix("").parts
        depth = len(parts) - (parts[-1] == "mod")
        text, _ = without_tests(path.read_text())
        for name in references(text, depth):
            used = exports.get(name, name)
            if used in modules - {parts[0]}:
                graph[parts[0]].add(used)
    return graph


def product_files(source: Path, root: Path) -> list[Path]:
    """Returns the files of a crate but its root and those that only tests have."""
    files = set(source.rglob("*.rs"))
    for path in sorted(files):
        directory = path.parent if path.stem in {"mod", root.stem} else path.with_suffix("")
        for name in without_tests(path.read_text())[1]:
            files -= {directory / f"{name}.rs", *(directory / name).rglob("*.rs")}
    return sorted(path for path in files if path != root and path.name != "tests.rs")


def without_tests(text: str) -> tuple[str, list[str]]:
    """Returns the code without comments and items for tests, and those of these that are files."""
    kept: list[str] = []
    modules: list[str] = []
    lines = iter(COMMENT.sub("", text).splitlines())
    for line in lines:
        if line.strip() != "#[cfg(test)]":
            kept.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        item = next(lines, "")
        while item.strip().startswith("#["):
            item = next(lines, "")
        modules += MODULE.findall(item)
        if not item.rstrip().endswith((";", "}")):
            # As rustfmt has it, an item ends at its own depth.
            next((inner for inner in lines if inner.startswith(f"{indent}}}")), None)
    return "\n".join(kept), modules


def references(text: str, depth: int) -> Iterator[str]:
    """Yields what a file of so many modules' depth names of its crate's root."""
    for match in REFERENCE.finditer(text):
        if match[1] != "crate" and match[1].count("super") != depth:
            continue
        if match[2] == "{":
            yield from first_names(text[match.end() :])
        else:
            yield match[2]


def first_names(group: str) -> Iterator[str]:
    """Yields the first name of each path of a group, whose `{` is behind us."""
    depth, first = 0, True
    for word in re.findall(r"\w+|[{},]", group):
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
            if depth < 0:
                return
        elif word == ",":
            first = first or depth == 0
        elif first and depth == 0:
            first = False
            yield word
