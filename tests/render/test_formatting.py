from types import SimpleNamespace
from typing import Any

import pytest

from blklab.render import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0 %"), (0.0004, "<0.1 %"), (0.02, "2 %"), (0.0789, "7.9 %"),
        (0.37, "37 %"), (0.9904, "99 %"), (0.995, "99.5 %"), (0.99995, ">99.9 %"), (1, "100 %"),
    ],
)  # fmt: skip
def test_a_share_is_0_or_100_only_when_it_is(value: float | None, text: str) -> None:
    assert formatting.share(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0, "0"), (1.5, "1.5"), (22.22, "22.2"), (2260.5, "2,260")])
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert formatting.number(value) == text


def test_words_are_counted_and_listed() -> None:
    assert formatting.plural(1, "I/O") == "1 I/O"
    assert formatting.plural(1234, "process", "processes") == "1,234 processes"
    assert formatting.listing([]) == ""
    assert formatting.listing(["a"]) == "a"
    assert formatting.listing(["a", "b", "c"]) == "a, b and c"
    assert formatting.ops("flush") == "flushes"


@pytest.mark.parametrize(
    ("reason", "output"),
    [
        (
            "only 1 distinct blocks were accessed: too few to tell",
            "only 1 distinct block was accessed: too few to tell",
        ),
        (
            "only 11 distinct blocks were accessed: too few to tell",
            "only 11 distinct blocks were accessed: too few to tell",
        ),
        (
            "blocks were accessed 0.99 times each: too rarely to tell.",
            "blocks were accessed about once each: too rarely to tell",
        ),
        ("blocks were accessed 1.04 times each", "blocks were accessed about once each"),
        ("blocks were accessed 1.05 times each", "blocks were accessed 1.05 times each"),
        ("blocks were accessed 11.00 times each", "blocks were accessed 11.00 times each"),
    ],
)
def test_why_it_is_not_zipfs_law(reason: str, output: str) -> None:
    fit: Any = SimpleNamespace(reason=reason)
    assert formatting.zipf_reason(fit) == output
