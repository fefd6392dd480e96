use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, Default, PartialEq)]
struct EventSum(u64);

impl Merge for EventSum {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

fn of(times: &[u64], most: usize) -> Timeline<EventSum> {
    let mut line = Timeline::<EventSum>::new(most);
    times.iter().for_each(|&time| line.at(time).0 += 1);
    line
}

#[test]
fn widens_in_pairs() {
    let ms = 1u64 << 20;
    let line = of(&[0, ms, 2 * ms, 3 * ms, 3 * ms, 4 * ms], 4);
    assert_eq!(line.width_ns(), 2 * ms);
    assert_eq!(line.iter().map(|(start, sum)| (start / ms, sum.0)).collect::<Vec<_>>(), [(0, 2), (2, 3), (4, 1)]);
}

#[test]
fn the_end_of_time_is_reached_at_once() {
    let line = of(&[5, u64::MAX, 7], 512);
    assert_eq!((line.buckets.len(), line.width_ns()), (512, 1 << 55));
    assert_eq!(line.iter().next(), Some((0, &EventSum(2))));
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(
        times in prop::collection::vec((any::<u64>(), 0u32..64), 0..60),
        cut in 0usize..60, left in 2usize..40, right in 2usize..40,
    ) {
        let times: Vec<u64> = times.iter().map(|&(time, shift)| time >> shift).collect();
        let cut = cut.min(times.len());
        let mut merged = of(&times[..cut], left);
        merged.merge(&of(&times[cut..], right));
        let expected = of(&times, left.min(right));
        prop_assert_eq!(merged.width_ns(), expected.width_ns());
        prop_assert_eq!(
            merged.iter().collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
    }
}
