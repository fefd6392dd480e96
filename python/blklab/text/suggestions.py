"""Suggests a known word for one that is not known."""

from collections.abc import Iterable

from blklab.text.printing import printable


def similar(word: str, known_words: Iterable[str]) -> str:
    """Returns the end of a message that already lists what is known: `; did you mean 'sda'?`, or nothing."""
    import difflib  # Slow to load, and needed for errors only

    matches = difflib.get_close_matches(word, list(known_words), n=1)
    return f"; did you mean {printable(matches[0])!r}?" if matches else ""
