import ast
import re
import string
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blklab
from blklab.text import printable, toml_file


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


def test_texts_and_their_words_are_those_that_the_code_names() -> None:
    package = Path(blklab.__file__).parent
    known = {
        "wording": toml_file("blklab", "text.toml"),
        "formatting.note": toml_file("blklab.report", "assets/words.toml")["notes"],
    }
    named = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func, [ast.Constant(str(name))], words) if (function := ast.unparse(func)) in known:
                    fields = {field for *_, field, _, _ in string.Formatter().parse(known[function][name]) if field}
                    needed = {re.split(r"[.\[]", field)[0] for field in fields}
                    assert None in (given := {word.arg for word in words}) or needed == given, f"{path}:{node.lineno}"
                    named.add((function, name))
    assert {name for function, name in named if function == "wording"} == set(known["wording"])
