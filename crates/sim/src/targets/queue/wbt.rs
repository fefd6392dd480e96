//! Writeback throttling, which keeps buffered writes from drowning reads.
//!
//! It matters far beyond buffered writes: direct writes are exempt because they carry `REQ_SYNC | REQ_IDLE`, but md's
//! clones keep only `REQ_SYNC` (`raid1_write_request`, `raid10_write_one_disk`), so below a redundant array every
//! write is throttled. Source: block/blk-wbt.c and block/blk-rq-qos.c, Linux 4.19.

use crate::events::Time;

/// `RWB_DEF_DEPTH`.
const DEFAULT_DEPTH: u32 = 16;
/// `RWB_WINDOW_NSEC`.
const WINDOW: Time = 100_000_000;

/// One disk's throttle.
#[derive(Clone, Debug)]
pub struct Throttle {
    target: Time,
    queue_depth: u32,
    write_back: bool,
    step: i32,
    max_depth: u32,
    scaled_max: bool,
    inflight: u32,
    window_end: Time,
    fastest_read: Time,
    writes: u32,
}

impl Throttle {
    /// A throttle that guards a read latency of `target` ns, over a disk of this depth; 0 is none.
    pub fn new(target: Time, queue_depth: u32, write_back: bool) -> Self {
        let mut throttle = Self {
            target,
            queue_depth,
            write_back,
            step: 0,
            max_depth: 0,
            scaled_max: false,
            inflight: 0,
            window_end: WINDOW,
            fastest_read: Time::MAX,
            writes: 0,
        };
        throttle.scale(0);
        throttle
    }

    /// Whether there is one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.target > 0
    }

    /// Takes a place for a write, if there is one. md's writes and the journal's are synchronous, so the limit is the
    /// full depth (`get_limit`: `REQ_HIPRIO`).
    pub fn admit(&mut self, now: Time) -> bool {
        self.look(now);
        let fits = self.inflight < self.max_depth;
        self.inflight += u32::from(fits);
        fits
    }

    /// Gives a place back. Returns whether waiting tasks are woken: with a write cache only when all are back
    /// (`wbt_rqw_done`).
    pub fn done(&mut self, now: Time) -> bool {
        self.writes += 1;
        self.look(now);
        self.inflight -= 1;
        let normal = self.max_depth.div_ceil(2);
        let limit = if self.write_back { 0 } else { normal };
        let background = self.max_depth.div_ceil(4);
        self.inflight == 0 || (self.inflight < limit && limit - self.inflight >= background / 2)
    }

    /// Takes note of a read's latency in the disk.
    #[inline]
    pub fn read_took(&mut self, latency: Time) {
        self.fastest_read = self.fastest_read.min(latency);
    }

    /// At the end of a window, makes the depth greater or smaller (`wb_timer_fn`).
    fn look(&mut self, now: Time) {
        if now < self.window_end {
            return;
        }
        if self.fastest_read != Time::MAX && self.fastest_read > self.target {
            if self.max_depth > 1 {
                self.scale(if self.step < 0 { 0 } else { self.step + 1 });
            }
        } else if (self.fastest_read != Time::MAX || self.writes > 0) && !self.scaled_max {
            self.scale(self.step - 1);
        }
        self.fastest_read = Time::MAX;
        self.writes = 0;
        // A busier throttle looks more often: window / sqrt(step + 1) (`rwb_arm_timer`).
        let divisor = if self.step > 0 { f64::from(self.step + 1).sqrt() } else { 1.0 };
        self.window_end = now + (WINDOW as f64 / divisor) as Time;
    }

    /// `rq_depth_calc_max_depth`.
    fn scale(&mut self, step: i32) {
        self.step = step;
        self.scaled_max = false;
        if self.queue_depth == 1 {
            self.max_depth = if step > 0 { 1 } else { 2 };
            self.scaled_max = step <= 0;
            return;
        }
        let depth = DEFAULT_DEPTH.min(self.queue_depth);
        self.max_depth = if step > 0 {
            1 + ((depth - 1) >> step.min(31))
        } else {
            let most = 3 * self.queue_depth / 4;
            let wanted = 1 + (u64::from(depth - 1) << (-step).min(20));
            self.scaled_max = wanted > u64::from(most);
            wanted.min(u64::from(most.max(1))) as u32
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_alone_widen_it_to_three_quarters_of_the_disk() {
        let mut throttle = Throttle::new(2_000_000, 32, true);
        assert_eq!(throttle.max_depth, 16);
        for window in 1..5 {
            assert!(throttle.admit(window * WINDOW));
            throttle.done(window * WINDOW + 1);
        }
        assert_eq!(throttle.max_depth, 24);
    }

    #[test]
    fn slow_reads_narrow_it_to_one() {
        let mut throttle = Throttle::new(2_000_000, 32, true);
        for window in 1..12 {
            throttle.read_took(3_000_000);
            if throttle.admit(window * WINDOW * 2) {
                throttle.done(window * WINDOW * 2 + 1);
            }
        }
        assert_eq!(throttle.max_depth, 1);
    }

    #[test]
    fn with_a_write_cache_tasks_wait_until_all_writes_are_back() {
        let mut throttle = Throttle::new(2_000_000, 32, true);
        while throttle.admit(0) {}
        let woken: Vec<bool> = (0..16).map(|_| throttle.done(0)).collect();
        assert_eq!(woken.iter().position(|&w| w), Some(15));
    }
}
