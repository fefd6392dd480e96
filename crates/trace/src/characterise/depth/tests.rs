use super::*;

#[test]
fn only_the_window_counts() {
    let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
    let mut depth = QueueDepth::new(&filter, 0);
    depth.set(10, 3);
    depth.set(150, 1);
    depth.set(300, 9);
    depth.end(400);
    let summary = depth.summary(0);
    assert_eq!((summary.time_ns, summary.max, summary.mean), (100, 3, Some(2.0)));
}

#[test]
fn a_window_without_changes_has_the_depth_it_opened_with() {
    let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
    let mut depth = QueueDepth::new(&filter, 0);
    depth.set(10, 2);
    depth.end(1000);
    assert_eq!(depth.summary(0).mean, Some(2.0));
}

#[test]
fn slices_have_the_mean_depth_and_the_share_of_busy_time() {
    let width = 1 << 20;
    let mut depth = QueueDepth::new(&Filter::default(), 0);
    depth.set(width / 2, 2);
    depth.set(width / 2 + 1000, 4);
    depth.set(3 * width, 0);
    depth.set(5 * width, 1);
    depth.end(5 * width + width / 4);
    let slices = depth.over_time().slices;
    let figures: Vec<_> = slices.iter().map(|slice| (slice.area_ns, slice.max, slice.busy_ns)).collect();
    assert_eq!(figures[..3], [(4 * (width / 2 - 500), 4, width / 2), (4 * width, 4, width), (4 * width, 4, width)]);
    assert_eq!(figures[5], (width / 4, 1, width / 4));
}

#[test]
fn a_long_trace_has_few_slices_with_the_same_time() {
    let mut depth = QueueDepth::new(&Filter::default(), 0);
    depth.set(7, 3);
    depth.set(1 << 50, 0);
    depth.end(1 << 51);
    let series = depth.over_time();
    assert!(series.slices.len() <= 512);
    assert_eq!(series.slices.iter().map(|slice| slice.busy_ns).sum::<u64>(), (1 << 50) - 7);
}
