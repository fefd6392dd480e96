use super::*;
use proptest::prelude::*;

fn of(values: std::ops::Range<u64>, precision: u8) -> Distinct {
    let mut set = Distinct::new(precision);
    values.for_each(|value| set.insert(value));
    set
}

#[test]
fn few_are_exact() {
    let mut set = of(0..1024, 14);
    (0..1024).for_each(|value| set.insert(value));
    assert_eq!(set.summary().count, 1024);
    assert_eq!(set.summary().relative_error, 0.0);
    assert_eq!(Distinct::default().count(), 0);
}

#[test]
fn many_are_within_four_standard_errors() {
    for (precision, sizes) in [(14u8, [1100u64, 20_000, 1_000_000]), (10, [70, 1000, 100_000])] {
        for size in sizes {
            let set = of(0..size, precision);
            let error = (set.count() as f64 / size as f64 - 1.0).abs();
            assert!(!set.is_exact());
            assert!(error < 4.0 * set.summary().relative_error, "{precision} {size}: {error}");
        }
    }
}

#[test]
fn every_register_full_is_finite() {
    let mut set = of(0..2000, 4);
    (0..16u64).for_each(|index| set.insert_hash(index << 60));
    assert!(set.count() > 1 << 60);
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(
        size in 0u64..6000, cut in 0.0f64..1.0, overlap in 0u64..50,
        left in 8u8..15, right in 8u8..15,
    ) {
        let cut = (size as f64 * cut) as u64;
        let mut merged = of(0..cut, left);
        merged.merge(&of(cut.saturating_sub(overlap)..size, right));
        let expected = of(0..size, left.min(right));
        // A part can have left the exact stage only at the lower precision.
        prop_assert_eq!(merged.count(), expected.count());
    }

    #[test]
    fn any_hash_is_taken(hashes in prop::collection::vec(any::<u64>(), 0..200), precision: u8) {
        let mut set = Distinct::new(precision);
        hashes.iter().for_each(|&hash| set.insert_hash(hash));
        set.count();
    }
}
