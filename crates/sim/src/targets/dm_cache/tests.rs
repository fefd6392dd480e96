use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cell::{Cell, Job, Node};
use crate::targets::TargetReport;
use crate::targets::dm_cache::{DmCache, LvmCacheReport};
use crate::tests::{disk, iops, job, play, reads};

const MIB: u64 = 1 << 20;

impl DmCache {
    /// Panics if anything is in flight.
    pub fn assert_idle(&self) {
        assert!(self.locks.0.is_empty() && self.migrations.is_empty() && self.deferred.is_empty());
        assert!(self.metadata.is_idle() && self.in_flight == 0);
    }
}

/// A slow disk of 2 GiB with a cache of `cache` bytes, and 8 MiB of metadata, on a fast one.
fn cached(cache: u64, jobs: &[Job], changes: Value) -> Cell {
    let mut cell = crate::tests::cell(crate::tests::md(crate::cell::Level::Linear, 2), &iops(0.0), jobs);
    let sized = |index: usize, limit: f64, bytes: u64| {
        let mut device = disk(index, &iops(limit));
        device["bytes"] = json!(bytes);
        serde_json::from_value(device).unwrap()
    };
    cell.devices = vec![sized(0, 200.0, 2048 * MIB), sized(1, 20_000.0, cache + 12 * MIB)];
    let mut node = json!({
        "name": "cached", "origin": {"device": 0}, "cache": {"device": 1}, "policy": "smq", "mode": "writethrough",
        "chunk": 65536,
    });
    node.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    cell.stack = Node::LvmCache(serde_json::from_value(node).unwrap());
    cell
}

fn report(cell: &Cell) -> LvmCacheReport {
    let outcome = play(cell);
    match &outcome.targets[..] {
        [TargetReport::LvmCache(report)] => report.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_of_a_small_set_become_hits() {
    let cell = cached(256 * MIB, &[reads(job(32 * MIB, 20_000))], json!({}));
    let outcome = play(&cell);
    let report = report(&cell);
    assert_eq!(report.read_hits + report.read_misses, 20_000);
    assert_eq!((report.blocks, report.promotions, report.used_blocks), (4096, 512, 512));
    assert!(report.read_hits > 18_000, "{report:?}");
    assert!(outcome.read.iops > 1000.0, "{}", outcome.read.iops);
}

#[test]
fn kernels_until_4_11_keep_a_full_cache() {
    let jobs = [reads(Job { size: 512 * MIB, ..job(512 * MIB, 20_000) })];
    let hits = |kernel: &str| {
        let cell = Cell { kernel: kernel.into(), ..cached(256 * MIB, &jobs, json!({"state": "junk"})) };
        let report = report(&cell);
        assert_eq!(report.read_hits + report.read_misses, 20_000, "{kernel}");
        (report.promotions, report.demotions, report.read_hits)
    };
    let (old, new) = (hits("4.11"), hits("6.1"));
    assert!(old.0 * 5 < new.0, "{old:?} {new:?}");
}

#[test]
fn writes_go_where_the_mode_sends_them() {
    for (mode, slow_writes) in [("writethrough", true), ("writeback", false), ("passthrough", true)] {
        let jobs = [Job { rate_iops: 1000.0, ..job(16 * MIB, 5000) }];
        let cell = cached(256 * MIB, &jobs, json!({"mode": mode, "state": "warm"}));
        let outcome = play(&cell);
        let report = report(&cell);
        assert_eq!(report.write_hits + report.write_misses, 5000, "{mode}");
        match mode {
            "passthrough" => assert_eq!((report.used_blocks, report.demotions), (0, 256)),
            _ => assert_eq!((report.write_hits, report.used_blocks), (5000, 256)),
        }
        // Writebacks of neighbours are merged.
        assert_eq!(outcome.devices[0].ios[1] > report.writebacks, slow_writes, "{mode}");
    }
}

#[test]
fn an_idle_cache_writes_dirty_blocks_back() {
    let burst = Job { thinktime_ns: 20_000_000_000, thinktime_blocks: 64, ..job(16 * MIB, 128) };
    let cell = cached(256 * MIB, &[burst], json!({"mode": "writeback", "state": "warm"}));
    let report = report(&cell);
    assert!(report.writebacks > 30, "{report:?}");
}

#[test]
fn a_new_filesystem_is_promoted_by_the_writes_of_its_files() {
    let jobs = [reads(job(64 * MIB, 5000))];
    let laid_out = |mode| report(&cached(256 * MIB, &jobs, json!({"mode": mode, "state": "layout"})));
    let report = laid_out("writeback");
    assert_eq!((report.read_hits, report.promotions), (5000, 0));
    assert!(laid_out("writethrough").promotions > 900);
}

#[test]
fn an_older_cache_balances_its_levels_earlier() {
    // Dirty blocks stay at the top, where none can leave, until smq is 60 s old.
    let jobs = [Job { read_share: 0.7, rate_iops: 150.0, ..job(128 * MIB, 4500) }];
    let promotions = |age_s: u64| {
        let changes = json!({"mode": "writeback", "state": "junk-dirty", "age_ns": age_s * 1_000_000_000});
        report(&cached(64 * MIB, &jobs, changes)).promotions
    };
    assert_eq!((promotions(0), promotions(20)), (0, 0));
    assert!(promotions(45) > 100, "{}", promotions(45));
}

#[test]
fn flushes_wait_for_a_commit() {
    let job = Job { fsync: 1, ..job(16 * MIB, 200) };
    let report = report(&cached(256 * MIB, &[job], json!({"mode": "writeback"})));
    assert!(report.metadata_writes > 0, "{report:?}");
}

#[test]
fn a_commit_of_one_block_of_mappings_is_seven_writes() {
    // 24 MiB are 384 blocks of 64 KiB, and a block of the array has 509 mappings.
    let report = report(&cached(24 * MIB, &[reads(job(64 * MIB, 5000))], json!({})));
    assert!(report.promotions > 100 && report.metadata_writes >= 7, "{report:?}");
    // Mappings, the tree, bitmap and index of the space map, a flush, the superblock, a flush.
    assert_eq!(report.metadata_writes % 7, 0, "{report:?}");
}

#[test]
fn impossible_caches_are_refused_in_one_line() {
    let small = [job(16 * MIB, 10)];
    for (cell, expected) in [
        (cached(0, &small, json!({})), "too small"),
        (cached(256 * MIB, &small, json!({"chunk": 4096})), "multiple of 32 KiB"),
        (cached(256 * MIB, &small, json!({"policy": "lfu"})), "policy"),
        (cached(256 * MIB, &[job(2044 * MIB, 10)], json!({"state": "junk"})), "no space is left"),
        (Cell { kernel: "4.0".into(), ..cached(256 * MIB, &small, json!({})) }, "4.2 or later"),
    ] {
        let error = crate::run(&cell).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("stack: cached: "), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All I/O completes, nothing is left behind, and the counts add up.
    #[test]
    fn any_cache_serves_all_io(
        mode in prop::sample::select(&["writethrough", "writeback", "passthrough"]),
        state in prop::sample::select(&["empty", "junk", "warm", "layout"]),
        chunk in prop::sample::select(&[32u64, 64, 512, 1024]),
        kernel in prop::sample::select(&["4.11", "4.12-rc1", "4.14", "6.1"]),
        (read_share, bytes) in (0.0f64..1.0, prop::sample::select(&[4096u32, 65536, 300 << 10])),
        fsync in prop::sample::select(&[0u32, 5]),
    ) {
        let sizes = vec![(bytes, 1.0)];
        let job = Job {
            read_share, fsync, read_sizes: sizes.clone(), write_sizes: sizes, align: 4096,
            io_bytes: 400 * u64::from(bytes), ..job(256 * MIB, 0)
        };
        let state = if mode == "passthrough" && state == "layout" { "empty" } else { state };
        let changes = json!({"mode": mode, "state": state, "chunk": chunk << 10});
        let cell = Cell { kernel: kernel.into(), ..cached(64 * MIB, &[job], changes) };
        let outcome = play(&cell);
        let report = report(&cell);
        prop_assert!(report.used_blocks <= report.blocks && report.dirty <= report.used_blocks);
        prop_assert!(outcome.read.total_ios + outcome.write.total_ios >= 398, "{outcome:?}");
        prop_assert_eq!(serde_json::to_string(&outcome).unwrap(), serde_json::to_string(&play(&cell)).unwrap());
    }
}
