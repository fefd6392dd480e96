use super::*;
use crate::device::CommandOrder;

pub fn disk() -> HddSpec {
    HddSpec {
        capacity: 500_000_000_000,
        rpm: 7200,
        outer_track_bytes: 600_000,
        inner_track_bytes: 300_000,
        heads: 6,
        seek_track_ns: 1_000_000,
        seek_average_ns: 8_200_000,
        seek_full_ns: 16_000_000,
        write_settle_ns: 0,
        command_ns: 100_000,
        controller_ns: 0,
        order: CommandOrder::Rotation,
        bandwidth: 200_000_000,
        cache_bytes: 16 << 20,
        read_streams: 8,
        read_ahead_bytes: 1 << 20,
        write_cache: true,
        write_cache_requests: 64,
        flush_ns: 0,
        destage_ns: 0,
        media_log_writes: 0,
        shingled: None,
    }
}

#[test]
fn tracks_fill_the_disk() {
    let geometry = Geometry::new(&disk());
    let end = geometry.locate(500_000_000_000);
    assert!((end.revolution / geometry.tracks - 1.0).abs() < 1e-6);
    let revolution = geometry.locate(600_000).revolution;
    assert!((revolution - 1.0).abs() < 1e-4, "the first track has the given length: {revolution}");
}

#[test]
fn seek_times_match_the_data_sheet() {
    let geometry = Geometry::new(&disk());
    let cylinders = geometry.tracks / 6.0;
    assert!((geometry.seek_time(cylinders, true) / 16e6 - 1.0).abs() < 0.01);
    let mut rng = crate::rng::Rng::new(1);
    let pairs = 100_000;
    let distance = |rng: &mut crate::rng::Rng| ((rng.unit() - rng.unit()) * cylinders).abs();
    let mean = (0..pairs).map(|_| geometry.seek_time(distance(&mut rng), true)).sum::<f64>() / f64::from(pairs);
    assert!((mean / 8.2e6 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn a_sequential_pass_costs_a_revolution_a_track_and_the_skew() {
    let geometry = Geometry::new(&disk());
    let pass = geometry.pass_time(&geometry.locate(0), &geometry.locate(6_000_000)) as f64;
    let expected = 10.0 * (60e9 / 7200.0 + 1e6);
    assert!((pass / expected - 1.0).abs() < 0.01, "{pass} {expected}");
}

#[test]
fn the_wait_for_rotation_is_half_a_revolution_on_average() {
    let geometry = Geometry::new(&disk());
    let (from, to) = (geometry.locate(0), geometry.locate(1_000_000_000));
    let mean = (0..1000).map(|i| geometry.reach_time(i * 8_333, &from, &to) as f64).sum::<f64>() / 1000.0;
    let seek = geometry.seek_time((to.cylinder - from.cylinder).abs(), true);
    assert!(((mean - seek) / (30e9 / 7200.0) - 1.0).abs() < 0.02, "{mean}");
}
