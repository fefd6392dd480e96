use super::*;

#[test]
fn only_the_window_counts() {
    let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
    let mut depth = QueueDepth::new(&filter);
    depth.set(10, 3);
    depth.set(150, 1);
    depth.set(300, 9);
    let summary = depth.summary(400);
    assert_eq!((summary.time_ns, summary.max, summary.mean), (100, 3, Some(2.0)));
}

#[test]
fn a_window_without_changes_has_the_depth_it_opened_with() {
    let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
    let mut depth = QueueDepth::new(&filter);
    depth.set(10, 2);
    assert_eq!(depth.summary(1000).mean, Some(2.0));
}
