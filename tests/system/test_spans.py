"""Runs of bytes, cut: against sets of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from blklab.system.spans import Span, spans_within, spans_without

EDGES = st.tuples(st.integers(0, 60), st.integers(0, 20))

RUNS = st.lists(EDGES, max_size=4).map(
    lambda pieces: [Span(100 * at + begin, 100 * at + begin + many + 1, 5000 + 100 * at + begin)
                   for at, (begin, many) in enumerate(pieces)]
)  # fmt: skip


def held(spans: list[Span]) -> set[tuple[int, int]]:
    """Every byte, and where it is on the array."""
    return {(at, item.array + at - item.begin) for item in spans for at in range(item.begin, item.end)}


@given(RUNS, st.integers(0, 400), st.integers(0, 400))
def test_what_is_within(spans: list[Span], begin: int, end: int) -> None:
    assert held(spans_within(spans, begin, end)) == {
        item for item in held(spans) if begin <= item[0] < end
    }  # fmt: skip


@given(RUNS, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=4))
def test_what_is_without(spans: list[Span], taken: list[tuple[int, int]]) -> None:
    assert held(spans_without(spans, taken)) == {
        item for item in held(spans) if not any(begin <= item[0] < end for begin, end in taken)
    }
