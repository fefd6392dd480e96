//! QEMU's throttled virtual disk: leaky buckets without burst, and nothing else.
//!
//! Source: util/throttle.c: an I/O goes when its bucket's level allows, and raises it by one (or its bytes); the
//! bucket leaks at the limit's rate. Without a burst (`max` = 0) a bucket holds a tenth of a second's worth
//! (`throttle_fix_bucket`), so at saturation I/Os go evenly spaced.

use crate::bio::Op;
use crate::cell;
use crate::device::Command;
use crate::events::Time;

/// One bucket, as the time at which it will be empty.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    ns_per_unit: f64,
    empty_at: f64,
}

impl Bucket {
    fn new(rate: f64) -> Self {
        Self { ns_per_unit: if rate > 0.0 { 1e9 / rate } else { 0.0 }, empty_at: 0.0 }
    }

    /// When `units` that come now may go; they then count.
    fn take(&mut self, now: f64, units: f64) -> f64 {
        let go = self.empty_at.max(now);
        self.empty_at = go + units * self.ns_per_unit;
        go
    }
}

/// A throttled disk.
#[derive(Debug)]
pub struct Throttled {
    total: [Bucket; 2],
    read: [Bucket; 2],
    write: [Bucket; 2],
    latency: Time,
    busy: u64,
    busy_until: Time,
}

impl Throttled {
    /// A disk with these limits.
    pub fn new(limits: &cell::Throttled) -> Self {
        let pair = |iops, bps| [Bucket::new(iops), Bucket::new(bps)];
        Self {
            total: pair(limits.iops_total, limits.bps_total),
            read: pair(limits.iops_read, limits.bps_read),
            write: pair(limits.iops_write, limits.bps_write),
            latency: limits.latency_ns,
            busy: 0,
            busy_until: 0,
        }
    }

    /// When a command that comes now is done.
    pub fn completion(&mut self, now: Time, command: &Command) -> Time {
        let own = match command.op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Flush => return now + self.latency,
        };
        let units = [1.0, f64::from(command.bytes)];
        let mut go = now as f64;
        for buckets in [&mut self.total, own] {
            for (bucket, units) in buckets.iter_mut().zip(units) {
                go = bucket.take(go, units);
            }
        }
        let done = (go as Time).saturating_add(self.latency);
        self.busy += done.saturating_sub(self.busy_until.max(now));
        self.busy_until = self.busy_until.max(done);
        done
    }

    /// Time in which something was in the disk.
    pub fn busy_ns(&self) -> u64 {
        self.busy
    }
}
