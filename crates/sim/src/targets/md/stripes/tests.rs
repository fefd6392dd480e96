//! Tests of the members' I/O of arrays with parity, with expectations calculated by hand.

use super::{RowIo, StripeCache};
use crate::bio::NONE;
use crate::cell::{Cell, Job, Level, Md};
use crate::load::RandomMap;
use serde_json::json;

use crate::tests::{MEMBER, cell, iops, ios, job, md, pages, play, reads, refusal, stream, without};

impl StripeCache {
    /// Panics if an entry is in use or lost.
    pub fn assert_idle(&self) {
        assert_eq!((self.active, self.queue.len(), self.partial.len()), (0, 0, 0));
        assert!(self.waiting.is_empty() && self.overlapping.is_empty() && !self.starved);
        let (mut index, mut inactive) = (self.oldest, 0);
        while index != NONE {
            let entry = &self.entries[index as usize];
            assert!(!entry.active && !entry.queued && entry.held == 0 && entry.io == RowIo::Idle);
            inactive += 1;
            index = entry.newer;
        }
        assert_eq!(inactive, self.entries.len());
    }
}

/// The array's size.
fn size(data: u64) -> u64 {
    data * MEMBER
}

#[test]
fn random_writes_read_and_write_two_members_with_one_parity() {
    let outcome = play(&cell(md(Level::Raid5, 8), &iops(0.0), &[job(size(7), 2000)]));
    let (read, written) = pages(&outcome);
    // Some pages are still in the cache, and some writes meet in a row. Eight superblocks are written at the end.
    assert!((3950..=4000).contains(&read) && (3958..=4008).contains(&written), "{read} {written}");
    let outcome = play(&cell(md(Level::Raid4, 8), &iops(0.0), &[job(size(7), 2000)]));
    let [read, written] = outcome.devices[7].ios;
    assert!((1950..=2000).contains(&read) && (1981..=2001).contains(&written), "{read} {written}");
}

#[test]
fn random_writes_read_and_write_three_members_with_two_parities() {
    let outcome = play(&cell(md(Level::Raid6, 9), &iops(0.0), &[job(size(7), 2000)]));
    let (read, written) = pages(&outcome);
    assert!((5900..=6000).contains(&read) && (5909..=6009).contains(&written), "{read} {written}");
    // Before 4.1 the other five were read.
    let mut old = cell(md(Level::Raid6, 9), &iops(0.0), &[job(size(7), 2000)]);
    old.kernel = "3.16".into();
    let (read, written) = pages(&play(&old));
    assert!((11800..=12000).contains(&read) && (5909..=6009).contains(&written), "{read} {written}");
}

#[test]
fn small_writes_make_a_quarter_of_the_members_iops() {
    for disks in [5, 8] {
        let load = Job { iodepth: 64, ..job(size(disks as u64 - 1), 4000) };
        let outcome = play(&cell(md(Level::Raid5, disks), &iops(1000.0), &[load]));
        let expected = disks as f64 * 1000.0 / 4.0;
        let iops = outcome.write.iops;
        assert!((iops / expected - 1.0).abs() < 0.12, "{disks} disks: {iops}, not {expected}");
    }
}

#[test]
fn streams_in_batches_write_full_stripes() {
    for (level, disks, data) in [(Level::Raid5, 5, 4), (Level::Raid6, 6, 4), (Level::Raid4, 3, 2)] {
        // A batch is four whole stripes.
        let load = stream(32 << 20, 65536, 32, 16);
        let outcome = play(&cell(md(level, disks), &iops(0.0), &[load]));
        let (read, written) = pages(&outcome);
        let expected = (32 << 20) / 4096 * disks as u64 / data + disks as u64;
        assert_eq!((read, written), (0, expected), "{level:?}");
        // Neighbouring rows are merged into one request.
        assert!(ios(&outcome).1 * 8 < expected, "{level:?}: {:?}", ios(&outcome));
    }
}

#[test]
fn streams_without_batches_write_many_full_stripes() {
    let load = stream(32 << 20, 65536, 32, 1);
    let outcome = play(&cell(md(Level::Raid5, 5), &iops(500.0), &[load]));
    let (read, written) = pages(&outcome);
    let full = (32 << 20) / 4096 * 5 / 4;
    assert!(read < full / 2 && written < full * 3 / 2, "{read} read, {written} written, full stripes {full}");
}

#[test]
fn one_large_bio_is_a_full_stripe() {
    let load = stream(16 << 20, 256 << 10, 1, 1);
    let outcome = play(&cell(md(Level::Raid5, 5), &iops(0.0), &[load]));
    assert_eq!(pages(&outcome), (0, (16 << 20) / 4096 * 5 / 4 + 5));
}

#[test]
fn reads_of_a_healthy_array_bypass_the_cache() {
    let load = reads(stream(16 << 20, 256 << 10, 4, 1));
    let outcome = play(&cell(md(Level::Raid5, 5), &iops(0.0), &[load]));
    assert_eq!(pages(&outcome), ((16 << 20) / 4096, 0));
    // Chunks are 64 KiB.
    assert_eq!(ios(&outcome).0, (16 << 20) / 65536);
}

#[test]
fn reads_of_a_lost_member_read_all_the_others() {
    let array = without(md(Level::Raid5, 5), 2);
    let outcome = play(&cell(array, &iops(0.0), &[reads(job(size(4), 5000))]));
    let (read, _) = pages(&outcome);
    // A fifth of the pages needs four reads, the others one.
    let expected = 5000.0 * (0.2 * 4.0 + 0.8);
    assert!((read as f64 / expected - 1.0).abs() < 0.03, "{read}, not {expected}");
    let array = without(without(md(Level::Raid6, 6), 0), 3);
    let outcome = play(&cell(array, &iops(0.0), &[reads(job(size(4), 5000))]));
    let (read, _) = pages(&outcome);
    let expected = 5000.0 * (2.0 / 6.0 * 4.0 + 4.0 / 6.0);
    assert!((read as f64 / expected - 1.0).abs() < 0.03, "{read}, not {expected}");
}

#[test]
fn a_degraded_array_is_written_without_the_lost_member() {
    let array = without(md(Level::Raid5, 5), 2);
    let outcome = play(&cell(array, &iops(0.0), &[job(size(4), 5000)]));
    let (read, written) = pages(&outcome);
    // Data on the lost member (a fifth): parity from the three others. Parity on it: the kernel still reads those,
    // and writes only the data. Neither: old data and old parity.
    let expected_read = 5000.0 * (0.4 * 3.0 + 0.6 * 2.0);
    let expected_written = 5000.0 * (0.4 + 0.6 * 2.0);
    assert!((read as f64 / expected_read - 1.0).abs() < 0.03, "{read}, not {expected_read}");
    assert!((written as f64 / expected_written - 1.0).abs() < 0.03, "{written}, not {expected_written}");
}

#[test]
fn a_bio_may_be_larger_than_the_cache() {
    let mut array = md(Level::Raid5, 3);
    array.stripe_cache = 17;
    let load = stream(16 << 20, 1 << 20, 4, 2);
    let outcome = play(&cell(array, &iops(0.0), &[load]));
    let full = (16 << 20) / 4096 * 3 / 2;
    let (_, written) = pages(&outcome);
    assert!((full..full * 3 / 2).contains(&written), "{written}, {full}");
}

#[test]
fn writes_of_one_page_wait_for_each_other() {
    let outcome = play(&cell(md(Level::Raid5, 5), &iops(1000.0), &[job(4096, 200)]));
    // Each starts when the one before is done, and except for the first everything is in the cache.
    assert_eq!(pages(&outcome), (2, 400 + 5));
    let small = Job { write_sizes: vec![(512, 1.0)], align: 512, ..stream(4 << 20, 512, 64, 64) };
    let outcome = play(&cell(md(Level::Raid5, 5), &iops(0.0), &[small]));
    // Eight together overwrite a page, so its old content is not read.
    let (read, written) = pages(&outcome);
    assert!(written < 5 * 1024 && read < 4 * 1024, "{read} {written}");
}

#[test]
fn impossible_parity_arrays_are_refused() {
    let refused = |array| refusal(&cell(array, &iops(0.0), &[]));
    assert_eq!(refused(md(Level::Raid6, 3)), "stack: md0: too few members: 3, expected at least 4");
    assert_eq!(refused(md(Level::Raid5, 1)), "stack: md0: too few members: 1, expected at least 2");
    let many = "stack: md0: 65 members: expected at most 64 with parity";
    assert_eq!(refused(md(Level::Raid6, 65)), many);
    let mut odd = md(Level::Raid5, 5);
    odd.chunk = 12 << 10;
    assert_eq!(refused(odd), "stack: md0: a chunk of 24 sectors: expected a power of two");
    let mut tiny = md(Level::Raid5, 5);
    tiny.stripe_cache = 16;
    assert_eq!(refused(tiny), "stack: md0: stripe_cache 16: expected 17 to 32768 entries");
    let array = Md { group_thread_cnt: 1, ..md(Level::Raid5, 5) };
    let old = Cell { kernel: "3.11".into(), ..cell(array, &iops(0.0), &[]) };
    assert_eq!(refusal(&old), "stack: md0: group_thread_cnt: expected Linux 3.12 or newer");
    assert_eq!(refused(Md { rmw_level: 3, ..md(Level::Raid5, 5) }), "stack: md0: rmw_level 3: expected 0, 1 or 2");
    let old = Cell { kernel: "4.0".into(), ..cell(Md { rmw_level: 0, ..md(Level::Raid5, 5) }, &iops(0.0), &[]) };
    assert_eq!(refusal(&old), "stack: md0: rmw_level: expected Linux 4.1 or newer");
}

#[test]
fn rmw_level_says_how_a_page_of_a_row_is_written() {
    // A page of 9 + 1 is read with its parity, or the eight other pages are; of 2 + 1, one page or two.
    let reads = |rmw_level, disks: usize| {
        let array = Md { rmw_level, ..md(Level::Raid5, disks) };
        let load = Job { iodepth: 1, ..job((disks as u64 - 1) * MEMBER, 400) };
        pages(&play(&cell(array, &iops(0.0), &[load]))).0 as f64 / 400.0
    };
    for (rmw_level, wide, narrow) in [(0, 8.0, 1.0), (1, 2.0, 1.0), (2, 2.0, 1.0)] {
        assert!((reads(rmw_level, 10) - wide).abs() < 0.1, "{rmw_level}: {}", reads(rmw_level, 10));
        assert!((reads(rmw_level, 3) - narrow).abs() < 0.1, "{rmw_level}");
    }
    // Of 3 + 1, both ways read two pages: the two others, or the page and the parity. All is in the first row of chunks.
    let by_slot = |rmw_level| {
        let array = Md { rmw_level, ..md(Level::Raid5, 4) };
        let pages = array.chunk / 4096;
        let load = Job { iodepth: 1, random_map: RandomMap::Repeated, ..job(array.chunk, pages) };
        let outcome = play(&cell(array, &iops(0.0), &[load]));
        outcome.devices.iter().map(|disk| disk.ios[0] / pages).collect::<Vec<_>>()
    };
    assert_eq!(by_slot(1), [0, 1, 1, 0]);
    assert_eq!(by_slot(2), [1, 0, 0, 1]);
}

#[test]
fn an_array_with_parity_splits_large_bios() {
    let kernel = |text: &str| crate::kernel::Kernel::parse(text).unwrap();
    assert_eq!(kernel("5.19").largest_parity_bio(8192), u64::MAX);
    assert_eq!([kernel("6.0"), kernel("6.19")].map(|kernel| kernel.largest_parity_bio(8192)), [2048; 2]);
    assert_eq!([512, 8192].map(|stripe| kernel("7.0").largest_parity_bio(stripe)), [2048, 8192]);
}

#[test]
fn writes_that_read_first_wait_for_those_before_in_2_6() {
    // A page on a slow disk is read and written in 100 ms each. Two pages on other disks wait for the read, once.
    let mean = |kernel: &str| {
        let slow = stream(4096, 4096, 1, 1);
        let fast = Job { offset: 65536 + 4096, ..stream(8192, 4096, 1, 1) };
        let mut cell = Cell { kernel: kernel.into(), ..cell(md(Level::Raid5, 5), &iops(0.0), &[slow, fast]) };
        cell.devices[0].model =
            serde_json::from_value(json!({"kind": "throttled", "latency_ns": 100_000_000})).unwrap();
        play(&cell).write.clat_ns.summary.mean.unwrap() / 1e6
    };
    assert!((mean("3.0") - 200.0 / 3.0).abs() < 1.0, "{}", mean("3.0"));
    assert!((mean("2.6") - 300.0 / 3.0).abs() < 1.0, "{}", mean("2.6"));
}
