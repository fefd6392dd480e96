use proptest::prelude::*;
use serde_json::{Value, json};

use super::{WritecacheReport, WritecacheTarget};
use crate::cell::{Cell, Job, Level, Node};
use crate::load::RandomMap;
use crate::outcome::Outcome;
use crate::targets::TargetReport;
use crate::tests::{disk, iops, job, md, play, refusal, stream};

const MIB: u64 = 1 << 20;

impl WritecacheTarget {
    /// Panics if anything is in flight.
    pub fn assert_idle(&self) {
        assert!(self.waiting.is_empty() && self.flushes.is_empty() && self.steps.is_empty() && !self.is_locked);
        assert!(self.copies_in_flight + self.cached_in_flight + self.around_in_flight == 0);
    }
}

/// A slow disk of 1 GiB behind a writecache on a fast disk of so many bytes.
fn cached(jobs: &[Job], cache_bytes: u64, changes: Value) -> Cell {
    let mut cell = crate::tests::cell(md(Level::Linear, 2), &iops(0.0), jobs);
    let sized = |index: usize, limit: f64, bytes: u64| {
        let mut device = disk(index, &iops(limit));
        device["bytes"] = json!(bytes);
        serde_json::from_value(device).unwrap()
    };
    cell.devices = vec![sized(0, 500.0, 1024 * MIB), sized(1, 20_000.0, cache_bytes)];
    let mut node = json!({
        "name": "cached", "origin": {"device": 0}, "cache": {"device": 1}, "block": 4096,
        "high_watermark": 50, "low_watermark": 45,
    });
    node.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    cell.stack = Node::Writecache(serde_json::from_value(node).unwrap());
    cell
}

fn report(outcome: &Outcome) -> WritecacheReport {
    match &outcome.targets[..] {
        [TargetReport::Writecache(report)] => report.clone(),
        other => panic!("{other:?}"),
    }
}

/// Sequential writes of whole blocks, each once.
fn writes(blocks: u64) -> Job {
    stream(blocks * 4096, 4096, 16, 1)
}

/// Random writes, each block once.
fn once(blocks: u64) -> Job {
    Job { random_map: RandomMap::Repeated, ..job(blocks * 4096, blocks) }
}

#[test]
fn a_burst_below_the_watermark_stays_in_the_cache() {
    let outcome = play(&cached(&[writes(1000)], 16 * MIB, json!({})));
    let report = report(&outcome);
    // 16 MiB are 4096 blocks; the metadata of 64 + 16 · 4080 bytes takes 16 of them.
    assert_eq!((report.blocks, report.free_blocks, report.writes_allocate), (4080, 3080, 1000));
    assert_eq!((outcome.devices[0].ios[1], outcome.devices[1].sectors[1]), (0, 1000 * 8 + 128 + 8));
    assert_eq!((report.commits, report.metadata_writes), (1, 2), "the metadata's first part and the superblock");
    assert!(outcome.write.clat_ns.summary.mean < Some(1_500_000.0), "as fast as the cache device");
}

#[test]
fn writeback_keeps_the_cache_between_its_watermarks() {
    let outcome = play(&cached(&[writes(4000)], 16 * MIB, json!({})));
    let report = report(&outcome);
    let used = report.blocks - report.free_blocks;
    // A copy takes the oldest block and those that follow it, up to 256.
    assert!((report.blocks * 45 / 100 - 256..=report.blocks * 50 / 100).contains(&used), "{report:?}");
    assert_eq!(report.writebacks, 4000 - used);
    assert_eq!(outcome.devices[0].sectors[1], report.writebacks * 8);
}

#[test]
fn a_full_cache_is_written_around_and_writeback_pauses() {
    let full_on = |kernel: &str| {
        let cell = Cell { kernel: kernel.into(), ..cached(&[once(20_000)], 4 * MIB, json!({})) };
        report(&crate::run(&cell).unwrap())
    };
    let (paused, older) = (full_on("6.1"), full_on("5.10"));
    assert_eq!(paused.writes_allocate + paused.writes_around, 20_000, "{paused:?}");
    // Once the cache is full, writes go around it without an end, and nothing is written back.
    assert!(paused.writes_around > 18_000 && paused.writebacks < 1_000, "{paused:?}");
    assert!(older.writebacks > 2 * paused.writebacks, "{older:?}");
}

#[test]
fn a_flush_waits_for_the_commit_of_what_was_written() {
    let outcome = play(&cached(&[Job { fsync: 10, ..writes(1000) }], 16 * MIB, json!({})));
    let report = report(&outcome);
    assert_eq!(report.flushes, 100);
    // Flushes that come while a commit runs share the next one.
    assert!((50..=100).contains(&report.commits), "{report:?}");
    assert_eq!(report.metadata_writes, 2 * report.commits);
}

#[test]
fn blocks_are_overwritten_in_place_and_read_from_the_cache() {
    let overwrites = Job { random_map: RandomMap::Repeated, ..job(4 * MIB, 2048) };
    let mixed = Job { read_share: 0.5, name: "readers".into(), ..job(8 * MIB, 4000) };
    let outcome = play(&cached(&[overwrites, mixed], 64 * MIB, json!({})));
    let report = report(&outcome);
    let hits = report.write_hits_uncommitted + report.write_hits_committed;
    assert_eq!((report.writes, report.writes_around), (report.writes_allocate + hits, 0), "{report:?}");
    assert_eq!(report.blocks - report.free_blocks, report.writes_allocate);
    let look_ups = outcome.look_ups.iter().fold([0, 0], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
    assert_eq!(look_ups, [report.read_hits + report.writes, report.reads - report.read_hits]);
    assert!(hits >= 1024 && report.read_hits > 900 && report.read_hits < report.reads, "{report:?}");
}

#[test]
fn old_blocks_leave_the_cache() {
    let report = report(&play(&cached(&[writes(100)], 16 * MIB, json!({"max_age_ns": 5_000_000_000_u64}))));
    assert_eq!((report.writebacks, report.free_blocks), (100, report.blocks), "{report:?}");
}

#[test]
fn impossible_caches_are_refused_in_one_line() {
    let refused = |cell: Cell| refusal(&cell);
    let jobs = [writes(10)];
    assert!(refused(cached(&jobs, 4096, json!({}))).contains("cached: the cache device is too small"));
    assert!(refused(cached(&jobs, MIB, json!({"block": 8192}))).contains("power of two from 512 B to 4 KiB"));
    assert!(refused(cached(&jobs, MIB, json!({"low_watermark": 60}))).contains("the low one at most the high one"));
    assert!(refused(cached(&[stream(MIB, 512, 1, 1)], MIB, json!({}))).contains("I/Os must be whole blocks"));
    let old = Cell { kernel: "4.17".into(), ..cached(&jobs, MIB, json!({})) };
    assert!(refused(old).contains("expected 4.18 or later"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_load_completes_and_leaves_nothing_behind(
        (read_share, random, blocks) in (0.0f64..1.0, any::<bool>(), 1u32..40),
        (cache_kib, max_age_ms, fsync) in (32u64..4096, prop::option::of(1u64..3000), 0u32..40),
        (iodepth, ios, seed) in (1u32..40, 1u64..600, any::<u64>()),
    ) {
        let sizes = vec![(blocks * 4096, 1.0)];
        let job = Job {
            read_share, random, iodepth, fsync, read_sizes: sizes.clone(), write_sizes: sizes,
            io_bytes: ios * u64::from(blocks) * 4096, ..job(16 * MIB, 0)
        };
        let max_age_ns = max_age_ms.map(|ms| ms * 1_000_000);
        let cell = Cell { seed, ..cached(&[job], cache_kib << 10, json!({"max_age_ns": max_age_ns})) };
        let outcome = play(&cell);
        let report = report(&outcome);
        let hits = report.write_hits_uncommitted + report.write_hits_committed;
        prop_assert_eq!(report.writes, report.writes_allocate + report.writes_around + hits);
        prop_assert_eq!(report.writes, outcome.write.io_bytes / 4096);
        prop_assert_eq!(report.reads, outcome.read.io_bytes / 4096);
        prop_assert_eq!(report.writeback_blocks, 0);
        let second = serde_json::to_string(&play(&cell)).unwrap();
        prop_assert_eq!(serde_json::to_string(&outcome).unwrap(), second);
    }
}
