//! QEMU's throttled virtual disk: leaky buckets, a queue for each direction, and nothing else.
//!
//! Sources: util/throttle.c (`throttle_compute_wait`, `throttle_account`) and block/throttle-groups.c
//! (`throttle_group_co_io_limits_intercept`, `schedule_next_request`), QEMU 7.2 to 10. An I/O starts when none of its
//! buckets is over its limit. It then raises them by one, or by its bytes; they leak at the configured rates. Without
//! a burst (`max` = 0) a bucket holds a tenth of a second's worth, which an idle disk serves at once. With one it holds
//! what the burst's rate serves in the burst's time, and a second bucket limits the rate meanwhile: this is also how
//! clouds describe volumes that earn credits. Reads and writes wait in separate queues, each with its own timer, which
//! starts one I/O: while both wait, they alternate, regardless of how many wait in each.

use std::collections::VecDeque;

use crate::bio::Op;
use crate::device::{DiskCommand, DiskEvents, DiskModel, DiskWork};
use crate::events::Time;
use serde::{Deserialize, Serialize};

/// QEMU's throttling: leaky buckets. A disk that was idle lets a tenth of a second's worth through at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(extend("toml" = {"always": true})))]
pub struct ThrottledSpec {
    /// I/Os per second, reads and writes together; 0: no limit.
    pub iops_total: f64,
    /// Reads per second; 0: no limit.
    pub iops_read: f64,
    /// Writes per second; 0: no limit.
    pub iops_write: f64,
    /// Bytes per second, reads and writes together; 0: no limit.
    pub bps_total: f64,
    /// Bytes read per second; 0: no limit.
    pub bps_read: f64,
    /// Bytes written per second; 0: no limit.
    pub bps_write: f64,
    /// I/Os per second during a burst, reads and writes together; 0: no burst.
    pub iops_burst: f64,
    /// Bytes per second during a burst, reads and writes together; 0: no burst.
    pub bps_burst: f64,
    /// How long a burst lasts that begins after a long idle time, in seconds; less than 1 counts as 1.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"type": "int", "range": [0, 86_400]})))]
    pub burst_seconds: f64,
    /// Latency of every I/O in addition to the throttling, in ns.
    pub latency_ns: u64,
}

/// The size of a bucket without a burst, as the time in which it leaks: a tenth of a second (`throttle_compute_wait`).
const BUCKET_NS: f64 = 1e8;

/// One bucket, represented by the time at which it will be empty.
#[derive(Clone, Copy, Debug, Default)]
struct LeakyBucket {
    ns_per_unit: f64,
    holds_ns: f64, // its size, as the time in which it leaks
    empty_at: f64,
}

impl LeakyBucket {
    fn new(rate: f64, holds_ns: f64) -> Self {
        Self { ns_per_unit: if rate > 0.0 { 1e9 / rate } else { 0.0 }, holds_ns, empty_at: 0.0 }
    }

    /// The buckets of a limit: the rate's, and that of a burst.
    fn pair(rate: f64, burst: f64, seconds: f64) -> [Self; 2] {
        if rate > 0.0 && burst > 0.0 {
            [Self::new(rate, burst * seconds.max(1.0) / rate * 1e9), Self::new(burst, BUCKET_NS)]
        } else {
            [Self::new(rate, BUCKET_NS), Self::default()]
        }
    }

    /// Counts `units` that start now.
    fn count(&mut self, now: f64, units: f64) {
        self.empty_at = self.empty_at.max(now) + units * self.ns_per_unit;
    }
}

/// A throttled disk.
#[derive(Debug, Default)]
pub struct Throttled {
    total: [[LeakyBucket; 2]; 2],        // Of operations, and of bytes
    by_direction: [[LeakyBucket; 2]; 2], // Limits of reads and of writes
    latency: Time,
    waiting: [VecDeque<DiskCommand>; 2],
    due: [Option<Time>; 2], // When the next waiting read or write starts
    busy: u64,
    counted: Time, // Up to when `busy` is counted, and when the last started I/O is done
    done: Time,
}

impl DiskModel for Throttled {
    type Spec = ThrottledSpec;

    fn new(limits: &ThrottledSpec) -> Self {
        let pair = |iops, bps| [LeakyBucket::new(iops, BUCKET_NS), LeakyBucket::new(bps, BUCKET_NS)];
        Self {
            total: [
                LeakyBucket::pair(limits.iops_total, limits.iops_burst, limits.burst_seconds),
                LeakyBucket::pair(limits.bps_total, limits.bps_burst, limits.burst_seconds),
            ],
            by_direction: [pair(limits.iops_read, limits.bps_read), pair(limits.iops_write, limits.bps_write)],
            latency: limits.latency_ns,
            ..Self::default()
        }
    }

    fn start(&mut self, now: Time, command: DiskCommand, events: &mut DiskEvents) {
        if command.op == Op::Flush {
            events.plan_completion(now + self.latency, command.request);
            return;
        }
        self.count_busy_time(now);
        let direction = command.op as usize;
        if self.must_wait(now, direction, events) || !self.waiting[direction].is_empty() {
            self.waiting[direction].push_back(command);
        } else {
            self.start_io(now, &command, events);
        }
    }

    fn timer(&mut self, now: Time, events: &mut DiskEvents) {
        self.count_busy_time(now);
        for direction in [0, 1] {
            if self.due[direction].is_none_or(|due| due > now) {
                continue;
            }
            self.due[direction] = None;
            while let Some(command) = self.waiting[direction].pop_front() {
                self.start_io(now, &command, events);
                if self.waiting[direction].is_empty() || self.must_wait(now, direction, events) {
                    break;
                }
            }
        }
    }

    fn work(&self) -> DiskWork {
        DiskWork { media_ns: self.busy_ns(), ..DiskWork::default() }
    }

    fn busy_ns(&self) -> u64 {
        self.busy + self.done.saturating_sub(self.counted)
    }
}

impl Throttled {
    /// Whether an I/O of this direction must wait. Sets the direction's timer if it is not set.
    fn must_wait(&mut self, now: Time, direction: usize, events: &mut DiskEvents) -> bool {
        if self.due[direction].is_some() {
            return true;
        }
        let buckets = self.total.iter().flatten().chain(&self.by_direction[direction]);
        let wait = buckets.map(|bucket| bucket.empty_at - now as f64 - bucket.holds_ns).fold(0.0, f64::max);
        if wait > 0.0 {
            let due = now.saturating_add((wait.ceil() as Time).max(1));
            self.due[direction] = Some(due);
            events.plan_timer(due);
        }
        wait > 0.0
    }

    fn start_io(&mut self, now: Time, command: &DiskCommand, events: &mut DiskEvents) {
        let direction = &mut self.by_direction[command.op as usize];
        for ((total, bucket), units) in self.total.iter_mut().zip(direction).zip([1.0, f64::from(command.bytes)]) {
            total.iter_mut().chain([bucket]).for_each(|bucket| bucket.count(now as f64, units));
        }
        self.done = now.saturating_add(self.latency);
        events.plan_completion(self.done, command.request);
    }

    /// Counts the busy time since the last call.
    fn count_busy_time(&mut self, now: Time) {
        let idle = self.waiting.iter().all(VecDeque::is_empty);
        let until = if idle { self.done.min(now) } else { now };
        self.busy += until.saturating_sub(self.counted);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests;
