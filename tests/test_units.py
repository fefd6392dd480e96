import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blklab.units import (
    NANOSECONDS,
    format_count,
    format_duration,
    format_rate,
    format_size,
    numbers_in,
    parse_duration,
    parse_size,
    row_order,
)

SIZES = st.integers(0, 2**63)
DURATIONS = st.integers(0, 2**63)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4Ki", None),
        ("4KiB", 4096),
        ("4kib", 4096),
        (" 10 GiB ", 10 * 2**30),
        ("1.5m", 3 * 2**19),
        ("0.5k", 512),
        ("2t", 2 * 2**40),
        ("1p", 2**50),
        ("1e", 2**60),
        ("", None),
        ("k", None),
        ("-1", None),
        ("1.3", None),
        ("0.0001k", None),
        ("iB", None),
        ("5iB", None),
        ("4 k k", None),
        ("4x", None),
        ("1e3", None),
        ("٣", None),
        ("4\N{KELVIN SIGN}", None),
    ],
)
def test_sizes_are_read_as_fio_reads_them(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(ValueError, match=r"size|whole number"):
            parse_size(text)
    else:
        assert parse_size(text) == size


def test_a_decimal_looking_suffix_is_refused_with_the_alternatives() -> None:
    with pytest.raises(ValueError, match=r"write 10GiB .or 10g. for 1024"):
        parse_size("10GB")


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("1.5s", 1_500_000_000),
        ("200ms", 200_000_000),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("10μs", 10_000),
        ("7ns", 7),
        ("2", 2_000_000_000),
        ("0.25", 250_000_000),
        ("1h30m", 5_400 * 10**9),
        ("1m 30s", 90 * 10**9),
        ("1d", 86_400 * 10**9),
        ("2 ms", 2_000_000),
        ("", None),
        ("s", None),
        ("-1s", None),
        ("1.5ns", None),
        ("1h30", None),
        ("1x", None),
        ("1s!", None),
        ("!1s", None),
        ("1S", None),
        ("٣s", None),
    ],
)
def test_durations_are_read(text: str, duration: int | None) -> None:
    if duration is None:
        with pytest.raises(ValueError, match=r"duration|whole number"):
            parse_duration(text)
    else:
        assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.50 KiB"),
        (4096, "4 KiB"),
        (1024 * 1024 - 1, "1.00 MiB"),
        (12_897_485, "12.3 MiB"),
        (-4096, "-4 KiB"),
    ],
)
def test_sizes_are_printed(size: int, text: str) -> None:
    assert format_size(size) == text
    assert format_rate(size) == text + "/s"


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (12_345, "12.3 µs"),
        (999_999, "1.00 ms"),
        (4_560_000, "4.56 ms"),
        (1_500_000_000, "1.50 s"),
        (59_949_000_000, "59.9 s"),
        (59_950_000_000, "1m 00s"),
        (125_000_000_000, "2m 05s"),
        (3_599_600_000_000, "1h 00m"),
        (3_725_000_000_000, "1h 02m"),
        (86_399_000_000_000, "1d 00h"),
        (100_000_000_000_000, "1d 04h"),
        (-850, "-850 ns"),
    ],
)
def test_durations_are_printed(duration: int, text: str) -> None:
    assert format_duration(duration) == text


def test_counts_are_printed() -> None:
    assert format_count(1_234_567) == "1,234,567"


@given(SIZES)
@example(1024**2 - 1)
def test_a_printed_size_is_what_was_meant(size: int) -> None:
    text = format_size(size)
    number, unit = text.split()
    digits = float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert abs(digits - size) <= size * 0.005
    assert float(number) < 1024


@given(st.integers(0, 4096), st.sampled_from("kmgtpeKMGTPE"), st.sampled_from(["", "iB", "ib"]))
def test_prefixes_are_powers_of_1024(number: int, prefix: str, unit: str) -> None:
    power = "kmgtpe".index(prefix.lower()) + 1
    assert parse_size(f"{number}{prefix}{unit}") == number * 1024**power


@given(st.integers(0, 200_000), st.sampled_from(sorted(NANOSECONDS)))
def test_suffixes_are_their_length(number: int, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == number * NANOSECONDS[unit]


@given(st.integers(0, 59_949_000_000))
def test_a_short_printed_duration_is_what_was_meant(duration: int) -> None:
    number, unit = format_duration(duration).split()
    assert abs(float(number) * NANOSECONDS[unit] - duration) <= duration * 0.005


@given(st.integers(59_950_000_000, 10**18))
def test_a_long_printed_duration_is_read_back_within_its_last_unit(duration: int) -> None:
    text = format_duration(duration)
    unit = {"s": "s", "m": "m", "h": "h"}[text[-1]]
    assert abs(parse_duration(text) - duration) <= NANOSECONDS[unit]


@given(DURATIONS, DURATIONS)
def test_longer_never_prints_in_a_smaller_unit(item: int, other: int) -> None:
    rank = {"ns": 0, "µs": 1, "ms": 2, "s": 3, "m": 4, "h": 5, "d": 6}

    def unit(duration: int) -> int:
        words = format_duration(duration).split()
        is_compound = words[0][-1] in "mhd"
        return rank[words[0][-1]] if is_compound else rank[words[1]]

    shorter, longer = sorted((item, other))
    assert unit(shorter) <= unit(longer)


def test_durations_that_64_bits_do_not_hold_are_refused() -> None:
    assert parse_duration(f"{2**64 - 1}ns") == 2**64 - 1
    for text in (f"{2**64}ns", "300000d", "200000d 20000d"):
        with pytest.raises(ValueError, match="is too long"):
            parse_duration(text)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert repr(text) in str(error) or "1024" in str(error)


@pytest.mark.parametrize(
    ("label", "values", "ordered"),
    [
        ("iodepth", ["1", "16", "2", "as is", "8"], ["as is", "1", "2", "8", "16"]),
        ("bs", ["1m", "4k", "512", "64k"], ["512", "4k", "64k", "1m"]),
        ("workload", ["seq", "rand"], ["seq", "rand"]),
        ("kernel", ["4.19", "4.2"], ["4.19", "4.2"]),
    ],
)
def test_rows_are_in_the_order_of_numbers(label: str, values: list[str], ordered: list[str]) -> None:
    rows = [[value, repeat] for repeat in ("10", "9") for value in values]
    rows.sort(key=row_order([label, "repeat"], rows))
    assert rows == [[value, repeat] for value in ordered for repeat in ("9", "10")]


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["a-10.json", "a-2.json", "b-1.json", "a.json"], key=numbers_in) == [
        "a-2.json", "a-10.json", "a.json", "b-1.json",
    ]  # fmt: skip
