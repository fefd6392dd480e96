//! Tests of what a bitmap writes, and when.

use super::{Bitmap, BitmapStep, PAGE_BITS, SUPERBLOCK_BITS};
use crate::cell::{Cell, Job, Level, Md, ThrottledSpec};
use crate::outcome::Outcome;
use crate::tests::{MEMBER, array, cell, iops, job, md, pages, play, without};

impl Bitmap {
    /// Panics if anything is in flight or left to do.
    pub fn assert_idle(&self) {
        assert!(self.held_bios.is_empty() && self.released_bios.is_empty() && self.new_chunks.is_empty());
        assert!(self.counters.values().all(|counter| counter.writes == 0 && counter.on_disk));
        assert_eq!((self.in_flight, self.step, self.due), (0, BitmapStep::Idle, None));
    }
}

/// An array with a bitmap, one bit for `bitmap_chunk` bytes.
fn with_bitmap(level: Level, disks: usize, bitmap_chunk: u64) -> Md {
    Md { bitmap: true, bitmap_chunk, ..md(level, disks) }
}

fn run(md: Md, load: Job) -> Outcome {
    play(&cell(md, &iops(0.0), &[load]))
}

#[test]
fn a_working_set_sets_and_clears_its_bits_once() {
    for (level, disks, copies) in [(Level::Raid1, 2, 2), (Level::Raid10, 4, 2), (Level::Raid10, 2, 2)] {
        // One job, one I/O at a time, over 8 chunks of one page, well within five seconds.
        let load = || Job { iodepth: 1, ..job(8 << 20, 400) };
        let plain = pages(&run(md(level, disks), load())).1;
        // At the end the superblocks say that the array is clean, also the bitmap's.
        let ends = disks as u64;
        assert_eq!(plain, 400 * copies + ends);
        let outcome = run_on("6.4", with_bitmap(level, disks, 1 << 20), load());
        let writes = array(&outcome).bitmap_writes;
        // Each of 8 bits is set separately, and after three runs of the daemon all are cleared together.
        assert_eq!(writes, 8 + 1, "{level:?}");
        assert_eq!(pages(&outcome).1, plain + writes * disks as u64 + ends);
    }
}

#[test]
fn writes_at_the_same_time_share_a_write_of_the_bitmap() {
    // A batch of 64 sets its bits together: after k batches 64/e^k are not set yet, so about six batches set any.
    let load = Job { batch_submit: 64, batch_complete_min: 64, iodepth: 64, ..job(MEMBER, 6400) };
    let outcome = run(with_bitmap(Level::Raid1, 2, 1 << 20), load);
    assert!((5..=9).contains(&array(&outcome).bitmap_writes), "{}", array(&outcome).bitmap_writes);
}

#[test]
fn bits_are_cleared_when_writes_pause() {
    // A write every half minute to one chunk: each sets the bit, and each time it is cleared.
    let load = Job { iodepth: 1, thinktime_ns: 30_000_000_000, ..job(4096, 10) };
    let outcome = run(with_bitmap(Level::Raid1, 2, 64 << 20), load.clone());
    assert_eq!(array(&outcome).bitmap_writes, 20);
    // A write every four seconds: it is not cleared before the end.
    let load = Job { thinktime_ns: 4_000_000_000, ..load };
    let outcome = run(with_bitmap(Level::Raid1, 2, 64 << 20), load.clone());
    assert_eq!(array(&outcome).bitmap_writes, 2);
    // While a member is missing it is never cleared.
    let outcome = run(without(with_bitmap(Level::Raid1, 3, 64 << 20), 1), load);
    assert_eq!(array(&outcome).bitmap_writes, 1);
}

#[test]
fn with_parity_a_bit_stands_for_a_chunk_of_each_member() {
    let load = Job { iodepth: 1, ..job(3 * (8 << 20), 1000) };
    let plain = pages(&run(md(Level::Raid5, 4), load.clone()));
    let outcome = run_on("6.4", with_bitmap(Level::Raid5, 4, 1 << 20), load);
    assert_eq!(array(&outcome).bitmap_writes, 8 + 1);
    let (read, written) = pages(&outcome);
    // The number of pages written is the same; a few more can have left the cache before they were written again.
    assert!(read.abs_diff(plain.0) < 20 && written == plain.1 + (9 + 1) * 4, "{read} {written}, {plain:?}");
}

#[test]
fn the_last_page_is_written_in_part_until_6_3() {
    let load = || Job { iodepth: 1, ..job(8 << 20, 400) };
    let sectors = |kernel, chunk| {
        let outcome = run_on(kernel, with_bitmap(Level::Raid1, 2, chunk), load());
        (outcome.devices[0].sectors[1], array(&outcome).bitmap_writes)
    };
    // The superblock of 256 bytes and 64 bits are one sector.
    let ((part, writes), (whole, same)) = (sectors("6.3", 1 << 20), sectors("6.4", 1 << 20));
    assert_eq!(writes, same);
    assert_eq!(whole - part, 7 * writes);
    // 57,228 chunks, of which 26,508 are on the second page: 7 sectors.
    assert_eq!(Bitmap::last_page(57_228, 1), Some((1, 7)));
    assert_eq!(Bitmap::last_page(PAGE_BITS - SUPERBLOCK_BITS, 1), None);
}

#[test]
fn a_write_waits_for_the_bitmap() {
    // 100 IOPS: a write to a clean chunk takes 10 ms for the bitmap, and its own 10 ms. The first ten go at once.
    let load = Job { iodepth: 1, ..job(MEMBER, 640) };
    let plain = play(&cell(md(Level::Raid1, 2), &iops(100.0), std::slice::from_ref(&load)));
    let outcome = play(&cell(with_bitmap(Level::Raid1, 2, 4096), &iops(100.0), &[load]));
    let ratio = plain.write.iops / outcome.write.iops;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

/// Writes per second to clean chunks of an array on disks with a latency of a millisecond.
fn rate(kernel: &str, md: Md, load: Job) -> f64 {
    let disk = ThrottledSpec { latency_ns: 1_000_000, ..iops(0.0) };
    play(&Cell { kernel: kernel.into(), ..cell(md, &disk, &[load]) }).write.iops
}

#[test]
fn a_task_with_a_plug_submits_nothing_while_it_writes_the_bitmap() {
    for level in [Level::Raid1, Level::Raid10] {
        let rate = |kernel, iodepth, batch_submit| {
            let load = Job { iodepth, batch_submit, ..job(MEMBER, 640) };
            rate(kernel, with_bitmap(level, 2, 4096), load)
        };
        // A write of the bitmap for each write, at any depth; without a plug the array's thread writes many bits at once.
        let (one, many) = (rate("6.1", 1, 1), rate("6.1", 16, 1));
        assert!((450.0..550.0).contains(&one) && (900.0..1100.0).contains(&many), "{level:?}: {one} {many}");
        assert!(rate("6.5", 16, 1) > 4000.0, "{level:?}");
        // A batch has a plug on any kernel: four bits are written at once.
        let batches = rate("6.5", 16, 4);
        assert!((3000.0..4000.0).contains(&batches), "{level:?}: {batches}");
    }
}

#[test]
fn the_thread_of_an_array_with_parity_writes_the_bitmap_before_each_batch_of_rows() {
    let load = || Job { iodepth: 64, ..job(2 * MEMBER, 1280) };
    // A write needs three passes. While new writes come in, 8 passes lie between two writes of the bitmap.
    let with = rate("6.1", with_bitmap(Level::Raid5, 3, 4096), load());
    let without = rate("6.1", md(Level::Raid5, 3), load());
    assert!((8000.0 / 3.0..4500.0).contains(&with) && without > 4.0 * with, "{with} {without}");
}

#[test]
fn after_a_pause_a_write_waits_for_the_superblocks() {
    let writes = |md: Md, thinktime_ns| {
        let outcome = run(md, Job { iodepth: 1, thinktime_ns, ..job(4096, 10) });
        outcome.devices.iter().map(|device| device.ios[1]).sum::<u64>()
    };
    for level in [Level::Raid1, Level::Raid10] {
        // In each of nine pauses the array turns clean, and then dirty; at the end clean.
        assert_eq!(writes(md(level, 2), 1_000_000_000), 2 * (10 + 9 * 2 + 1), "{level:?}");
        assert_eq!(writes(md(level, 2), 100_000_000), 2 * (10 + 1), "{level:?}");
    }
    assert_eq!(writes(md(Level::Raid0, 2), 1_000_000_000), 10);
}

#[test]
fn a_load_that_ran_before_has_set_the_bits_of_its_last_seconds() {
    // A few hundred writes to an array of `chunks`; then as fast as the same load is after a minute.
    let seconds = |chunks: u64, ios, ran_before| {
        let array = with_bitmap(Level::Raid1, 2, MEMBER / chunks);
        let mut cell = cell(array, &iops(100.0), &[Job { iodepth: 1, ..job(MEMBER, ios) }]);
        cell.ran_before = ran_before;
        play(&cell).write.total_ios as f64 / play(&cell).write.iops
    };
    for chunks in [64, 256, 1024, 4096] {
        let later = (seconds(chunks, 12_000, false) - seconds(chunks, 6_000, false)) / 6_000.0;
        let before = seconds(chunks, 400, true) / 400.0;
        assert!((before / later).ln().abs() < 0.15, "{chunks}: {before} {later}");
    }
    // Without that, each first write of a chunk waits.
    assert!(seconds(256, 400, false) > 1.3 * seconds(256, 400, true));
}

/// An array with a lockless bitmap.
fn lockless(level: Level, disks: usize) -> Md {
    Md { bitmap: true, lockless: true, ..md(level, disks) }
}

fn run_on(kernel: &str, md: Md, load: Job) -> Outcome {
    let mut cell = cell(md, &iops(0.0), &[load]);
    cell.kernel = kernel.into();
    play(&cell)
}

#[test]
fn a_lockless_bitmap_writes_a_block_twice_and_clears_nothing() {
    // All chunks of the working set are in one block of 512 chunks: the first write marks its chunk, the second the
    // others.
    for (level, disks, copies) in [(Level::Raid1, 2, 2), (Level::Raid10, 4, 2)] {
        let outcome = run_on("6.18", lockless(level, disks), Job { iodepth: 1, ..job(8 << 20, 400) });
        assert_eq!(array(&outcome).bitmap_writes, 2, "{level:?}");
        let sectors: u64 = outcome.devices.iter().map(|device| device.sectors[1]).sum();
        assert_eq!(sectors, (400 * copies) * 8 + (2 + 2 * 8) * disks as u64, "{level:?}");
    }
}

#[test]
fn a_lockless_bitmap_is_cleaned_while_a_page_is_idle() {
    // The daemon runs 30 s after the first write ended. A write every four seconds never leaves its page idle for 5 s.
    let load = Job { iodepth: 1, thinktime_ns: 4_000_000_000, ..job(4096, 20) };
    assert_eq!(array(&run_on("6.18", lockless(Level::Raid1, 2), load.clone())).bitmap_writes, 1);
    // A write every 40 s is marked again each time, and nothing is written to clear it.
    let load = Job { thinktime_ns: 40_000_000_000, ..load };
    assert_eq!(array(&run_on("6.18", lockless(Level::Raid1, 2), load.clone())).bitmap_writes, 20);
    // While a member is missing, nothing is cleaned, and each chunk of 64 KiB is marked for itself.
    assert_eq!(array(&run_on("6.18", without(lockless(Level::Raid1, 3), 1), load)).bitmap_writes, 1);
    let load = Job { iodepth: 1, ..job(8 << 20, 2000) };
    assert_eq!(array(&run_on("6.18", without(lockless(Level::Raid1, 3), 1), load)).bitmap_writes, 128);
}

#[test]
fn a_lockless_bitmap_needs_6_18() {
    let mut cell = cell(lockless(Level::Raid1, 2), &iops(0.0), &[job(4096, 1)]);
    cell.kernel = "6.17".into();
    let error = crate::run(&cell).unwrap_err().to_string();
    assert_eq!(error, "stack: md0: bitmap: a lockless one needs Linux 6.18 or newer");
}
