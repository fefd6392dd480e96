use proptest::prelude::*;
use serde_json::{Value, json};

use super::{BcacheReport, BcacheTarget};
use crate::cell::{Cell, Job, Level, Node};
use crate::load::Host;
use crate::outcome::Outcome;
use crate::targets::TargetReport;
use crate::tests::{disk, iops, job, md, play, reads, stream};

const MIB: u64 = 1 << 20;

impl BcacheTarget {
    /// Panics if anything is in flight.
    pub fn assert_idle(&self) {
        assert!(self.parts.is_empty() && self.queue.is_empty() && self.running.is_none());
    }
}

/// A slow disk of 2 GiB behind a bcache of 512 MiB.
fn cached(jobs: &[Job], changes: Value) -> Cell {
    let mut cell = crate::tests::cell(md(Level::Linear, 2), &iops(0.0), jobs);
    let sized = |index: usize, limit: f64, bytes: u64| {
        let mut device = disk(index, &iops(limit));
        device["bytes"] = json!(bytes);
        serde_json::from_value(device).unwrap()
    };
    cell.devices = vec![sized(0, 200.0, 2048 * MIB), sized(1, 20_000.0, 512 * MIB)];
    let mut node = json!({
        "name": "cached", "backing": {"device": 0}, "cache": {"device": 1}, "mode": "writethrough",
        "sequential_cutoff": 4 << 20, "bucket": 512 << 10, "block": 4096, "writeback_percent": 10,
        "congested_read_threshold_us": 2000, "congested_write_threshold_us": 20000,
    });
    node.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    cell.stack = Node::Bcache(serde_json::from_value(node).unwrap());
    cell
}

fn report(outcome: &Outcome) -> BcacheReport {
    match &outcome.targets[..] {
        [TargetReport::Bcache(report)] => report.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_missed_page_is_cached_once() {
    let outcome = play(&cached(&[reads(job(8 * MIB, 20_000))], json!({})));
    let report = report(&outcome);
    assert_eq!(report.cache_hits + report.cache_misses, 20_000);
    // A page that is missed again before it is cached is read twice.
    assert!((2000..2200).contains(&report.cache_misses), "{report:?}");
    assert_eq!(outcome.devices[0].ios[0], report.cache_misses);
}

#[test]
fn long_streams_bypass_the_cache() {
    let jobs = [reads(stream(64 * MIB, 65536, 1, 1))];
    let report_with = |cutoff: u64| report(&play(&cached(&jobs, json!({"sequential_cutoff": cutoff}))));
    let bypassed = report_with(4 << 20);
    assert_eq!(bypassed.cache_bypass_misses, 1024 - 63, "{bypassed:?}");
    assert_eq!(bypassed.bypassed_bytes, (1024 - 63) * 65536);
    assert_eq!(report_with(0).bypassed_bytes, 0);
}

#[test]
fn writes_go_where_the_mode_sends_them() {
    let jobs = [Job { rate_iops: 150.0, ..job(16 * MIB, 2000) }];
    for (mode, slow) in [("writethrough", true), ("writeback", false), ("writearound", true), ("none", true)] {
        // `play` would go on until everything is written back.
        let outcome = crate::run(&cached(&jobs, json!({"mode": mode}))).unwrap();
        let report = report(&outcome);
        assert_eq!(outcome.devices[0].ios[1] >= 2000, slow, "{mode}");
        assert_eq!(report.dirty_bytes > 0, mode == "writeback", "{mode} {report:?}");
        assert_eq!(report.bypassed_bytes > 0, matches!(mode, "writearound" | "none"), "{mode}");
    }
}

#[test]
fn dirty_data_is_written_back_when_idle() {
    let burst = Job { thinktime_ns: 60_000_000_000, thinktime_blocks: 500, ..job(16 * MIB, 1000) };
    let report = report(&play(&cached(&[burst], json!({"mode": "writeback"}))));
    assert!(report.writeback_bytes >= 400 * 4096, "{report:?}");
}

#[test]
fn a_cached_write_ends_when_a_worker_has_inserted_its_key() {
    let latency = |wake_ns: u64, switch_ns: u64, md_ns: u64, lock_ns: u64| {
        let mut cell = cached(&[Job { iodepth: 1, ..job(16 * MIB, 2000) }], json!({"mode": "writeback"}));
        cell.host = Host { wake_ns, switch_ns, md_ns, lock_ns, ..Host::default() };
        crate::run(&cell).unwrap().write.clat_ns.summary.mean.unwrap()
    };
    let none = latency(0, 0, 0, 0);
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 50.0, "{found} ns instead of {expected}");
    close(latency(3000, 0, 0, 0) - none, 6000.0); // To the worker, and to the job
    close(latency(0, 1000, 0, 0) - none, 2000.0); // A core switches to the worker and away from it
    close(latency(0, 0, 1000, 0) - none, 1000.0);
    close(latency(0, 0, 0, 100) - none, 1100.0); // The key
}

#[test]
fn leaves_and_the_journal_are_written_and_streams_need_fewer_leaves() {
    let run = |job: Job| {
        let outcome = crate::run(&cached(&[job], json!({"mode": "writeback", "sequential_cutoff": 0}))).unwrap();
        (outcome.devices[1].ios[1] - outcome.write.total_ios - report(&outcome).journal_writes, outcome)
    };
    let (leaves, outcome) = run(Job { iodepth: 1, ..job(64 * MIB, 4000) });
    // 168 keys of 24 bytes fill a leaf.
    assert!((20..=24).contains(&leaves), "{leaves} leaves");
    assert!(report(&outcome).journal_writes > 0);
    let (merged, _) = run(stream(16 * MIB, 4096, 1, 1));
    assert_eq!(merged, 0, "leaves of a stream");
}

#[test]
fn durable_writes_wait_for_the_journal() {
    let jobs = [Job { iodepth: 1, fua: true, ..job(16 * MIB, 500) }];
    let report = report(&play(&cached(&jobs, json!({"mode": "writeback"}))));
    assert!(report.journal_writes >= 500, "{report:?}");
}

#[test]
fn impossible_caches_are_refused_in_one_line() {
    let small = [job(16 * MIB, 10)];
    for (changes, expected) in [
        (json!({"bucket": 4 << 20}), "more than 512 buckets"),
        (json!({"state": "layout"}), "empty, with junk or warm"),
    ] {
        let error = crate::run(&cached(&small, changes)).unwrap_err().to_string();
        assert!(error.starts_with("stack: cached: ") && error.contains(expected), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// All I/O completes, nothing is left behind, and a run gives the same result again.
    #[test]
    fn any_cache_serves_all_io(
        mode in prop::sample::select(&["writethrough", "writeback", "writearound", "none"]),
        state in prop::sample::select(&["empty", "junk", "warm"]),
        (read_share, bytes) in (0.0f64..1.0, prop::sample::select(&[512u32, 4096, 65536, 300 << 10])),
        fsync in prop::sample::select(&[0u32, 5]),
    ) {
        let sizes = vec![(bytes, 1.0)];
        let job = Job {
            read_share, fsync, read_sizes: sizes.clone(), write_sizes: sizes, align: 512,
            io_bytes: 400 * u64::from(bytes), ..job(256 * MIB, 0)
        };
        let cell = cached(&[job], json!({"mode": mode, "state": state}));
        let outcome = play(&cell);
        let report = report(&outcome);
        let counted = report.cache_hits + report.cache_misses + report.cache_bypass_hits + report.cache_bypass_misses;
        prop_assert_eq!(counted, outcome.read.total_ios);
        prop_assert!(outcome.read.total_ios + outcome.write.total_ios >= 398);
        prop_assert_eq!(serde_json::to_string(&outcome).unwrap(), serde_json::to_string(&play(&cell)).unwrap());
    }
}
