use super::*;
use proptest::prelude::*;

fn of(values: &[u64]) -> Quantiles {
    let mut all = Quantiles::default();
    values.iter().for_each(|&value| all.record(value));
    all
}

#[test]
fn empty_has_no_figures() {
    let summary = Quantiles::default().summary();
    assert_eq!((summary.count, summary.mean, summary.p50), (0, None, None));
    assert!(Quantiles::default().log_buckets(10).is_empty());
}

#[test]
fn one_to_a_hundred() {
    let summary = of(&(1..=100).collect::<Vec<_>>()).summary();
    assert_eq!(summary.p1, Some(1));
    assert_eq!(summary.p50, Some(50));
    assert_eq!(summary.p99, Some(99));
    assert_eq!(summary.p99_99, Some(100));
    assert_eq!(summary.mean, Some(50.5));
    assert!((summary.stddev.unwrap() - 28.866_070_047_722_12).abs() < 1e-12);
    assert_eq!(summary.relative_error, 0.0);
}

#[test]
fn log_buckets_hold_every_value_once() {
    let buckets = of(&[0, 1, 9, 10, 99, 100, u64::MAX]).log_buckets(1);
    assert_eq!(buckets[0], (0, 1, 1));
    assert_eq!(buckets[1], (1, 10, 2));
    assert_eq!(buckets[2], (10, 100, 2));
    assert_eq!(buckets.last().unwrap().1, u64::MAX);
    assert_eq!(buckets.iter().map(|bucket| bucket.2).sum::<u64>(), 7);
}

#[test]
fn a_small_spread_about_a_large_mean_is_exact() {
    let values: Vec<u64> = (0..10_000).map(|i| (1 << 50) + i % 2).collect();
    assert_eq!(of(&values).stddev(), Some(0.5));
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole_and_the_error_is_bounded(
        seeds in prop::collection::vec((any::<u64>(), 0u32..64), 1..200),
        times in 1usize..60,
        cut in 0.0f64..1.0,
    ) {
        let values: Vec<u64> = (0..times)
            .flat_map(|t| seeds.iter().map(move |&(seed, shift)| (seed >> shift).wrapping_add(t as u64)))
            .collect();
        let cut = (values.len() as f64 * cut) as usize;
        let expected = of(&values);
        let mut merged = of(&values[..cut]);
        merged.merge(&of(&values[cut..]));
        prop_assert_eq!(expected.summary(), merged.summary());
        prop_assert_eq!(expected.sum(), values.iter().map(|&v| u128::from(v)).sum::<u128>());
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for fraction in [0.0, 0.01, 0.5, 0.9, 0.999, 1.0] {
            let truth = sorted[nearest_rank(fraction, sorted.len() as u64) as usize - 1];
            let quantile = expected.quantiles([fraction])[0].unwrap();
            let error = expected.summary().relative_error;
            prop_assert!(quantile.abs_diff(truth) as f64 <= error * truth as f64, "{quantile} {truth}");
        }
        let summary = expected.summary();
        prop_assert!(summary.mean.unwrap().is_finite() && summary.stddev.unwrap().is_finite());
        prop_assert_eq!(
            expected.log_buckets(5).iter().map(|bucket| bucket.2).sum::<u64>(),
            expected.count()
        );
    }
}
