use super::*;

#[test]
fn patterns_match_as_in_a_shell() {
    for (pattern, name) in
        [("kworker*", "kworker/0:1"), ("*", ""), ("*/0:*H", "kworker/0:1H"), ("a?c", "aéc"), ("x", "x")]
    {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("kworker*", "xkworker"), ("a?c", "ac"), ("", "a"), ("*b", "abc"), ("a*b*c", "acb")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}

#[test]
fn times_of_day_are_those_around_the_start() {
    let hour = DAY / 24;
    let start = 20_000 * DAY + 20 * hour;
    assert_eq!(moment(21 * hour, start), start + hour);
    assert_eq!(moment(19 * hour, start), start - hour);
    assert_eq!(moment(6 * hour, start), start + 10 * hour);
    assert_eq!(moment(start + 5, start), start + 5);
}

#[test]
fn ranges_are_inclusive_and_need_data() {
    let sectors = Filter { first_sector: Some(16), last_sector: Some(23), ..Filter::default() };
    assert_eq!([0, 9, 16, 23, 24].map(|sector| sectors.wants_range(sector, 4096)), [false, true, true, true, false]);
    assert!(!sectors.wants_range(16, 0));
    let sizes = Filter { min_bytes: Some(4096), max_bytes: Some(8192), ..Filter::default() };
    assert_eq!([512, 4096, 8192, 8704].map(|bytes| sizes.wants_range(0, bytes)), [false, true, true, false]);
}
