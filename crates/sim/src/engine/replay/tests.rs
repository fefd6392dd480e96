//! Replays on disks that are slower and faster than the trace.

use crate::cell::Cell;
use crate::outcome::Outcome;
use crate::{Op, ReplayIo, SimError};
use serde_json::json;

/// A mirror of two throttled disks.
fn cell(iops: f64, replay: serde_json::Value) -> Cell {
    let disk = |name: &str| {
        json!({
            "name": name, "bytes": 1 << 30, "model": {"kind": "throttled", "iops_total": iops, "latency_ns": 1000},
            "queue": {"scheduler": "mq-deadline", "nr_requests": 64, "queue_depth": 32, "max_bytes": 1_310_720,
                "rotational": true, "wbt_lat_ns": 75_000_000, "write_back": false},
        })
    };
    let members = [json!({"node": {"device": 0}}), json!({"node": {"device": 1}})];
    serde_json::from_value(json!({
        "seed": 1, "kernel": "6.1", "devices": [disk("a"), disk("b")],
        "stack": {"md": {"name": "md0", "level": "raid1", "members": members}},
        "replay": replay,
    }))
    .unwrap()
}

/// Writes of 4 KiB, scattered so that none merge, one every `interval`, beginning an hour into the trace.
fn writes(count: u64, interval: u64) -> impl Iterator<Item = ReplayIo> {
    (0..count).map(move |index| ReplayIo {
        time_ns: 3_600_000_000_000 + index * interval,
        op: Op::Write,
        sector: index * 7919 % 100_000 * 16,
        bytes: 4096,
        waited: true,
    })
}

fn play(cell: &Cell, ios: impl Iterator<Item = ReplayIo> + 'static) -> Result<Outcome, SimError> {
    crate::run_until(cell, Some(Box::new(ios)), &|| false).map(Option::unwrap)
}

#[test]
fn recorded_times_are_kept_and_a_slow_disk_delays_ios() {
    let timed = json!({"timed": true, "iodepth": 1});
    // A thousand I/Os per second for two seconds, on disks that do ten thousand: none waits.
    let fast = play(&cell(10_000.0, timed.clone()), writes(2_000, 1_000_000)).unwrap();
    assert_eq!(fast.groups.last().unwrap().name, "replay");
    assert_eq!((fast.write.total_ios, fast.read.total_ios), (2_000, 0));
    assert!((1.999e9..2.001e9).contains(&(fast.runtime_ns as f64)), "{}", fast.runtime_ns);
    assert!(fast.write.clat_ns.summary.max.unwrap() < 1_000_000, "{:?}", fast.write.clat_ns);
    // On disks that do five hundred per second, plus a tenth of a second's worth at once, it takes 3.9 s, and the
    // last I/O waits for 1.9 s.
    let slow = play(&cell(500.0, timed), writes(2_000, 1_000_000)).unwrap();
    assert_eq!(slow.write.total_ios, 2_000);
    assert!((3.85e9..3.95e9).contains(&(slow.runtime_ns as f64)), "{}", slow.runtime_ns);
    assert!((1.85e9..1.95e9).contains(&(slow.write.clat_ns.summary.max.unwrap() as f64)), "{:?}", slow.write.clat_ns);
    let half = slow.write.clat_ns.summary.p50.unwrap() as f64;
    assert!((0.85e9..0.95e9).contains(&half), "the queue grows evenly: {half}");
}

#[test]
fn writeback_is_replayed_but_its_latency_is_nobodys() {
    // A write each millisecond that a program waits for, and every second a burst of 200 for which none waits.
    let burst = |second: u64| {
        writes(200, 1).map(move |io| ReplayIo { time_ns: io.time_ns + second * 1_000_000_000, waited: false, ..io })
    };
    let mut ios: Vec<ReplayIo> = (0..3).flat_map(burst).collect();
    ios.extend(writes(3_000, 1_000_000).map(|io| ReplayIo {
        time_ns: io.time_ns + 500_000,
        sector: io.sector + 8,
        ..io
    }));
    ios.sort_by_key(|io| io.time_ns);
    let mean = |waited_only: bool| {
        let replay = json!({"timed": true, "iodepth": 1, "waited_only": waited_only});
        let outcome = play(&cell(10_000.0, replay), ios.clone().into_iter()).unwrap();
        assert_eq!(outcome.write.total_ios, 3_600);
        (outcome.write.clat_ns.summary.count, outcome.write.clat_ns.summary.mean.unwrap())
    };
    let ((all, all_mean), (waited, waited_mean)) = (mean(false), mean(true));
    assert_eq!((all, waited), (3_600, 3_000));
    assert!(waited_mean < 0.5 * all_mean, "{waited_mean} {all_mean}");
}

#[test]
fn twice_the_speed_takes_half_the_time() {
    let times = [1.0, 2.0, 0.5].map(|speed| {
        let cell = cell(10_000.0, json!({"timed": true, "iodepth": 1, "speed": speed}));
        play(&cell, writes(2_000, 1_000_000)).unwrap().runtime_ns as f64 * speed
    });
    assert!(times.iter().all(|time| (1.998e9..2.002e9).contains(time)), "{times:?}");
}

#[test]
fn the_closed_loop_keeps_its_depth_in_order() {
    for depth in [1_u32, 4, 16] {
        let cell = cell(1_000.0, json!({"timed": false, "iodepth": depth}));
        let outcome = play(&cell, writes(2_000, 1)).unwrap();
        assert_eq!(outcome.write.total_ios, 2_000);
        // By Little's law: the mean number in flight is the rate times the latency.
        let mean = outcome.write.clat_ns.summary.mean.unwrap() * outcome.write.iops / 1e9;
        let depth = f64::from(depth);
        assert!((0.97 * depth..=depth * 1.001).contains(&mean), "{mean} of {depth}");
    }
}

#[test]
fn flushes_reach_the_disks_and_are_no_writes() {
    let flush = ReplayIo { time_ns: 3_600_000_000_000, op: Op::Flush, sector: 0, bytes: 0, waited: true };
    for timed in [true, false] {
        let ios = [flush].into_iter().chain(writes(10, 0)).chain([flush, flush]);
        // Since 6.12, an array passes each at once.
        let cell = Cell { kernel: "6.12".into(), ..cell(1_000.0, json!({"timed": timed, "iodepth": 2})) };
        let outcome = play(&cell, ios).unwrap();
        assert_eq!((outcome.write.total_ios, outcome.devices[1].flushes), (10, 3));
    }
}

#[test]
fn a_trace_is_read_only_as_far_as_needed() {
    for timed in [true, false] {
        let mut cell = cell(10_000.0, json!({"timed": timed, "iodepth": 4}));
        cell.max_ios = Some(1_000);
        // A trace without an end.
        assert_eq!(play(&cell, writes(u64::MAX, 1_000_000)).unwrap().write.total_ios, 1_000);
    }
}

#[test]
fn an_empty_trace_takes_no_time() {
    let outcome = play(&cell(1_000.0, json!({"timed": true, "iodepth": 1})), std::iter::empty()).unwrap();
    assert_eq!((outcome.write.total_ios, outcome.read.total_ios), (0, 0));
}

#[test]
fn impossible_replays_are_refused_with_one_line() {
    let timed = || json!({"timed": true, "iodepth": 1});
    let beyond =
        ReplayIo { time_ns: 3_600_000_000_042, op: Op::Read, sector: (2 << 20) - 7, bytes: 4096, waited: true };
    let error = play(&cell(1_000.0, timed()), writes(3, 10).chain([beyond])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "replay: the read of 4096 bytes at 3600.000000042 s, sector 2097145, ends beyond the stack, which has \
         2097152 sectors: use a larger stack or another part of the trace"
    );
    let error = crate::run(&cell(1_000.0, timed())).unwrap_err();
    assert_eq!(error.to_string(), "replay: the cell has `replay`, but no trace was given");
    for (replay, expected) in [
        (json!(null), "replay: a trace was given, but the cell has no `replay`"),
        (json!({"timed": true, "iodepth": 1, "speed": 0.0}), "replay: speed 0: expected a number above 0"),
        (json!({"timed": false, "iodepth": 0}), "replay: iodepth must be at least 1"),
    ] {
        assert_eq!(play(&cell(1_000.0, replay), writes(1, 1)).unwrap_err().to_string(), expected);
    }
}
