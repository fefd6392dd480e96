//! Counts of requests by what happened to them, as blkparse's summary groups them.

use crate::event::{Action, Event, Rwbs};
use blklab_stats::{Merge, merge_fields};
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

    /// KiB as blkparse counts them.
    pub(super) fn kib(self) -> u64 {
        (self.bytes >> 10) as u64
    }
}

impl Merge for Amount {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.wrapping_add(other.bytes);
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
        let pair = |action: Action, passthrough| cells.0[usize::from(action.0)][usize::from(passthrough)];
        let queues = |passthrough| {
            let [mut dispatched, requeued] = [Action::DISPATCH, Action::REQUEUE].map(|a| pair(a, passthrough));
            for (out, back) in dispatched.iter_mut().zip(&requeued) {
                out.bytes = out.bytes.wrapping_sub(back.bytes);
            }
            [pair(Action::QUEUE, passthrough), dispatched, requeued, pair(Action::COMPLETE, passthrough)]
        };
        let [queued, dispatched, requeued, completed] = queues(false);
        let [passthrough_queued, passthrough_dispatched, passthrough_requeued, passthrough_completed] = queues(true);
        let mut merged = pair(Action::BACK_MERGE, false);
        merged.merge(&pair(Action::FRONT_MERGE, false));
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
            events: cells.0.as_flattened().as_flattened().iter().map(|a| a.count).sum(),
        }
    }

    pub(super) fn has_passthrough(&self) -> bool {
        let pairs = [
            self.passthrough_queued,
            self.passthrough_dispatched,
            self.passthrough_requeued,
            self.passthrough_completed,
        ];
        pairs.as_flattened().iter().any(|amount| amount.count > 0)
    }
}

merge_fields!(Tally: queued, dispatched, requeued, completed, merged, passthrough_queued, passthrough_dispatched,
    passthrough_requeued, passthrough_completed, unplugs, timer_unplugs, events);

/// Counts of one CPU by action, kind of request (1: pass-through) and direction: one increment for each event. Actions
/// above 31, such as messages, share cells that count only in the number of events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ActionCounts(pub(super) [[AmountPair; 2]; 32]);

impl ActionCounts {
    pub(super) fn add(&mut self, event: &Event) {
        let action = if event.action.0 < 32 { usize::from(event.action.0) } else { 0 };
        let passthrough = usize::from(event.rwbs.has(Rwbs::PASSTHROUGH));
        self.0[action][passthrough][usize::from(event.rwbs.has(Rwbs::WRITE))].add(event.bytes);
    }
}
