"""TOML that blklab writes can be read again, for every text in it."""

import tomllib

from blklab.calibrate.fit import toml_line


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
