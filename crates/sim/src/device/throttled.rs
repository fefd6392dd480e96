//! QEMU's throttled virtual disk: leaky buckets, a queue for each direction, and nothing else.
//!
//! Sources: util/throttle.c (`throttle_compute_wait`, `throttle_account`) and block/throttle-groups.c
//! (`throttle_group_co_io_limits_intercept`, `schedule_next_request`), QEMU 7.2 to 10. An I/O goes while none of its
//! buckets is over the brim, and then raises them by one, or by its bytes; they leak at the limits' rates. Without a
//! burst (`max` = 0) a bucket holds a tenth of a second's worth, which a disk that was idle gives at once. Reads and
//! writes wait apart, each with a timer of its own that lets one go: while both wait, they go by turns, however many
//! of either there are.

use std::collections::VecDeque;

use crate::bio::Op;
use crate::device::{Command, DiskModel, Plan, Work};
use crate::events::Time;
use serde::{Deserialize, Serialize};

/// QEMU's throttling: leaky buckets without bursts of their own; 0 is unlimited.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottledSpec {
    /// Operations per second, both directions.
    pub iops_total: f64,
    /// Reads per second.
    pub iops_read: f64,
    /// Writes per second.
    pub iops_write: f64,
    /// Bytes per second, both directions.
    pub bps_total: f64,
    /// Bytes read per second.
    pub bps_read: f64,
    /// Bytes written per second.
    pub bps_write: f64,
    /// What an I/O takes besides.
    pub latency_ns: u64,
}

/// What a bucket without a burst holds, as the time in which it leaks: a tenth of a second (`throttle_compute_wait`).
const HOLDS: f64 = 1e8;

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

    /// How long an I/O that would go now must wait.
    fn wait(&self, now: f64) -> f64 {
        self.empty_at - now - HOLDS
    }

    /// Counts `units` that go now.
    fn count(&mut self, now: f64, units: f64) {
        self.empty_at = self.empty_at.max(now) + units * self.ns_per_unit;
    }
}

/// A throttled disk.
#[derive(Debug)]
pub struct Throttled {
    total: [Bucket; 2],
    /// Of reads and of writes.
    own: [[Bucket; 2]; 2],
    latency: Time,
    waiting: [VecDeque<Command>; 2],
    /// When the next read or write that waits goes.
    due: [Option<Time>; 2],
    busy: u64,
    /// Until when `busy` is counted, and when the last that went is done.
    counted: Time,
    done: Time,
}

impl DiskModel for Throttled {
    type Spec = ThrottledSpec;

    fn new(limits: &ThrottledSpec) -> Self {
        let pair = |iops, bps| [Bucket::new(iops), Bucket::new(bps)];
        Self {
            total: pair(limits.iops_total, limits.bps_total),
            own: [pair(limits.iops_read, limits.bps_read), pair(limits.iops_write, limits.bps_write)],
            latency: limits.latency_ns,
            waiting: Default::default(),
            due: [None; 2],
            busy: 0,
            counted: 0,
            done: 0,
        }
    }

    fn start(&mut self, now: Time, command: Command, plan: &mut Plan) {
        if command.op == Op::Flush {
            plan.done(now + self.latency, command.request);
            return;
        }
        self.watch(now);
        let way = command.op as usize;
        if self.must_wait(now, way, plan) || !self.waiting[way].is_empty() {
            self.waiting[way].push_back(command);
        } else {
            self.go(now, &command, plan);
        }
    }

    fn timer(&mut self, now: Time, plan: &mut Plan) {
        self.watch(now);
        for way in [0, 1] {
            if self.due[way].is_none_or(|due| due > now) {
                continue;
            }
            self.due[way] = None;
            while let Some(command) = self.waiting[way].pop_front() {
                self.go(now, &command, plan);
                if self.waiting[way].is_empty() || self.must_wait(now, way, plan) {
                    break;
                }
            }
        }
    }

    fn work(&self) -> Work {
        Work { media_ns: self.busy_ns(), ..Work::default() }
    }

    fn busy_ns(&self) -> u64 {
        self.busy + self.done.saturating_sub(self.counted)
    }
}

impl Throttled {
    /// Whether one of this direction must wait; if nobody of it does, the timer is set.
    fn must_wait(&mut self, now: Time, way: usize, plan: &mut Plan) -> bool {
        if self.due[way].is_some() {
            return true;
        }
        let buckets = self.total.iter().chain(&self.own[way]);
        let wait = buckets.map(|bucket| bucket.wait(now as f64)).fold(0.0, f64::max);
        if wait > 0.0 {
            let due = now.saturating_add((wait.ceil() as Time).max(1));
            self.due[way] = Some(due);
            plan.timer(due);
        }
        wait > 0.0
    }

    fn go(&mut self, now: Time, command: &Command, plan: &mut Plan) {
        let units = [1.0, f64::from(command.bytes)];
        for buckets in [&mut self.total, &mut self.own[command.op as usize]] {
            for (bucket, units) in buckets.iter_mut().zip(units) {
                bucket.count(now as f64, units);
            }
        }
        self.done = now.saturating_add(self.latency);
        plan.done(self.done, command.request);
    }

    /// Counts the time since it was called last, as far as something was in the disk.
    fn watch(&mut self, now: Time) {
        let idle = self.waiting.iter().all(VecDeque::is_empty);
        let until = if idle { self.done.min(now) } else { now };
        self.busy += until.saturating_sub(self.counted);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Events, Happening};

    /// When each of the commands that come at time 0 is done.
    fn played(limits: &ThrottledSpec, ops: &[Op]) -> (Vec<(u32, Time)>, Throttled) {
        let (mut disk, mut events) = (Throttled::new(limits), Events::default());
        for (request, &op) in (0..).zip(ops) {
            disk.start(0, Command { request, op, byte: 0, bytes: 4096 }, &mut Plan::new(&mut events, 0));
        }
        let mut done = Vec::new();
        while let Some((now, event)) = events.next() {
            match event.happening() {
                Happening::Timer { timer, .. } if timer != Plan::OWN_TIMER => done.push((timer, now)),
                _ => disk.timer(now, &mut Plan::new(&mut events, 0)),
            }
        }
        (done, disk)
    }

    fn iops(iops_total: f64) -> ThrottledSpec {
        ThrottledSpec { iops_total, ..ThrottledSpec::default() }
    }

    #[test]
    fn a_tenth_of_a_second_goes_at_once_and_the_rest_evenly() {
        let (done, disk) = played(&iops(100.0), &[Op::Read; 14]);
        let times: Vec<Time> = done.iter().map(|one| one.1).collect();
        assert_eq!(times[..11], [0; 11], "ten fill the bucket, and one finds it full but not over the brim");
        assert_eq!(times[11..], [10_000_000, 20_000_000, 30_000_000]);
        assert_eq!(disk.busy_ns(), 30_000_000);
    }

    #[test]
    fn reads_and_writes_that_wait_go_by_turns() {
        let mut ops = [Op::Read; 40];
        ops[38..].fill(Op::Write);
        let (done, _) = played(&iops(100.0), &ops);
        let places: Vec<usize> =
            done.iter().enumerate().filter(|(_, one)| one.0 >= 38).map(|(place, _)| place).collect();
        assert!(places[1] < 16, "{places:?}: two writes do not wait for the 29 reads before them");
        let last = done.last().unwrap().1;
        assert_eq!(last, 290_000_000, "together they are as fast as the limit");
    }

    #[test]
    fn a_direction_may_have_a_limit_of_its_own() {
        let limits = ThrottledSpec { bps_write: 4096.0 * 10.0, ..iops(1000.0) };
        let (done, _) = played(&limits, &[Op::Write, Op::Write, Op::Write, Op::Read]);
        assert_eq!(done, [(0, 0), (1, 0), (3, 0), (2, 100_000_000)]);
    }
}
