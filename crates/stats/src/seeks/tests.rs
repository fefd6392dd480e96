use super::*;
use proptest::prelude::*;

#[test]
fn known_distances_are_counted() {
    let mut seeks = Seeks::default();
    seeks.record(0, 8);
    seeks.record(8, 8); // 0
    seeks.record(116, 8); // +100
    seeks.record(0, 0); // a flush
    seeks.record(121, 1); // -3
    let summary = seeks.summary();
    let ranges: Vec<_> =
        summary.histogram.iter().map(|range| (range.low_sectors, range.high_sectors, range.count)).collect();
    assert_eq!(ranges, [(-3, -2, 1), (0, 0, 1), (64, 127, 1)]);
    assert_eq!(summary.median_distance_sectors, Some(3));
    assert_eq!(summary.mean_distance_sectors, Some(103.0 / 3.0));
}

proptest! {
    #[test]
    fn any_io_is_taken(ios in prop::collection::vec(any::<(u64, u64)>(), 0..100), cut in 0usize..100) {
        let (mut seeks, mut rest) = (Seeks::default(), Seeks::default());
        for (index, &(sector, sectors)) in ios.iter().enumerate() {
            // The part after the cut sees the last I/O before it, so that no distance is lost.
            if index <= cut {
                seeks.record(sector, sectors);
            }
            if index >= cut {
                rest.record(sector, sectors);
            }
        }
        let mut whole = Seeks::default();
        ios.iter().for_each(|&(sector, sectors)| whole.record(sector, sectors));
        seeks.merge(&rest);
        let summary = seeks.summary();
        if ios.iter().all(|io| io.1 > 0) {
            prop_assert_eq!(&summary, &whole.summary());
        }
        prop_assert_eq!(summary.zero + summary.forward + summary.backward, summary.count);
    }
}
