use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_single_value_comes_back_within_the_stated_error(value in any::<u64>(), bits in 0u32..64) {
        let value = value >> bits;
        let (mut fine, mut coarse) = (LogLinear::<7>::default(), LogLinear::<3>::default());
        fine.record(value);
        coarse.record(value);
        for (quantile, error) in [
            (fine.quantile(0.5).unwrap(), 0.5 / 128.0),
            (coarse.quantile(0.5).unwrap(), 0.5 / 8.0),
        ] {
            prop_assert!(quantile.abs_diff(value) as f64 <= error * value as f64 + 1e-9, "{value} came back as {quantile}");
        }
    }

    #[test]
    fn merged_parts_equal_the_whole(a in proptest::collection::vec(any::<u64>(), 0..50), b in proptest::collection::vec(any::<u64>(), 0..50)) {
        let fill = |values: &[u64]| {
            let mut sketch = LogLinear::<3>::default();
            values.iter().for_each(|&v| sketch.record(v));
            sketch
        };
        let mut merged = fill(&a);
        merged.merge(&fill(&b));
        let expected: Vec<u64> = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(merged, fill(&expected));
    }
}

#[test]
fn neighbouring_buckets_do_not_overlap() {
    for value in (0..4096).chain((10..63).map(|shift| (1u64 << shift) - 1)) {
        let (here, next) = (LogLinear::<3>::bucket(value), LogLinear::<3>::bucket(value + 1));
        assert!(next == here || next == here + 1, "{value}");
    }
}
