"""The tree of a cell's stack (`blklab.spec.stack_resolution`), and functions that walk it.

A node is `{"device": number}`, or one kind with its table: `{"md": {…}}`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Node = Mapping[str, Any]


def below(table: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    """Yields the parts of an array or a volume with their keys, without missing members."""
    for name in table.get("members", []):
        node = name.get("node", name)  # md's are slots
        if node is not None:
            yield "members", node
    for key in ("origin", "backing", "cache"):
        if key in table:
            yield key, table[key]


def built(node: Node) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each array and volume of a stack with its kind, lower ones first."""
    if "device" in node:
        return
    ((kind, table),) = node.items()
    for _, child in below(table):
        yield from built(child)
    yield kind, table
