"""Finds the parts by which names differ."""

import re
from collections.abc import Sequence

WORD = re.compile(r"\d+(?:\.\d+)+|[^\W_]+|#")  # A version is one word: of 6.1 and 6.8, no part is common


def differing(names: Sequence[str]) -> list[str]:
    """Returns the part of each name by which it differs from the others, in the same order."""
    if len(names) < 2:
        return list(names)
    if len({re.sub(r":\d{1,9}$", "", name) for name in names}) == 1 and len(set(names)) > 1:
        return [f"line {name.rpartition(':')[2]}" for name in names]
    word_lists = [WORD.findall(name) for name in names]
    start = common_start(word_lists)
    end = common_start([name_words[start:][::-1] for name_words in word_lists])
    short = ["-".join(name_words[start : len(name_words) - end]) for name_words in word_lists]
    return short if all(short) and len(set(short)) == len(short) else list(names)


def common_start(word_lists: Sequence[Sequence[str]]) -> int:
    """Returns how many first words all names share."""
    columns = enumerate(zip(*word_lists, strict=False))
    return next((index for index, column in columns if len(set(column)) > 1), min(map(len, word_lists)))
