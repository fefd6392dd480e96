//! Dirty pages, and what the flusher thread writes of them (mm/page-writeback.c and fs/fs-writeback.c, Linux 6.1).

use std::collections::VecDeque;

use crate::events::Time;

/// Bytes of the largest bio of a file (`BIO_MAX_VECS`).
const BIO_BYTES: u64 = 1 << 20;
/// How long pages can stay dirty (`dirty_expire_interval`).
pub const EXPIRE: Time = 30_000_000_000;
/// The flusher writes so much of a file before it goes to the next one, or a multiple (`MIN_WRITEBACK_PAGES`).
const LEAST_CHUNK: u64 = 4 << 20;
/// The most of it: what the kernel's first estimate of a disk writes in half a second (`INIT_BW`).
const MOST_CHUNK: u64 = 50 << 20;

/// The dirty pages of one job, in the order in which they were written.
#[derive(Debug)]
struct DirtyFile {
    job: u32,                     // Its task
    ranges: VecDeque<(u64, u64)>, // Bytes of the stack: first, and after the last
    since: Time,                  // When it became dirty
}

/// The page cache's dirty pages.
#[derive(Debug)]
pub struct Writeback {
    pub task: u32,   // The flusher
    background: u64, // Dirty bytes above which the flusher writes
    setpoint: u64,   // Bytes that are dirty or being written, above which writers wait
    chunk: u64,
    chunk_left: u64, // Of the file that the flusher writes
    dirty: u64,
    in_flight: u64, // Bytes that are being written
    files: VecDeque<DirtyFile>,
}

impl Writeback {
    /// The cache of a host with these limits, `vm.dirty_bytes` and `vm.dirty_background_bytes`.
    pub fn new(task: u32, limit: u64, background: u64) -> Self {
        // A background limit that is too high is half the limit (`domain_dirty_limits`).
        let background = if background >= limit { limit / 2 } else { background };
        let free_run = (limit + background) / 2; // `dirty_freerun_ceiling`
        Self {
            task,
            background,
            // Where the kernel keeps the pages of a fast writer (`wb_position_ratio`).
            setpoint: (free_run + limit) / 2,
            chunk: ((limit / 8).min(MOST_CHUNK) + LEAST_CHUNK) / LEAST_CHUNK * LEAST_CHUNK, // `writeback_chunk_size`
            chunk_left: 0,
            dirty: 0,
            in_flight: 0,
            files: VecDeque::new(),
        }
    }

    /// A job has written bytes into the page cache. True if they are its first dirty ones.
    pub fn add(&mut self, job: u32, begin: u64, end: u64, now: Time) -> bool {
        self.dirty += end - begin;
        let Some(file) = self.files.iter_mut().find(|file| file.job == job) else {
            self.files.push_back(DirtyFile { job, ranges: VecDeque::from([(begin, end)]), since: now });
            return true;
        };
        match file.ranges.back_mut() {
            Some(range) if range.1 == begin => range.1 = end,
            _ => file.ranges.push_back((begin, end)),
        }
        false
    }

    /// Whether so much is dirty that the flusher writes at once.
    pub fn is_over_background(&self) -> bool {
        self.dirty > self.background
    }

    /// Whether a writer must wait.
    pub fn is_over_limit(&self) -> bool {
        self.dirty + self.in_flight > self.setpoint
    }

    /// The bytes that the flusher writes next: the first, and the one after the last; none if it can sleep.
    pub fn next_write(&mut self, now: Time) -> Option<(u64, u64)> {
        if self.chunk_left == 0 {
            self.files.rotate_left(usize::from(self.files.len() > 1));
            let expired = self.files.iter().position(|file| file.since + EXPIRE <= now);
            if !self.is_over_background() {
                self.files.rotate_left(expired?);
            }
            self.chunk_left = self.chunk;
        }
        let Some(file) = self.files.front_mut() else {
            self.chunk_left = 0;
            return None;
        };
        let range = file.ranges.front_mut()?;
        let (begin, end) = (range.0, range.1.min(range.0 + BIO_BYTES));
        range.0 = end;
        if range.0 == range.1 {
            file.ranges.pop_front();
        }
        self.chunk_left = self.chunk_left.saturating_sub(end - begin);
        if file.ranges.is_empty() {
            self.files.pop_front();
            self.chunk_left = 0;
        }
        self.dirty -= end - begin;
        self.in_flight += end - begin;
        Some((begin, end))
    }

    /// A write of the flusher is done.
    pub fn end_write(&mut self, bytes: u32) {
        self.in_flight -= u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn limits_follow_from_the_settings() {
        let cache = Writeback::new(0, 800 * MIB, 400 * MIB);
        // freerun (800 + 400) / 2; the middle between it and the limit.
        assert_eq!((cache.background, cache.setpoint, cache.chunk), (400 * MIB, 700 * MIB, 52 * MIB));
        assert_eq!(Writeback::new(0, 80 * MIB, 90 * MIB).background, 40 * MIB);
        assert_eq!(Writeback::new(0, 80 * MIB, 40 * MIB).chunk, 12 * MIB);
    }

    #[test]
    fn the_flusher_writes_chunks_in_turn_above_the_background_limit() {
        let mut cache = Writeback::new(0, 64 * MIB, 16 * MIB);
        assert!(cache.add(0, 0, 15 * MIB, 0) && cache.add(1, 100 * MIB, 100 * MIB + MIB, 0));
        assert_eq!((cache.is_over_background(), cache.next_write(0)), (false, None));
        assert!(!cache.add(1, 101 * MIB, 130 * MIB, 0));
        assert!(cache.is_over_background() && !cache.is_over_limit());
        let first = cache.next_write(0).unwrap();
        assert_eq!(first.1 - first.0, MIB);
        let others: Vec<u64> = (0..12).map(|_| cache.next_write(0).unwrap().0).collect();
        assert_eq!(others[..11].iter().filter(|&&byte| (byte < 50 * MIB) == (first.0 < 50 * MIB)).count(), 11);
        assert_ne!(others[11] < 50 * MIB, first.0 < 50 * MIB);
    }

    #[test]
    fn old_pages_are_written_below_the_limit() {
        let mut cache = Writeback::new(0, 64 * MIB, 16 * MIB);
        cache.add(0, 0, 4096, 5);
        assert_eq!(cache.next_write(EXPIRE), None);
        assert_eq!(cache.next_write(EXPIRE + 5), Some((0, 4096)));
        cache.end_write(4096);
        assert_eq!((cache.dirty, cache.in_flight, cache.next_write(EXPIRE + 6)), (0, 0, None));
    }
}
