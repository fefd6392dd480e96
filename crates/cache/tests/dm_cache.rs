//! dm-cache's target: rules, with figures added up by hand.

use blklab_cache::{CacheMode, Counts, DmCache, Geometry, Op, Replay, Request, Smq, SmqKernel};

const SECOND: u64 = 1_000_000_000;
const WRITE: Op = Op::Write { sync: false };

fn io(time_ns: u64, op: Op, sector: u64, sectors: u32, task: u32) -> Request {
    Request { time_ns, op, sector, sectors, task }
}

fn dm_cache(mode: CacheMode) -> DmCache<Smq> {
    let geometry = Geometry { origin_blocks: 4000, cache_blocks: 256, block_sectors: 128 };
    DmCache::new(Box::new(Smq::new(geometry, SmqKernel::V4_15)), geometry, mode)
}

#[test]
fn a_bio_is_split_at_block_borders_and_the_last_partial_block_is_not_counted() {
    let mut cache = dm_cache(CacheMode::Writethrough);
    cache.request(&io(0, Op::Read, 100, 256, 1));
    assert_eq!(cache.counts().reads, 3);
    cache.request(&io(0, Op::Read, 4000 * 128, 8, 1));
    assert_eq!(cache.counts().reads, 3);
}

#[test]
fn whole_blocks_and_discarded_ones_are_promoted_by_writes() {
    let mut cache = dm_cache(CacheMode::Writeback);
    cache.request(&io(0, WRITE, 0, 128, 1));
    cache.request(&io(1, WRITE, 128, 8, 1));
    cache.request(&io(2, Op::Discard, 0, 4000 * 128, 1));
    cache.request(&io(3, WRITE, 256, 8, 1));
    cache.request(&io(4, WRITE, 0, 8, 1));
    let counts = cache.counts();
    // A write that promotes is no hit and no miss; a discarded block that is cached stays cached.
    assert_eq!((counts.promotions, counts.writes, counts.write_hits, counts.dirty), (2, 2, 1, 2));
    let mut through = dm_cache(CacheMode::Writethrough);
    through.request(&io(0, WRITE, 0, 128, 1));
    assert_eq!((through.counts().promotions, through.counts().writes), (0, 1));
}

#[test]
fn reads_miss_while_their_block_is_copied_and_an_idle_volume_writes_back() {
    let mut cache = dm_cache(CacheMode::Writeback);
    for at in 0..20 {
        cache.request(&io(at * SECOND / 2, Op::Read, 0, 8, 1));
    }
    let before: Counts = cache.counts();
    assert!(before.promotions == 1 && before.read_hits > 0);
    // 5 ms later the copy of another promoted block still runs; after 10 ms it is cached.
    cache.request(&io(10 * SECOND, Op::Read, 128, 8, 1));
    cache.request(&io(10 * SECOND + 5_000_000, Op::Read, 128, 8, 1));
    assert_eq!(cache.counts().read_hits, before.read_hits);
    cache.request(&io(10 * SECOND + 11_000_000, Op::Read, 128, 8, 1));
    assert_eq!(cache.counts().read_hits, before.read_hits + 1);
    cache.request(&io(10 * SECOND + 12_000_000, WRITE, 128, 8, 1));
    assert_eq!(cache.counts().dirty, 1);
    cache.request(&io(20 * SECOND, Op::Read, 0, 8, 1));
    assert_eq!((cache.counts().dirty, cache.counts().writebacks), (0, 1));
}

#[test]
fn passthrough_promotes_nothing() {
    let mut cache = dm_cache(CacheMode::Passthrough);
    for at in 0..100 {
        cache.request(&io(at * SECOND, if at % 2 == 0 { Op::Read } else { WRITE }, 0, 8, 1));
    }
    assert_eq!((cache.counts().promotions, cache.counts().dirty), (0, 0));
}
