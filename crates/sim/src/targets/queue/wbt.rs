//! Writeback throttling, which protects reads from buffered writes.
//!
//! It affects more than buffered writes. Direct writes are exempt because they carry `REQ_SYNC | REQ_IDLE`, but md's
//! clones keep only `REQ_SYNC` (`raid1_write_request`, `raid10_write_one_disk`), so every write to the members of a
//! redundant array is throttled. Source: block/blk-wbt.c and block/blk-rq-qos.c, Linux 4.19.

use crate::events::Time;

/// `RWB_DEF_DEPTH`.
const DEFAULT_DEPTH: u32 = 16;
/// `RWB_WINDOW_NSEC`.
const WINDOW: Time = 100_000_000;

/// One disk's throttle.
#[derive(Clone, Debug, Default)]
pub struct WritebackThrottle {
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

impl WritebackThrottle {
    /// A throttle that protects a read latency of `target` ns on a disk of this queue depth; 0 disables it.
    pub fn new(target: Time, queue_depth: u32, write_back: bool) -> Self {
        let mut throttle =
            Self { target, queue_depth, write_back, window_end: WINDOW, fastest_read: Time::MAX, ..Self::default() };
        throttle.scale(0);
        throttle
    }

    /// Whether it is enabled.
    pub fn is_on(&self) -> bool {
        self.target > 0
    }

    /// Takes a slot for a write, if one is free. md's writes and the journal's are synchronous, so the limit is the
    /// full depth (`get_limit`: `REQ_HIPRIO`).
    pub fn admit(&mut self, now: Time) -> bool {
        self.adjust_depth(now);
        let fits = self.inflight < self.max_depth;
        self.inflight += u32::from(fits);
        fits
    }

    /// Frees a slot. Returns whether waiting tasks must be woken: with a write cache only when all slots are free
    /// (`wbt_rqw_done`).
    pub fn release(&mut self, now: Time) -> bool {
        self.writes += 1;
        self.adjust_depth(now);
        self.inflight -= 1;
        let normal = self.max_depth.div_ceil(2);
        let limit = if self.write_back { 0 } else { normal };
        let background = self.max_depth.div_ceil(4);
        self.inflight == 0 || (self.inflight < limit && limit - self.inflight >= background / 2)
    }

    /// Records a read's latency in the disk.
    pub fn record_read_latency(&mut self, latency: Time) {
        self.fastest_read = self.fastest_read.min(latency);
    }

    /// At the end of a window, raises or lowers the depth (`wb_timer_fn`).
    fn adjust_depth(&mut self, now: Time) {
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
        // A stricter throttle checks more often: window / sqrt(step + 1) (`rwb_arm_timer`).
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
mod tests;
