//! bcache: rules, with figures added up by hand.

use blklab_cache::bcache::{Bypass, Congestion, Controller, Streams};
use blklab_cache::{Bcache, BcacheMode, BcacheSettings, Op, Replay, Request};
use proptest::prelude::*;
use std::collections::HashMap;

const SECOND: u64 = 1_000_000_000;
const WRITE: Op = Op::Write { sync: false };

fn io(time_ns: u64, op: Op, sector: u64, sectors: u32, task: u32) -> Request {
    Request { time_ns, op, sector, sectors, task }
}

fn bcache(mode: BcacheMode, buckets: u32) -> Bcache {
    Bcache::new(BcacheSettings { mode, buckets, ..BcacheSettings::default() })
}

#[test]
fn a_stream_of_4_mib_bypasses_and_so_does_its_task_for_a_while() {
    let mut cache = bcache(BcacheMode::Writethrough, 1024);
    let bypass: Vec<_> = (0..17).map(|at| cache.check_bypass(&io(at, Op::Read, at * 512, 512, 7))).collect();
    // The sixteenth I/O of 256 KiB makes 4 MiB, which is the cutoff.
    assert!(bypass[..15].iter().all(Option::is_none));
    assert_eq!(bypass[15..], [Some(Bypass::Sequential); 2]);
    // The average of the task is (7 × 0 + 17 × 512) / 8 sectors: below the cutoff.
    assert_eq!(cache.check_bypass(&io(20, Op::Read, 1 << 30, 8, 7)), None);
    let mut streams = Streams::default();
    streams.add(0, 1, 0, 80_000);
    assert_eq!(streams.add(1, 1, 1 << 30, 8), 10_000, "80,000 / 8");
    assert_eq!(streams.add(6 * SECOND, 1, (1 << 30) + 8, 8), 8_751, "the stream is forgotten after 5 s");
    assert_eq!(streams.add(6 * SECOND, 2, (1 << 30) + 16, 8), 16, "another task goes on with the stream");
}

#[test]
fn slow_cache_devices_lower_the_cutoff_until_time_passes() {
    let mut congestion = Congestion::new(1);
    assert_eq!(congestion.cutoff(SECOND), None);
    // The kernel's µs have 1,024 ns: 2,048 µs are not above 2,000.
    congestion.count(SECOND, 2_000 << 10, 2_000);
    congestion.count(SECOND, 20_000 << 10, 20_000);
    assert_eq!(congestion.cutoff(SECOND), None, "faster than 2 and 20 ms");
    congestion.count(SECOND, 500 << 20, 2_000);
    // 500 of 1,024 are left: 2^(524 / 64) is 300, less at most 32.
    assert!((268..=300).contains(&congestion.cutoff(SECOND).unwrap()));
    assert!(congestion.cutoff(SECOND + (499 << 20)).is_some());
    assert!(congestion.cutoff(SECOND + (500 << 20)).is_none());
}

/// The cutoff is 2^(x / 64), linear between powers of two (`fract_exp_two`), less the bits of a random number.
#[test]
fn the_cutoff_of_congestion_is_an_exponential() {
    for (x, sectors) in [(64, 2), (320, 32), (512, 256), (832, 8_192), (1_000, 53_248), (1_015, 60_928)] {
        let mut congestion = Congestion::new(1);
        congestion.count(SECOND, (1_024 - x) << 20, 2_000);
        let cutoffs: Vec<u64> = (0..2_000).map(|_| congestion.cutoff(SECOND).unwrap()).collect();
        let (low, high) = (cutoffs.iter().min().unwrap(), cutoffs.iter().max().unwrap());
        assert!(*high <= sectors && *low >= sectors.saturating_sub(32).max(1), "{x}: {low} to {high}");
        let mean = cutoffs.iter().sum::<u64>() as f64 / cutoffs.len() as f64;
        assert!(sectors < 64 || (mean - (sectors as f64 - 16.0)).abs() < 0.5, "{x}: {mean}");
    }
}

#[test]
fn congestion_is_tested_after_the_stream_and_only_below_the_cutoff() {
    let mut cache = bcache(BcacheMode::Writethrough, 1024);
    cache.congestion.count(SECOND, 1_000 << 20, 2_000);
    assert_eq!(cache.check_bypass(&io(SECOND, Op::Read, 0, 8, 1)), Some(Bypass::Congested));
    assert_eq!(cache.check_bypass(&io(SECOND, Op::Read, 8, 8_192, 1)), Some(Bypass::Sequential));
    // 10 ms take 9 of 1,024: the cutoff of 60,928 sectors is above that of streams.
    let mut cache = bcache(BcacheMode::Writethrough, 1024);
    cache.congestion.count(SECOND, 10_000_000, 2_000);
    assert_eq!(cache.check_bypass(&io(SECOND, Op::Read, 0, 8_184, 1)), None);
}

#[test]
fn the_rate_of_writeback_follows_the_error() {
    let mut controller = Controller::new(1000);
    assert_eq!(controller.budget(0, 0, 41_000), 0);
    // (41,000 − 1,000) / 40 + 40,000 × 5 / 10,000.
    assert_eq!(controller.rate(), 1020);
    assert_eq!(controller.budget(2 * SECOND, 2 * SECOND, 41_000), 2040);
    assert_eq!(controller.budget(33 * SECOND, 2 * SECOND, 41_000), u64::MAX, "no I/O for half a minute");
    let mut controller = Controller::new(1000);
    controller.budget(0, 0, 0);
    assert_eq!(controller.rate(), 8);
}

#[test]
fn bcache_counts_reads_and_caches_pages() {
    let mut cache = bcache(BcacheMode::Writethrough, 1024);
    cache.request(&io(0, Op::Read, 0, 16, 1));
    cache.request(&io(1, Op::Read, 8, 8, 1));
    cache.request(&io(2, Op::Read, 8, 16, 1));
    cache.request(&io(3, WRITE, 800, 8, 1));
    cache.request(&io(4, Op::Read, 800, 8, 1));
    let counts = cache.counts();
    assert_eq!((counts.reads, counts.read_hits, counts.writes, counts.write_hits), (4, 2, 1, 1));
    assert_eq!(counts.promotions, 16 + 8 + 8, "sectors of two reads and of the write");
    cache.request(&io(5, Op::Discard, 0, 1600, 1));
    cache.request(&io(6, Op::Read, 800, 8, 1));
    assert_eq!(cache.counts().read_hits, 2);
}

#[test]
fn writeback_leaves_dirty_data_alone_when_buckets_are_invalidated() {
    let mut cache = bcache(BcacheMode::Writeback, 128);
    // 128 buckets hold 8,192 KiB × 8; 16 MiB of dirty data are below 40 %.
    for page in 0..4096 {
        cache.request(&io(page, WRITE, page * 80, 8, 1));
    }
    assert_eq!(cache.counts().dirty, 4096);
    for page in 0..40_000 {
        cache.request(&io(5000 + page, Op::Read, (1 << 30) + page * 80, 8, 2));
    }
    assert!(cache.counts().demotions > 100);
    assert_eq!(cache.counts().dirty, 4096);
    assert!((0..4096).all(|page| cache.read_page(page * 10)));
    // After half a minute without I/O, everything is written back.
    cache.request(&io(100 * SECOND, Op::Read, 0, 8, 1));
    assert_eq!((cache.counts().dirty, cache.counts().writebacks), (0, 4096));
}

proptest! {
    #[test]
    fn what_bcache_serves_was_written_or_read_before(
        ios in prop::collection::vec((0..3000u64, 1..9u64, 0..4u8, 0..40u64), 1..1500), dirty in any::<bool>(),
    ) {
        let mut cache = bcache(if dirty { BcacheMode::Writeback } else { BcacheMode::Writethrough }, 128);
        let (mut known, mut now) = (HashMap::new(), 0);
        for (page, pages, what, pause) in ios {
            now += pause * SECOND / 10;
            let op = [Op::Read, Op::Read, WRITE, Op::Discard][usize::from(what)];
            let before = cache.counts();
            cache.request(&io(now, op, page * 8, pages as u32 * 8, 1));
            let after = cache.counts();
            let range = page..page + pages;
            if after.read_hits > before.read_hits {
                prop_assert!(range.clone().all(|page| known.contains_key(&page)));
            }
            prop_assert!(after.dirty <= known.len() as u64 + pages);
            match op {
                Op::Discard => known.retain(|page, ()| !range.contains(page)),
                _ => known.extend(range.map(|page| (page, ()))),
            }
            prop_assert!(after.read_hits <= after.reads && after.write_hits <= after.writes);
        }
    }
}
