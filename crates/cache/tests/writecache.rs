//! dm-writecache: rules, with figures added up by hand.

use blklab_cache::BlockWrite::{Allocated, Around, Overwritten};
use blklab_cache::NextWriteback::{Commit, Copy};
use blklab_cache::{Run, Writecache, WritecacheSettings};

fn writecache(blocks: u64, max_age_ns: Option<u64>) -> Writecache {
    Writecache::new(WritecacheSettings { blocks, high_watermark: 50, low_watermark: 45, max_age_ns })
}

#[test]
fn a_full_cache_takes_only_what_it_holds() {
    let mut cache = writecache(4, None);
    let written: Vec<_> = [1, 1, 2, 3, 9, 5].map(|block| cache.write(0, block)).into();
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|slot| Allocated { slot });
    let again = Overwritten { slot: 0, committed: false };
    assert_eq!(written, [first, again, second, third, fourth, Around]);
    assert_eq!(cache.next_writeback(0), Some(Commit), "nothing is durable");
    cache.commit();
    assert_eq!(cache.write(1, 1), Overwritten { slot: 0, committed: true });
    assert_eq!(cache.uncommitted(), (0, true));
    assert_eq!((cache.next_cached(4), cache.slot(9), cache.slot(5)), (Some(9), Some(3), None));
}

#[test]
fn writeback_takes_the_oldest_between_the_watermarks() {
    let mut cache = writecache(100, None);
    // Slots 0 to 49: pairs of neighbours, in descending order of their sectors.
    for block in (0..25).rev().flat_map(|pair| [pair * 10, pair * 10 + 1]) {
        cache.write(0, block);
    }
    cache.commit();
    let runs: Vec<Run> = std::iter::from_fn(|| cache.next_writeback(0))
        .map(|next| if let Copy(run) = next { run } else { panic!("{next:?}") })
        .collect();
    // 50 in use starts it; it goes on while 45 or more are.
    let expected = [(240, 0), (230, 2), (220, 4)].map(|(block, slot)| Run { block, slot, blocks: 2 });
    assert_eq!(runs, expected);
    assert_eq!(cache.usage(), (50, 6));
    assert_eq!(cache.write(1, 240), Allocated { slot: 50 }, "its copy is being written back");
    assert!(cache.is_being_written_back(241) && !cache.is_being_written_back(240));
    runs.into_iter().for_each(|run| cache.complete_writeback(run));
    assert_eq!((cache.usage(), cache.slot(240), cache.slot(241)), ((55, 0), Some(50), None));
    assert_eq!(cache.discard(0..11), [49 - 1, 49, 46]);
}

#[test]
fn old_blocks_are_written_back_in_any_case() {
    let mut cache = writecache(100, Some(16_000));
    cache.write(5, 7);
    cache.commit();
    assert_eq!((cache.next_due(), cache.next_writeback(15_004)), (Some(15_005), None));
    assert_eq!(cache.next_writeback(15_005), Some(Copy(Run { block: 7, slot: 0, blocks: 1 })));
    assert_eq!(cache.next_due(), None);
}
