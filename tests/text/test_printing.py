import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.text.printing import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kworker/u8:1", "kworker/u8:1"),
        ("größe — 表", "größe — 表"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc", r"a\x0ab\x09c"),
        ("\x9b31m", r"\x9b31m"),
        ("evil\u202etxt", r"evil\u202etxt"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_could_act_on_a_terminal_is_spelt_out(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(character).startswith("C") for character in shown)
    assert printable(shown) == shown
    shown.encode()
