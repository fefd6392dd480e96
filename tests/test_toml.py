"""TOML that blklab writes can be read again, for every text in it. Files of users have limits."""

import tomllib
from pathlib import Path

import pytest

from blklab.calibrate.fit import toml_line
from blklab.errors import UsageError
from blklab.toml_files.files import MOST_PARTS, read_toml


def test_delete_character_in_a_text_is_escaped() -> None:
    """U+007F, which TOML forbids in a text, came raw from a file's name into a calibrated file."""
    line = toml_line("source", "calibrated from a\x7fb")
    assert "\x7f" not in line
    assert tomllib.loads(line) == {"source": "calibrated from a\x7fb"}


def test_a_table_in_a_line_stays_in_it() -> None:
    """Its own heading would end the table that the line belongs to."""
    line = toml_line("uncertainty", {"read": 0.05, "write": 1_000})
    assert "\n" not in line
    assert tomllib.loads(f"[device]\n{line}\nlast = 1\n") == {
        "device": {"uncertainty": {"read": 0.05, "write": 1_000}, "last": 1}
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"seed = {'9' * 5000}\n", "a number has too many digits: expected at most 19"),
        (f"title = 'x'\n{'a.' * 20_000}b = 1\n", "line 2: a key has more than 1,000 parts"),
        (f"[{'a.' * 20_000}b]\n", "line 1: a key has more than 1,000 parts"),
    ],
)
def test_a_file_without_end_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_toml(path)
    assert str(caught.value) == f"{path}: {message}"


def test_dots_in_a_value_are_no_parts_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(f"title = '{'.' * (2 * MOST_PARTS)}'\n")
    assert len(read_toml(path)["title"]) == 2 * MOST_PARTS
