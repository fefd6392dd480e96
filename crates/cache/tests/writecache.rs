//! dm-writecache: rules, with figures added up by hand.

use blklab_cache::{BlockWrite, Op, Replay, Request, Writecache, WritecacheSettings};

const SECOND: u64 = 1_000_000_000;
const WRITE: Op = Op::Write { sync: false };

fn io(time_ns: u64, op: Op, sector: u64, sectors: u32, task: u32) -> Request {
    Request { time_ns, op, sector, sectors, task }
}

fn writecache(blocks: u64) -> Writecache {
    let (high_watermark, low_watermark) = (50, 45);
    let settings = WritecacheSettings {
        blocks,
        block_sectors: 8,
        high_watermark,
        low_watermark,
        max_age_ns: None,
        writeback_rate: 100,
    };
    Writecache::new(settings)
}

#[test]
fn writecache_takes_writes_until_it_is_full() {
    let mut cache = writecache(4);
    let written: Vec<_> = [1, 1, 2, 3, 4, 5].map(|block| cache.write(0, block)).into();
    use BlockWrite::{Allocated, Around, Overwritten};
    assert_eq!(written, [Allocated, Overwritten, Allocated, Allocated, Allocated, Around]);
    assert_eq!(cache.next_writeback(0, 0), None, "nothing is durable");
    cache.commit(0);
    assert_eq!(cache.write(1, 1), Overwritten, "one durable block may be overwritten before the next commit");
    assert_eq!(cache.write(1, 2), BlockWrite::Waits);
    assert_eq!(cache.next_writeback(1, 2), Some(2));
    assert!(cache.remove(2, false));
    assert_eq!((cache.contains(2), cache.used()), (false, 3));
}

#[test]
fn writecache_writes_back_between_its_watermarks_and_pauses_for_reads() {
    let mut cache = writecache(100);
    for block in 0..60 {
        cache.request(&io(0, WRITE, block * 8, 8, 1));
    }
    cache.request(&io(1, Op::Flush, 0, 0, 1));
    cache.request(&io(2, Op::Read, 8000, 8, 1));
    cache.request(&io(2 * SECOND, Op::Read, 0, 8, 1));
    assert_eq!(cache.counts().writebacks, 0, "paused by the read from the origin");
    cache.request(&io(9 * SECOND, Op::Read, 59 * 8, 8, 1));
    let counts = cache.counts();
    // From 60 blocks down to 45.
    assert_eq!((counts.writebacks, counts.dirty, counts.reads, counts.read_hits), (15, 45, 3, 2));
    cache.request(&io(10 * SECOND, Op::Discard, 0, 8 * 60, 1));
    assert_eq!(cache.counts().dirty, 0);
}
