use super::*;
use proptest::prelude::*;

#[test]
fn a_known_depth_has_exact_figures() {
    let mut depth = Level::default();
    depth.advance(0);
    depth.set(100, 1); // idle 100
    depth.set(200, 2); // one for 100
    depth.set(500, 1); // two for 300
    depth.set(600, 0); // one for 100
    depth.advance(1000); // idle 400
    let summary = depth.summary();
    assert_eq!(summary.time_ns, 1000);
    assert_eq!(summary.mean, Some(0.8));
    assert_eq!(summary.mean_when_busy, Some(1.6));
    assert_eq!(summary.idle_share, Some(0.5));
    assert_eq!((summary.p50, summary.p95, summary.max), (Some(0), Some(2), 2));
}

#[test]
fn backwards_are_counted() {
    let mut depth = Level::default();
    depth.set(100, 1);
    depth.set(50, 0);
    depth.set(150, 1);
    let summary = depth.summary();
    assert_eq!(summary.backwards, 1);
    assert_eq!(summary.time_ns, 50);
}

#[test]
fn the_histogram_is_compact() {
    let mut depth = Level::default();
    for level in 0..10_000u64 {
        depth.set(level, level);
    }
    let histogram = depth.summary().histogram;
    let ends: Vec<_> = histogram.iter().map(|r| (r.low, r.high)).collect();
    assert_eq!(
        ends[64..],
        [(64, 64), (65, 127), (128, 255), (256, 511), (512, 1023), (1024, 2047), (2048, 4095), (4096, 9999)]
    );
    assert_eq!(histogram.iter().map(|r| r.time_ns).sum::<u64>(), 9999);
}

proptest! {
    #[test]
    fn merged_disjoint_parts_equal_the_whole(
        steps in prop::collection::vec((0u64..1000, 0u64..8), 1..100), cut in 0usize..100,
    ) {
        let cut = cut.min(steps.len());
        let (mut expected, mut first, mut second) = (Level::default(), Level::default(), Level::default());
        let mut time = 0;
        for (index, &(step, level)) in steps.iter().enumerate() {
            time += step;
            expected.set(time, level);
            if index < cut {
                first.set(time, level);
            }
            if index + 1 == cut {
                second.set(time, first.level);
            } else if index >= cut {
                second.set(time, level);
            }
        }
        first.merge(&second);
        prop_assert_eq!(first.summary(), expected.summary());
    }

    #[test]
    fn any_changes_are_taken(steps in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50)) {
        let mut depth = Level::default();
        for &(time, level) in &steps {
            depth.set(time, level);
        }
        let copy = depth.clone();
        depth.merge(&copy);
        let summary = depth.summary();
        prop_assert!(summary.mean.is_none_or(f64::is_finite));
    }
}
