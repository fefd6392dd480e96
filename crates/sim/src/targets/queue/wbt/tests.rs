use super::*;

#[test]
fn writes_alone_raise_the_depth_to_three_quarters_of_the_disk() {
    let mut throttle = WritebackThrottle::new(2_000_000, 32, true);
    assert_eq!(throttle.max_depth, 16);
    for window in 1..5 {
        assert!(throttle.admit(window * WINDOW));
        throttle.release(window * WINDOW + 1);
    }
    assert_eq!(throttle.max_depth, 24);
}

#[test]
fn slow_reads_lower_the_depth_to_one() {
    let mut throttle = WritebackThrottle::new(2_000_000, 32, true);
    for window in 1..12 {
        throttle.record_read_latency(3_000_000);
        if throttle.admit(window * WINDOW * 2) {
            throttle.release(window * WINDOW * 2 + 1);
        }
    }
    assert_eq!(throttle.max_depth, 1);
}

#[test]
fn with_a_write_cache_tasks_wait_until_all_writes_are_back() {
    let mut throttle = WritebackThrottle::new(2_000_000, 32, true);
    while throttle.admit(0) {}
    let woken: Vec<bool> = (0..16).map(|_| throttle.release(0)).collect();
    assert_eq!(woken.iter().position(|&w| w), Some(15));
}
