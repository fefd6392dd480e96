"""Finds the parts by which names differ."""

import re
from collections.abc import Sequence


def differing(names: Sequence[str]) -> list[str]:
    """Returns the part of each name by which it differs from the others, in the same order."""
    if len(names) < 2:
        return list(names)
    if len({re.sub(r":\d{1,9}$", "", name) for name in names}) == 1 and len(set(names)) > 1:
        return [f"line {name.rpartition(':')[2]}" for name in names]
    words = [re.findall(r"[^\W_]+|#", name) for name in names]
    start = common_start(words)
    end = common_start([each[start:][::-1] for each in words])
    short = ["-".join(each[start : len(each) - end]) for each in words]
    return short if all(short) and len(set(short)) == len(short) else list(names)


def common_start(words: Sequence[Sequence[str]]) -> int:
    """Returns how many first words all names share."""
    columns = enumerate(zip(*words, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, words)))
