//! What several disks share: an HBA, a RAID controller, or the SATA ports of a chip set.
//!
//! - **Commands** are served one after the other, when the disk has done them.
//! - **Coalesced interrupts.** With a few commands in flight, a completion is held back, and the host learns of it
//!   together with those that come meanwhile. The delay and the number are configured: Smart Array controllers have
//!   `CoalIntDelay` and `CoalIntCount` (drivers/scsi/hpsa_cmd.h).
//! - **Write cache.** A battery or flash protects it: writes are acknowledged when they are in it, flushes end at once,
//!   and reads of what it holds need no disk. The controller writes it to the disks in the order of their bytes.

use crate::bio::Op;
use crate::device::DiskCommand;
use crate::events::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What several disks share: an HBA, a RAID controller, or the SATA ports of a chip set.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(extend("toml" = {"always": true})))]
pub struct ControllerSpec {
    /// Time that it adds to each command, in ns; other commands are served meanwhile.
    pub latency_ns: u64,
    /// Commands per second, of all its disks together; 0: no limit.
    pub iops: f64,
    /// Bytes per second, of all its disks together, in both directions; 0: no limit.
    pub bandwidth: u64,
    /// Time for which it holds completions back while three or more commands are in flight, in ns, to interrupt the
    /// host once for several: 100 µs of an HP Smart Array P420i; 0: it does not.
    pub coalesce_ns: u64,
    /// Bytes of its write cache, which a battery or flash protects; 0: none.
    pub write_cache_bytes: u64,
}

/// Commands in flight from which completions are held back. Measured on a P420i: none of two, all of four.
const COALESCED_FROM: u32 = 3;
/// Bytes of the largest write from the cache. An estimate: the largest request of many disks' interfaces.
const MOST_DRAINED: u64 = 512 << 10;

/// What a controller does with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Cached, // The cache answers it
    Waits,  // The cache is full; `admit` returns it later
    Passed, // The disk must do it
}

/// A controller, which serves one command after the other.
#[derive(Debug, Default)]
pub struct Controller {
    spec: ControllerSpec,
    until: f64, // When it is free
    in_flight: u32,
    interrupt: Time,                       // When the host learns of what is held back
    cached: u64,                           // Bytes in the cache, those that are being written included
    dirty: BTreeMap<(u16, u64), u32>,      // Lengths of cached writes, by disk and first byte
    waiting: VecDeque<(u16, DiskCommand)>, // Writes that the full cache does not take yet
}

impl Controller {
    /// An idle controller.
    pub fn new(spec: &ControllerSpec) -> Self {
        Self { spec: spec.clone(), ..Self::default() }
    }

    /// Whether it has a write cache.
    pub fn has_cache(&self) -> bool {
        self.spec.write_cache_bytes > 0
    }

    /// Takes a command for a disk.
    pub fn start(&mut self, disk: u16, command: DiskCommand) -> Admission {
        self.in_flight += 1;
        match command.op {
            Op::Flush if self.has_cache() => Admission::Cached,
            Op::Read if self.holds(disk, &command) => Admission::Cached,
            Op::Write if self.has_cache() && self.waiting.is_empty() && self.keep(disk, &command) => Admission::Cached,
            Op::Write if self.has_cache() => {
                self.waiting.push_back((disk, command));
                Admission::Waits
            }
            _ => Admission::Passed,
        }
    }

    /// Serves a command that a disk, or the cache, has done: when the host learns of it, how long the controller works
    /// for it, and for how long it is held back.
    pub fn serve(&mut self, now: Time, bytes: u64) -> (Time, f64, Time) {
        let each = |rate: f64, amount: f64| if rate > 0.0 { amount * 1e9 / rate } else { 0.0 };
        let work = each(self.spec.iops, 1.0).max(each(self.spec.bandwidth as f64, bytes as f64));
        self.until = self.until.max(now as f64) + work;
        let done = self.until as Time + self.spec.latency_ns;
        if done > self.interrupt {
            let hold = self.in_flight >= COALESCED_FROM;
            self.interrupt = if hold { done + self.spec.coalesce_ns } else { done };
        }
        self.in_flight -= 1;
        (self.interrupt, work, self.interrupt - done)
    }

    /// The next write from the cache to a disk, from a byte on and then from the beginning: its first byte, its length.
    pub fn next_dirty(&mut self, disk: u16, from: u64) -> Option<(u64, u32)> {
        let next = |from| self.dirty.range((disk, from)..=(disk, u64::MAX)).next().map(|(&(_, byte), _)| byte);
        let byte = next(from).or_else(|| next(0))?;
        let mut end = byte;
        while end - byte < MOST_DRAINED
            && let Some(bytes) = self.dirty.remove(&(disk, end))
        {
            end += u64::from(bytes);
        }
        Some((byte, (end - byte) as u32))
    }

    /// A disk has written bytes from the cache, and gives their room back.
    pub fn free(&mut self, bytes: u64) {
        self.cached -= bytes;
    }

    /// The next waiting write if the cache takes it now: its disk, the command.
    pub fn admit(&mut self) -> Option<(u16, DiskCommand)> {
        let &(disk, command) = self.waiting.front()?;
        if self.keep(disk, &command) { self.waiting.pop_front() } else { None }
    }

    /// Keeps a write in the cache if there is room. A larger one than the cache waits until it is empty.
    fn keep(&mut self, disk: u16, command: &DiskCommand) -> bool {
        if self.cached > 0 && self.cached + u64::from(command.bytes) > self.spec.write_cache_bytes {
            return false;
        }
        let kept = self.dirty.entry((disk, command.byte)).or_insert(0);
        self.cached += u64::from(command.bytes.saturating_sub(*kept));
        *kept = command.bytes.max(*kept);
        true
    }

    /// Whether one cached write has all bytes of a read.
    fn holds(&self, disk: u16, command: &DiskCommand) -> bool {
        let mut before = self.dirty.range((disk, 0)..=(disk, command.byte));
        let end = command.byte + u64::from(command.bytes);
        before.next_back().is_some_and(|(&(_, byte), &bytes)| byte + u64::from(bytes) >= end)
    }
}

#[cfg(test)]
mod tests;
