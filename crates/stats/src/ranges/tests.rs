use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn ranges_cover_exactly_the_blocks(first in any::<u64>(), down in 0u32..64, count in 0u64..1000) {
        let first = first >> down;
        let blocks: Vec<u64> = ranges_of(first, count).flat_map(|(range, bits)| blocks_of(range, bits)).collect();
        let expected: Vec<u64> = (first..first.saturating_add(count)).collect();
        prop_assert_eq!(blocks, expected);
    }

    #[test]
    fn a_sample_has_one_block_of_every_group_and_contains_the_higher_levels(range: u64) {
        let hash = hash64(range);
        let mut below = WHOLE;
        for level in 0..70 {
            let sampled = sample(range, hash, level);
            prop_assert_eq!(sampled & !below, 0);
            if level <= RANGE_SHIFT {
                let groups = (0..64 >> level).map(|group| sampled >> (group << level) & (WHOLE >> (64 - (1 << level))));
                prop_assert!(groups.map(u64::count_ones).all(|blocks| blocks == 1));
            }
            below = sampled;
        }
    }
}

#[test]
fn every_block_of_a_range_is_sampled_equally_often() {
    for level in [1, 3, 6, 8] {
        let mut often = [0u32; 64];
        let ranges = 400_000u64;
        for range in 0..ranges {
            blocks_of(0, sample(range, hash64(range), level)).for_each(|bit| often[bit as usize] += 1);
        }
        let expected = ranges as f64 / f64::from(1 << level);
        let farthest = often.iter().map(|&n| (f64::from(n) - expected).abs()).fold(0.0, f64::max);
        assert!(farthest < 4.5 * expected.sqrt(), "level {level}: {farthest} from {expected}");
    }
}
