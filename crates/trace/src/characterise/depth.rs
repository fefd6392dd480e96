//! Queue depth within the filter's window of time.

use crate::filter::Filter;
use blklab_stats::{Level, LevelSummary};

/// The number of I/Os in flight, followed from the start of the trace but counted only in the window.
#[derive(Clone)]
pub struct QueueDepth {
    level: Level,
    now: u64,
    since: u64,
    until: u64,
    begun: bool,
}

impl QueueDepth {
    /// No I/O in flight.
    pub fn new(filter: &Filter) -> QueueDepth {
        let (since, until) = (filter.since_ns.unwrap_or(0), filter.until_ns.unwrap_or(u64::MAX));
        QueueDepth { level: Level::new(), now: 0, since, until, begun: false }
    }

    /// The present number.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets the number from a time on.
    #[inline]
    pub fn set(&mut self, time: u64, depth: u64) {
        if time >= self.since {
            self.begin();
            if time < self.until {
                self.level.set(time, depth);
            } else {
                self.level.advance(self.until);
            }
        }
        self.now = depth;
    }

    /// I/Os that were in flight when the window opened count from there.
    #[inline]
    fn begin(&mut self) {
        if !self.begun && self.since > 0 {
            self.level.set(self.since, self.now);
        }
        self.begun = true;
    }

    /// The figures of a trace that ends at time `end`.
    pub fn summary(&self, end: u64) -> LevelSummary {
        let mut ended = self.clone();
        if end >= self.since && (self.begun || self.now > 0) {
            ended.begin();
            ended.level.advance(end.min(self.until));
        }
        ended.level.summary()
    }
}

#[cfg(test)]
mod tests;
