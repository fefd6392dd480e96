//! Background work that is queued or running (`dm-cache-background-tracker.c`).

use crate::policy::{Operation, OriginBlock, Work};
use std::collections::HashSet;

/// The work of a policy.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    pub queued: Vec<Work>,               // work to issue; the newest is issued first
    pub promoting: HashSet<OriginBlock>, // blocks whose promotion is queued or running
    pending: usize,
    pub demotions: u32, // demotions that are queued or running
    limit: Option<usize>,
}

impl Tracker {
    /// A tracker that refuses work above the limit.
    pub fn new(limit: Option<usize>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether another piece of work would be refused.
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.pending >= limit)
    }

    /// Adds work; with `issue` it is running at once, and is returned.
    pub fn add(&mut self, work: Work, issue: bool) -> Option<Work> {
        self.pending += 1;
        match work.operation {
            Operation::Demote => self.demotions += 1,
            Operation::Promote => drop(self.promoting.insert(work.origin_block)),
            Operation::Writeback | Operation::Replace { .. } => (),
        }
        if issue {
            return Some(work);
        }
        self.queued.push(work);
        None
    }

    /// The work is done.
    pub fn complete(&mut self, work: Work) {
        self.pending -= 1;
        match work.operation {
            Operation::Demote => self.demotions -= 1,
            Operation::Promote => drop(self.promoting.remove(&work.origin_block)),
            Operation::Writeback | Operation::Replace { .. } => (),
        }
    }
}
