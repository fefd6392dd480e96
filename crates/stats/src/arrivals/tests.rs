use super::*;
use crate::hash64;
use proptest::prelude::*;

fn of(times: impl IntoIterator<Item = u64>) -> Arrivals {
    let mut all = Arrivals::default();
    times.into_iter().for_each(|time| all.record(time));
    all
}

/// Exponential gaps of `mean` ns.
fn poisson(count: u64, mean: f64) -> Vec<u64> {
    let mut time = 0.0;
    (0..count)
        .map(|n| {
            let uniform = (hash64(n) >> 11) as f64 / (1u64 << 53) as f64;
            time -= mean * (1.0 - uniform).ln();
            time as u64
        })
        .collect()
}

#[test]
fn arrivals_get_the_expected_pattern() {
    let steady = of((0..50_000).map(|n| n * 100_000)).summary();
    assert_eq!(steady.pattern, Some(ArrivalPattern::Steady));
    assert!((steady.mean_iops.unwrap() - 10_000.0).abs() < 1e-6);
    assert_eq!(steady.peak_iops, 10_000);
    assert_eq!(steady.dispersion[0].index, Some(0.0));

    let random = of(poisson(200_000, 100_000.0)).summary();
    assert_eq!(random.pattern, Some(ArrivalPattern::Random), "{random:?}");
    for scale in &random.dispersion[..3] {
        assert!((scale.index.unwrap() - 1.0).abs() < 0.35, "{scale:?}");
    }

    // On for 50 ms, off for 450 ms.
    let bursts = poisson(100_000, 50_000.0).into_iter().map(|time| time / 50_000_000 * 500_000_000 + time % 50_000_000);
    assert_eq!(of(bursts).summary().pattern, Some(ArrivalPattern::Bursty));
    // Batches of 16, one for each millisecond: steady windows, but not steady gaps.
    let batches = of((0..20_000).map(|n| n / 16 * 1_000_000));
    assert_eq!(batches.summary().pattern, Some(ArrivalPattern::Bursty));
}

#[test]
fn windows_agree_with_counting_them() {
    let times = poisson(3000, 40_000_000.0);
    let all = of(times.iter().copied());
    for (at, width) in WINDOWS_NS.into_iter().enumerate() {
        let windows = ((times[2999] - times[0]) / width) as usize;
        let mut counts = vec![0u64; windows + 1];
        for time in &times {
            counts[((time - times[0]) / width) as usize] += 1;
        }
        let dispersion = all.dispersion(at);
        let sum: u64 = counts[..windows].iter().sum();
        let squares: u64 = counts[..windows].iter().map(|count| count * count).sum();
        assert_eq!(dispersion.windows, windows as u64);
        assert_eq!(dispersion.max_ios, *counts.iter().max().unwrap());
        assert_eq!((all.scales[at].sum, all.scales[at].squares), (sum, squares.into()));
    }
}

proptest! {
    #[test]
    fn any_times_are_taken(times in prop::collection::vec((any::<u64>(), 0u32..64), 0..200), cut in 0usize..200) {
        let times: Vec<u64> = times.iter().map(|&(time, shift)| time >> shift).collect();
        let cut = cut.min(times.len());
        let mut merged = of(times[..cut].iter().copied());
        merged.merge(&of(times[cut..].iter().copied()));
        let summary = merged.summary();
        prop_assert_eq!(summary.count, times.len() as u64);
        prop_assert!(summary.dispersion.iter().all(|d| d.index.is_none_or(f64::is_finite)));
        prop_assert!(summary.mean_iops.is_none_or(f64::is_finite));
    }
}
