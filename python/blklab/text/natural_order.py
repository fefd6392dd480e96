"""Sorts names as the kernel counts them."""

import re


def natural_order(name: str) -> list[tuple[int, str]]:
    """Returns what sorts names as the kernel counts them: md2 before md10, sdz before sdaa."""
    return [(len(part), part) for part in re.findall(r"\d+|\D+", name)]
