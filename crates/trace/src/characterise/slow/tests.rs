use super::*;
use crate::event::{DeviceId, Rwbs};
use proptest::prelude::*;

/// An I/O of 4 KiB without stages between queue and completion.
fn io(t_queue: u64, t_complete: u64, process: u32) -> Io {
    Io {
        device: DeviceId(1),
        source: DeviceId(0),
        sector: t_queue,
        bytes: 4096,
        rwbs: Rwbs::READ,
        pid: process,
        process,
        cpu: 0,
        error: 0,
        requeues: 0,
        depth: 0,
        resyncs: false,
        commits: false,
        caller: 0,
        behind: [0; 3],
        rival: Default::default(),
        t_queue,
        t_get: NEVER,
        t_merge: NEVER,
        t_insert: NEVER,
        t_dispatch: NEVER,
        t_complete,
    }
}

fn observed(ios: &[Io]) -> SlowIos {
    let mut slow = SlowIos::default();
    slow.observe(&Chunk { ended: ios.to_vec(), ..Chunk::default() });
    slow
}

fn profile(slow: &SlowIos) -> SlowProfile {
    slow.profile(&ProfiledDevice {
        number: "8,0",
        name: None,
        p50: Some(100),
        process: &|process| format!("p{process}"),
    })
}

/// 200 I/Os of 100 ns, one after the other, and the time after them.
fn steady() -> (Vec<Io>, u64) {
    ((0..200).map(|at| io(at * 100, at * 100 + 100, 0)).collect(), 20_000)
}

#[test]
fn a_stall_begins_with_the_last_completion_and_counts_who_waits() {
    let (mut ios, now) = steady();
    // Queued just before the last completion, in the stall, and at its end.
    ios.extend([io(now + 900, now + 5000, 1), io(now - 10, now + 5001, 2), io(now + 800, now + 5002, 2)]);
    ios.push(io(now + 5000, now + 5100, 3));
    let profile = profile(&observed(&ios));
    assert_eq!(profile.stall_least_ns, Some(1000));
    let [stall] = profile.stalls.as_slice() else { panic!("{:?}", profile.stalls) };
    assert_eq!((stall.start_ns, stall.length_ns), (now, 5000));
    assert_eq!((stall.process.as_str(), stall.in_flight["read"]), ("p1", 2));
}

#[test]
fn stalls_in_which_a_fifth_of_all_ios_wait_do_not_hide_each_other() {
    // Six freezes of 2 s of a device with 1 ms: each of 250 I/Os that arrived in a freeze ends just behind it.
    let (mut ios, second) = (Vec::new(), 1_000_000_000);
    for round in 0..6 {
        let start = round * 10 * second;
        ios.extend((0..1600).map(|at| io(start + at * 5_000_000, start + at * 5_000_000 + 1_000_000, 0)));
        ios.extend((0..400).map(|at| io(start + 8 * second + at * 5_000_000, start + 10 * second + at, 0)));
    }
    let profile = profile(&observed(&ios));
    assert!(profile.stall_least_ns.is_some_and(|least| (9_900_000..10_100_000).contains(&least)));
    assert_eq!(profile.stalls.len(), 6);
    assert!(profile.stalls.iter().all(|stall| stall.length_ns == 2 * second));
}

#[test]
fn completions_in_batches_are_no_stalls() {
    // Sixteen I/Os complete within 16 ns, every 100 µs.
    let ios: Vec<Io> = (0..1600).map(|at| io(at / 16 * 100_000, at / 16 * 100_000 + 99_000 + at % 16, 0)).collect();
    let device = ProfiledDevice { number: "8,0", name: None, p50: Some(99_008), process: &|_| String::new() };
    assert_eq!(observed(&ios).profile(&device).stalls, []);
}

#[test]
fn an_idle_device_does_not_stall() {
    let (mut ios, now) = steady();
    ios.push(io(now + 1_000_000, now + 1_000_100, 0));
    // An I/O whose completion was lost is no witness.
    ios.push(io(now - 50, NEVER, 0));
    assert_eq!(profile(&observed(&ios)).stalls, []);
}

#[test]
fn few_ios_do_not_show_what_is_usual() {
    let few = [io(0, 10, 0), io(10, 20, 0), io(20, 900_000, 0)];
    let profile = profile(&observed(&few));
    assert_eq!((profile.stall_least_ns, profile.stalls.len(), profile.slowest[0].length_ns), (None, 0, 899_980));
}

#[test]
fn the_slowest_io_has_its_stage_and_who_else_was_in_flight() {
    let mut slow = Io { t_get: 1010, t_insert: 1020, t_dispatch: 7000, depth: 3, ..io(1000, 9000, 1) };
    let other = Io { rwbs: Rwbs::WRITE, ..io(8000, 9500, 2) };
    let profile = profile(&observed(&[io(0, 20, 0), slow, other]));
    let first = &profile.slowest[0];
    assert_eq!((first.length_ns, first.stage.as_str(), first.stage_ns, first.depth), (8000, "i2d", 5980, 3));
    assert_eq!((first.in_flight["read"], first.in_flight["write"]), (0, 1));
    slow.t_dispatch = 1030;
    assert_eq!(longest_stage(&slow), ("d2c".into(), 7970));
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(
        times in prop::collection::vec((0u64..50, 1u64..1 << 20), 1..300), cut in 0usize..300,
    ) {
        let mut now = 0;
        let ios: Vec<Io> = times.iter().map(|&(pause, took)| {
            now += took;
            io((now - took).saturating_sub(pause), now, 0)
        }).collect();
        let cut = cut.min(ios.len());
        let mut merged = observed(&ios[..cut]);
        merged.merge(&observed(&ios[cut..]));
        let whole = observed(&ios);
        let times = |slow: &SlowIos| {
            let lengths = |longest: &Longest| {
                let mut lengths: Vec<_> = longest.kept.iter().map(LongTime::length).collect();
                lengths.sort_unstable();
                lengths
            };
            (lengths(&slow.slowest), lengths(&slow.silences), slow.completed, slow.last_complete)
        };
        prop_assert_eq!(times(&merged), times(&whole));
        let mut longest: Vec<u64> = ios.iter().map(|io| io.t_complete - io.t_queue).collect();
        longest.sort_unstable();
        prop_assert_eq!(times(&whole).0, &longest[longest.len().saturating_sub(20)..]);
    }
}
