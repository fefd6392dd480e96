#!/usr/bin/env python3
"""Finds places in the Python code that a reader must decode: STYLE.md, "No puzzles".

scripts/puzzles.py                  prints how many places of each class each package has
scripts/puzzles.py PATH...          prints each place in these files or folders
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python/blklab"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
TEXTS = (ast.List, ast.JoinedStr, ast.Tuple)
READ_DUNDERS = {
    "__cause__", "__class__", "__context__", "__doc__", "__file__", "__init__", "__mro__", "__name__", "__package__",
    "__path__", "__traceback__", "__version__",
}  # fmt: skip
"""Names with double underscores that are values, or that a subclass calls."""

CLASSES = {
    "times": "a text or list times a truth value",
    "nested-if": "a conditional expression in another one",
    "splat": "a splat of a conditional expression",
    "two-assignments": "two assignments in one line",
    "walrus": "a walrus in a comprehension",
    "nested-loops": "a comprehension with two loops, or in another one",
    "lambda-args": "a lambda with *args",
    "dunder": "a method with double underscores as a function",
    "truth-index": "a value that a truth value picks, or a subscript of a literal",
    "getattr": "getattr of an assembled name",
    "text-in-text": "an f-string in an f-string, or a conditional expression in one",
}


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a text or a list that is written out."""
    return isinstance(node, TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_number(node: ast.expr) -> bool:
    """Whether an expression is certainly a number: then a text is repeated."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and not isinstance(node.value, bool)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in {"len", "max", "min", "sum", "int", "round"}
    return isinstance(node, ast.BinOp)


def find_classes(node: ast.AST) -> Iterator[str]:
    """Yields the classes of puzzles that a node is."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for value, factor in ((node.left, node.right), (node.right, node.left)):
            if is_text(value) and not is_number(factor):
                yield "times"
    if isinstance(node, ast.IfExp) and any(isinstance(part, ast.IfExp) for part in (node.body, node.test, node.orelse)):
        yield "nested-if"
    if isinstance(node, ast.Starred) and isinstance(node.value, ast.IfExp):
        yield "splat"
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None and isinstance(value, ast.IfExp):
                yield "splat"
    if isinstance(node, ast.Call) and any(
        keyword.arg is None and isinstance(keyword.value, ast.IfExp) for keyword in node.keywords
    ):
        yield "splat"
    if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.IfExp) and is_text(node.value.orelse):
        yield "splat"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        yield "two-assignments"
    if isinstance(node, COMPREHENSIONS):
        inner = [part for part in ast.walk(node) if part is not node]
        if any(isinstance(part, ast.NamedExpr) for part in inner):
            yield "walrus"
        if len(node.generators) > 1 or any(isinstance(part, COMPREHENSIONS) for part in inner):
            yield "nested-loops"
    if isinstance(node, ast.Lambda) and (node.args.vararg or node.args.kwarg):
        yield "lambda-args"
    if isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr.endswith("__"):
        if node.attr not in READ_DUNDERS and not ast.unparse(node.value).startswith("super("):
            yield "dunder"
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        is_truth = isinstance(node.slice, ast.Compare | ast.BoolOp)
        if is_truth or isinstance(node.value, ast.List | ast.Tuple | ast.Dict):
            yield "truth-index"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and isinstance(node.args[1], ast.JoinedStr):
        yield "getattr"
    if isinstance(node, ast.FormattedValue):
        if any(isinstance(part, ast.JoinedStr | ast.IfExp) for part in ast.walk(node.value)):
            yield "text-in-text"


def find_puzzles(path: Path) -> list[tuple[int, str]]:
    """Returns the lines of a file with puzzles, and their classes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        for name in find_classes(node):
            found.append((getattr(node, "lineno", 0), name))
    return sorted(set(found))


def list_files(path: Path) -> list[Path]:
    """Returns the Python files below a path, without the generated ones."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [file for file in files if "documents" not in file.relative_to(PACKAGE).parts[:1]]


def print_counts() -> None:
    counts: dict[str, Counter[str]] = {}
    for file in list_files(PACKAGE):
        parts = file.relative_to(PACKAGE).parts
        package = parts[0] if len(parts) > 1 else "(top)"
        for _, name in find_puzzles(file):
            counts.setdefault(package, Counter())[name] += 1
    print(f"{'package':16}", *(f"{name:>15}" for name in CLASSES), f"{'all':>6}")
    total: Counter[str] = Counter()
    for package, found in sorted(counts.items()):
        print(f"{package:16}", *(f"{found[name]:15}" for name in CLASSES), f"{sum(found.values()):6}")
        total += found
    print(f"{'all':16}", *(f"{total[name]:15}" for name in CLASSES), f"{sum(total.values()):6}")


def main() -> None:
    if not sys.argv[1:]:
        print_counts()
        return
    for word in sys.argv[1:]:
        for file in list_files(Path(word).resolve()):
            lines = file.read_text().splitlines()
            for number, name in find_puzzles(file):
                print(f"{file.relative_to(PACKAGE)}:{number}: {name}: {lines[number - 1].strip()[:100]}")


if __name__ == "__main__":
    main()
