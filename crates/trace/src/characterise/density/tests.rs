use super::*;

#[test]
fn levels_are_binary_digits() {
    let row = DensityRow::new(0, 8, &[[0, 1], [1, 0], [2, 0], [3, 0], [4, 0], [1 << 40, 0], [0, 0]]);
    assert_eq!((row.read_levels.as_str(), row.write_levels.as_str()), (".1223z", "1"));
    assert_eq!((row.reads, row.writes), (10 + (1 << 40), 1));
}

#[test]
fn latencies_are_in_the_row_and_slice_where_they_occurred() {
    let mut slices: Vec<[LogLinear<3>; 2]> = vec![Default::default(); 3];
    slices[0][0].record(1000);
    slices[2][0].record(1023);
    slices[2][1].record(5_000_000);
    let rows = latency_rows(slices.iter());
    let [fast, slow] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((fast.low, fast.end, fast.read_levels.as_str(), fast.writes), (896, 1024, "1.1", 0));
    assert!(slow.low <= 5_000_000 && 5_000_000 < slow.end && slow.end * 4 <= slow.low * 5);
    assert_eq!((slow.write_levels.as_str(), slow.reads), ("..1", 0));
}
