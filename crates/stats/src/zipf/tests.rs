use super::*;
use crate::Hotness;
use crate::tests::{Random, Zipf, popularity_of};
use proptest::prelude::*;

fn of(blocks: usize, accesses: usize, mut draw: impl FnMut(&mut Random) -> u64) -> ZipfFit {
    let (mut counts, mut random) = (vec![0u64; blocks], Random(5));
    for _ in 0..accesses {
        counts[draw(&mut random) as usize] += 1;
    }
    fit(&popularity_of(counts))
}

#[test]
fn exponents_are_found() {
    for s in [0.6, 0.8, 1.0, 1.2, 1.5] {
        for (blocks, each) in [(1000, 10), (1000, 30), (1000, 100), (100_000, 10), (100_000, 30)] {
            let zipf = Zipf::new(blocks, s);
            let fit_result = of(blocks, blocks * each, |random| zipf.draw(random));
            let error = fit_result.exponent.unwrap() - s;
            assert!(error.abs() < 0.03, "{s} {blocks} {each}: {fit_result:?}");
            assert_eq!(fit_result.verdict, ZipfVerdict::Zipf, "{s} {blocks} {each}: {fit_result:?}");
        }
    }
}

#[test]
fn a_short_trace_of_a_large_disk_is_zipf() {
    for s in [0.8, 1.0, 1.2] {
        for accesses in [50_000, 200_000, 2_000_000] {
            let zipf = Zipf::new(1_000_000, s);
            let fit_result = of(1_000_000, accesses, |random| zipf.draw(random));
            let error = fit_result.exponent.unwrap() - s;
            assert!(error.abs() < 0.03, "{s} {accesses}: {fit_result:?}");
            assert_eq!(fit_result.verdict, ZipfVerdict::Zipf, "{s} {accesses}: {fit_result:?}");
        }
    }
}

#[test]
fn exponents_are_found_in_a_sample() {
    for s in [0.6, 0.8, 1.0, 1.2, 1.5] {
        let (zipf, mut random) = (Zipf::new(200_000, s), Random(6));
        let mut hotness = Hotness::new(1 << 13);
        for _ in 0..2_000_000 {
            hotness.record(zipf.draw(&mut random), 1, false);
        }
        let fit_result = hotness.summary().zipf;
        let error = fit_result.exponent.unwrap() - s;
        assert!(error.abs() < 0.03, "{s}: {fit_result:?}");
        assert_eq!(fit_result.verdict, ZipfVerdict::Zipf, "{s}: {fit_result:?}");
    }
}

#[test]
fn others_are_not_zipf() {
    for each in [2, 10, 100] {
        let uniform = of(10_000, 10_000 * each, |random| random.below(10_000));
        assert_eq!(uniform.verdict, ZipfVerdict::Uniform, "{uniform:?}");
        for (hot, share) in [(1000, 90), (100, 90), (2000, 80), (100, 50)] {
            let two_level = of(10_000, 10_000 * each, |random| {
                if random.below(100) < share { random.below(hot) } else { hot + random.below(10_000 - hot) }
            });
            assert_eq!(two_level.verdict, ZipfVerdict::NotZipf, "{two_level:?}");
        }
    }
    let mut next = 0;
    let scan = of(10_000, 10_000, |_| {
        next += 1;
        next - 1
    });
    assert_eq!(scan.verdict, ZipfVerdict::NotZipf, "{scan:?}");
    assert_eq!(fit(&Popularity::default()).exponent, None);
}

#[test]
fn sums_agree_with_adding() {
    let logs: Vec<f64> = (1..=HEAD).map(|rank| (rank as f64).ln()).collect();
    for s in [0.0, 0.5, 1.0, 1.000_000_1, 2.5] {
        let exact: f64 = (1..=5000).map(|rank| f64::from(rank).powf(-s)).sum();
        assert!((PowerSums::new(s, &logs).sums(5000.0).0 / exact - 1.0).abs() < 1e-6);
    }
}

proptest! {
    #[test]
    fn any_popularity_is_taken(
        counts in prop::collection::vec((any::<u64>(), 0u32..64), 0..120), times in 1usize..40,
    ) {
        let counts = counts.iter().map(|&(count, shift)| count >> shift);
        let all = std::iter::repeat_n(counts.collect::<Vec<_>>(), times).flatten();
        let fit_result = fit(&popularity_of(all));
        prop_assert!(fit_result.exponent.is_none_or(f64::is_finite));
        prop_assert!(fit_result.ks_distance.is_none_or(|ks| (0.0..=1.0).contains(&ks)), "{fit_result:?}");
        prop_assert!(fit_result.gain_over_uniform_nats.is_none_or(f64::is_finite));
    }
}

#[test]
fn shares_of_a_known_spread_are_exact() {
    // One block of 50 and ten of 5.
    let spread = popularity_of([50, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0]);
    assert_eq!((spread.blocks, spread.accesses), (11.0, 100.0));
    let shares = spread.shares(&[0.0, 1.0 / 11.0, 6.0 / 11.0, 1.0]);
    let io_shares: Vec<_> = shares.iter().map(|share| (share.io_share * 1000.0).round()).collect();
    assert_eq!(io_shares, [0.0, 500.0, 750.0, 1000.0]);
    assert_eq!(spread.curve(64).last().unwrap().io_share, 1.0);
    assert!(Popularity::default().curve(64).is_empty());
}
