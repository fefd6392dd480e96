use super::*;
use proptest::prelude::*;

const ERROR: f64 = 0.0325; // Relative standard error of a count that is not exact

/// Two of every three blocks, in I/Os of `length` blocks.
fn of(blocks: std::ops::Range<u64>, length: u64) -> (Distinct, u64) {
    let (mut set, mut count) = (Distinct::default(), 0);
    for first in blocks.step_by(length as usize).filter(|first| !(first / length).is_multiple_of(3)) {
        set.insert(first, length);
        count += length;
    }
    (set, count)
}

fn is_exact(set: &Distinct) -> bool {
    matches!(set.0, DistinctStore::Exact(_))
}

#[test]
fn few_are_exact() {
    let mut set = Distinct::default();
    (0..64).for_each(|block| set.insert(block * 7, 1));
    set.insert(7, 1);
    assert_eq!((set.count(), is_exact(&set)), (64, true));
    assert_eq!(Distinct::default().count(), 0);
}

#[test]
fn many_are_within_four_standard_errors() {
    for length in [1, 8, 100, 256, 5000] {
        for size in [30_000u64, 100_000, 1_000_000, 10_000_000] {
            let (set, count) = of(0..size, length);
            let error = (set.count() as f64 / count as f64 - 1.0).abs();
            assert!(!is_exact(&set));
            assert!(error < 4.0 * ERROR, "{length} {size}: {error}");
        }
    }
}

#[test]
fn the_standard_error_is_as_stated() {
    for (length, count) in [(1, 700u64), (256, 25_600), (1, 20_000)] {
        let mut squares = 0.0;
        for trial in 0..400u64 {
            let mut set = Distinct::default();
            (0..count / length).for_each(|io| set.insert((hash64(trial << 32 | io) >> 20) / length * length, length));
            squares += (set.count() as f64 / count as f64 - 1.0).powi(2);
        }
        let error = (squares / 400.0).sqrt();
        assert!(error < 1.2 * ERROR, "{count} blocks in I/Os of {length}: {error}");
    }
}

#[test]
fn every_register_full_is_finite() {
    assert!(estimate(&[LONGEST + 1; 1 << PRECISION]) > 1e18);
}

proptest! {
    #[test]
    fn the_length_of_ios_and_their_order_do_not_count(
        cuts in prop::collection::vec(0u64..6000, 1..40), start in any::<u64>(), down in 0u32..64,
    ) {
        let start = start >> down;
        let mut sorted = cuts.clone();
        sorted.sort_unstable();
        let (mut parts, mut merged, mut whole) = (Distinct::default(), Distinct::default(), Distinct::default());
        let (low, high) = (start.saturating_add(sorted[0]), start.saturating_add(sorted[sorted.len() - 1]));
        for cut in cuts {
            let cut = start.saturating_add(cut);
            let mut part = Distinct::default();
            for (first, count) in [(low, cut - low), (cut, high - cut)] {
                parts.insert(first, count);
                part.insert(first, count);
            }
            merged.merge(&part);
        }
        whole.insert(low, high - low);
        prop_assert_eq!(parts.count(), whole.count());
        prop_assert_eq!(merged.count(), whole.count());
    }
}
