use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn insert_and_remove_keep_requests_sorted(steps in prop::collection::vec((0u64..300, 0usize..200, 0usize..5), 1..600)) {
        let mut sorted = SortedRequests::default();
        let mut known: Vec<(u64, u32)> = Vec::new();
        for (number, (sector, at, choice)) in (0u32..).zip(steps) {
            if choice > 1 || known.is_empty() {
                let place = known.partition_point(|&(other, _)| other <= sector);
                known.insert(place, (sector, number));
                // With the right hint and with a wrong one.
                let hint = if choice > 2 { place } else { at };
                sorted.insert(hint, SortedRequest { sector, number, ticket: number });
            } else {
                let place = at % known.len();
                let (_, number) = known.remove(place);
                prop_assert_eq!(sorted.remove(place).number, number);
            }
            let listed: Vec<_> = sorted.iter().map(|w| (w.sector, w.number)).collect();
            prop_assert_eq!(&listed, &known);
            prop_assert_eq!(sorted.count_before(sector), known.partition_point(|&(other, _)| other < sector));
            prop_assert!(sorted.get(known.len()).is_none());
            prop_assert!(sorted.slots[sorted.len..].iter().all(|w| w.sector == u64::MAX));
        }
    }
}
