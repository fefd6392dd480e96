use super::*;
use crate::events::{EventKind, EventQueue};

/// When each of the commands that come at time 0 is done.
fn played(limits: &ThrottledSpec, ops: &[Op]) -> (Vec<(u32, Time)>, Throttled) {
    let (mut disk, mut events) = (Throttled::new(limits), EventQueue::default());
    for (request, &op) in (0..).zip(ops) {
        disk.start(
            0,
            DiskCommand { request, op, byte: 0, bytes: 4096, fua: false },
            &mut DiskEvents::new(&mut events, 0),
        );
    }
    let mut done = Vec::new();
    while let Some((now, event)) = events.next() {
        match event.kind() {
            EventKind::Timer { timer, .. } if timer != DiskEvents::OWN_TIMER => done.push((timer, now)),
            _ => disk.timer(now, &mut DiskEvents::new(&mut events, 0)),
        }
    }
    (done, disk)
}

fn iops(iops_total: f64) -> ThrottledSpec {
    ThrottledSpec { iops_total, ..ThrottledSpec::default() }
}

#[test]
fn a_tenth_of_a_second_starts_at_once_and_the_others_evenly() {
    let (done, disk) = played(&iops(100.0), &[Op::Read; 14]);
    let times: Vec<Time> = done.iter().map(|(_, time)| *time).collect();
    assert_eq!(
        times[..11],
        [0; 11],
        "ten fill the bucket, and one more starts because it is full but not over its limit"
    );
    assert_eq!(times[11..], [10_000_000, 20_000_000, 30_000_000]);
    assert_eq!(disk.busy_ns(), 30_000_000);
}

#[test]
fn reads_and_writes_that_wait_go_by_turns() {
    let mut ops = [Op::Read; 40];
    ops[38..].fill(Op::Write);
    let (done, _) = played(&iops(100.0), &ops);
    let places: Vec<usize> =
        done.iter().enumerate().filter(|(_, (request, _))| *request >= 38).map(|(place, _)| place).collect();
    assert!(places[1] < 16, "{places:?}: two writes do not wait for the 29 reads before them");
    let last = done.last().unwrap().1;
    assert_eq!(last, 290_000_000, "together they reach the limit");
}

#[test]
fn each_direction_can_have_its_own_limit() {
    let limits = ThrottledSpec { bps_write: 4096.0 * 10.0, ..iops(1000.0) };
    let (done, _) = played(&limits, &[Op::Write, Op::Write, Op::Write, Op::Read]);
    assert_eq!(done, [(0, 0), (1, 0), (3, 0), (2, 100_000_000)]);
}

#[test]
fn a_burst_ends_when_its_credits_are_spent() {
    // 5 s at 200 a second are 1,000 operations; meanwhile 100 a second leak.
    let limits = ThrottledSpec { iops_burst: 200.0, burst_seconds: 5.0, ..iops(100.0) };
    let (done, _) = played(&limits, &[Op::Read; 2500]);
    let until = |seconds: u64| done.iter().filter(|(_, time)| *time < seconds * 1_000_000_000).count();
    assert!((1020..=1022).contains(&until(5)), "{}: 200 a second, and a tenth of a second at once", until(5));
    // The credits last for 1000 / (200 - 100) s, less what started at once.
    assert!((1960..=2010).contains(&until(10)), "{}", until(10));
    assert!((100..=102).contains(&(until(13) - until(12))), "then the lasting rate");
}
