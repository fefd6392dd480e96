//! Counts of requests by what happened to them, as blkparse's summary groups them.

use crate::event::{Action, Event, Rwbs};
use serde::{Deserialize, Serialize};

/// A number of bios or requests, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Amount {
    /// Number of bios or requests.
    pub count: u64,
    /// Bytes of these bios or requests. Negative if a filter left out dispatches whose requeues are subtracted.
    pub bytes: i64,
}

impl Amount {
    fn add(&mut self, bytes: u32) {
        self.count += 1;
        self.bytes = self.bytes.wrapping_add(i64::from(bytes));
    }

    pub(super) fn add_other(&mut self, other: Amount) {
        self.count += other.count;
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    /// KiB as blkparse counts them.
    pub(super) fn kib(self) -> u64 {
        (self.bytes >> 10) as u64
    }
}

pub type AmountPair = [Amount; 2]; // Read and write sides of a count: index 0 is "not a write"

/// Counts of a CPU, or of all CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Tally {
    /// Bios queued: reads, writes.
    pub queued: AmountPair,
    /// Requests dispatched: reads, writes. The bytes of requeues are subtracted.
    pub dispatched: AmountPair,
    /// Requests requeued: reads, writes.
    pub requeued: AmountPair,
    /// Requests or bios completed: reads, writes.
    pub completed: AmountPair,
    /// Bios merged into requests, at the back or the front: reads, writes.
    pub merged: AmountPair,
    /// Pass-through commands queued: reads, writes.
    pub passthrough_queued: AmountPair,
    /// Pass-through commands dispatched: reads, writes. The bytes of requeues are subtracted.
    pub passthrough_dispatched: AmountPair,
    /// Pass-through commands requeued: reads, writes.
    pub passthrough_requeued: AmountPair,
    /// Pass-through commands completed: reads, writes.
    pub passthrough_completed: AmountPair,
    /// Explicit unplugs.
    pub unplugs: u64,
    /// Unplugs by timer or scheduler.
    pub timer_unplugs: u64,
    /// Events of all kinds.
    pub events: u64,
}

impl Tally {
    /// The tally of counts by cell.
    pub(super) fn of(cells: &ActionCounts) -> Tally {
        let pair = |action: Action, passthrough| {
            [cells.count(action, false, passthrough), cells.count(action, true, passthrough)]
        };
        let queues = |passthrough| {
            let [mut dispatched, requeued] = [Action::DISPATCH, Action::REQUEUE].map(|a| pair(a, passthrough));
            for (out, back) in dispatched.iter_mut().zip(&requeued) {
                out.bytes = out.bytes.wrapping_sub(back.bytes);
            }
            (pair(Action::QUEUE, passthrough), dispatched, requeued, pair(Action::COMPLETE, passthrough))
        };
        let (queued, dispatched, requeued, completed) = queues(false);
        let (passthrough_queued, passthrough_dispatched, passthrough_requeued, passthrough_completed) = queues(true);
        let mut merged = pair(Action::BACK_MERGE, false);
        for (all, front) in merged.iter_mut().zip(pair(Action::FRONT_MERGE, false)) {
            all.add_other(front);
        }
        let count = |action| pair(action, false).iter().map(|a| a.count).sum();
        Tally {
            queued,
            dispatched,
            requeued,
            completed,
            merged,
            passthrough_queued,
            passthrough_dispatched,
            passthrough_requeued,
            passthrough_completed,
            unplugs: count(Action::UNPLUG),
            timer_unplugs: count(Action::UNPLUG_TIMER),
            events: cells.0.iter().map(|a| a.count).sum(),
        }
    }

    pub(super) fn add_other(&mut self, other: &Tally) {
        for (mine, theirs) in [
            (&mut self.queued, &other.queued),
            (&mut self.dispatched, &other.dispatched),
            (&mut self.requeued, &other.requeued),
            (&mut self.completed, &other.completed),
            (&mut self.merged, &other.merged),
            (&mut self.passthrough_queued, &other.passthrough_queued),
            (&mut self.passthrough_dispatched, &other.passthrough_dispatched),
            (&mut self.passthrough_requeued, &other.passthrough_requeued),
            (&mut self.passthrough_completed, &other.passthrough_completed),
        ] {
            mine[0].add_other(theirs[0]);
            mine[1].add_other(theirs[1]);
        }
        self.unplugs += other.unplugs;
        self.timer_unplugs += other.timer_unplugs;
        self.events += other.events;
    }

    pub(super) fn has_passthrough(&self) -> bool {
        [
            &self.passthrough_queued,
            &self.passthrough_dispatched,
            &self.passthrough_requeued,
            &self.passthrough_completed,
        ]
        .iter()
        .any(|pair| pair[0].count + pair[1].count > 0)
    }
}

/// Counts of one CPU by action, direction and kind of request: one increment for each event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ActionCounts(#[serde(with = "blklab_stats::checked::array")] pub(super) [Amount; 32 * 4]);

impl Default for ActionCounts {
    fn default() -> Self {
        ActionCounts([Amount::default(); 32 * 4])
    }
}

impl ActionCounts {
    /// Actions above 31, such as messages, share a cell that counts only in the number of events.
    fn index(action: Action, write: bool, passthrough: bool) -> usize {
        let action = if action.0 < 32 { usize::from(action.0) } else { 0 };
        action << 2 | usize::from(write) << 1 | usize::from(passthrough)
    }

    pub(super) fn add(&mut self, event: &Event) {
        let index = Self::index(event.action, event.rwbs.has(Rwbs::WRITE), event.rwbs.has(Rwbs::PASSTHROUGH));
        self.0[index].add(event.bytes);
    }

    fn count(&self, action: Action, write: bool, passthrough: bool) -> Amount {
        self.0[Self::index(action, write, passthrough)]
    }
}
