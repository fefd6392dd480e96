"""bssplit: whole percents of exact sizes."""

from hypothesis import given
from hypothesis import strategies as st

from blklab.trace.fio.plan import MOST_SIZES, SizeShare, alignment, mean, split

COUNTS = st.lists(st.tuples(st.integers(1, 1 << 25), st.integers(1, 10**7)), min_size=1, max_size=200)
SECTORS = st.lists(
    st.tuples(st.integers(1, 4096).map(lambda n: n * 512), st.integers(1, 10**6)),
    min_size=1,
    max_size=60,
    unique_by=lambda pair: pair[0],
)


def largest_gap(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> float:
    """Returns the largest difference between two cumulative distributions of sizes, 0..=1."""

    def share(counts: list[tuple[int, int]], limit: int) -> float:
        return sum(count for size, count in counts if size <= limit) / sum(count for _, count in counts)

    return max(abs(share(mine, size) - share(theirs, size)) for size, _ in [*mine, *theirs])


@given(COUNTS)
def test_percents_are_whole_and_sum_to_a_hundred(counts: list[tuple[int, int]]) -> None:
    shares = split(counts)
    assert sum(share.percent for share in shares) == 100
    assert all(share.percent >= 1 for share in shares)
    assert len(shares) <= MOST_SIZES
    sizes = [share.bytes for share in shares]
    assert sizes == sorted(set(sizes))
    assert set(sizes) <= {-(-size // 512) * 512 for size, _ in counts}


@given(SECTORS)
def test_no_more_than_a_point_off_anywhere(counts: list[tuple[int, int]]) -> None:
    shares = split(counts)
    assert largest_gap(counts, [(share.bytes, share.percent) for share in shares]) <= 0.01 + 1e-9


@given(COUNTS, st.integers(1, 8))
def test_folding_keeps_the_sum(counts: list[tuple[int, int]], most: int) -> None:
    shares = split(counts, most)
    assert len(shares) <= most
    assert sum(share.percent for share in shares) == 100


@given(COUNTS)
def test_offsets_can_be_aligned(counts: list[tuple[int, int]]) -> None:
    shares = split(counts)
    align = alignment(shares)
    assert 512 <= align <= 4096
    assert all(share.bytes % align == 0 for share in shares)


def test_a_known_mix() -> None:
    assert split([(4096, 750), (8192, 242), (131072, 8)]) == (
        SizeShare(4096, 75),
        SizeShare(8192, 24),
        SizeShare(131072, 1),
    )
    assert split([]) == ()
    assert split([(0, 10)]) == ()
    assert mean((SizeShare(4096, 75), SizeShare(8192, 25))) == 5120


def test_odd_sizes_become_sectors() -> None:
    assert split([(1, 1)]) == (SizeShare(512, 100),)
