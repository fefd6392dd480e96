//! Queue depth within the filter's window of time.

use crate::filter::Filter;
use blklab_stats::{Level, LevelSummary};

/// A number of I/Os under way, followed from the trace's beginning but accounted for in the window only.
#[derive(Clone)]
pub struct Depth {
    level: Level,
    now: u64,
    since: u64,
    until: u64,
    begun: bool,
}

impl Depth {
    /// Nothing under way.
    pub fn new(filter: &Filter) -> Depth {
        let (since, until) = (filter.since_ns.unwrap_or(0), filter.until_ns.unwrap_or(u64::MAX));
        Depth { level: Level::new(), now: 0, since, until, begun: false }
    }

    /// How many there are.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// There are so many from this time on.
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

    /// What was under way when the window opened counts from there.
    #[inline]
    fn begin(&mut self) {
        if !self.begun && self.since > 0 {
            self.level.set(self.since, self.now);
        }
        self.begun = true;
    }

    /// The figures, of a trace that ends at this time.
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
mod tests {
    use super::*;

    #[test]
    fn only_the_window_counts() {
        let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
        let mut depth = Depth::new(&filter);
        depth.set(10, 3);
        depth.set(150, 1);
        depth.set(300, 9);
        let summary = depth.summary(400);
        assert_eq!((summary.time_ns, summary.max, summary.mean), (100, 3, Some(2.0)));
    }

    #[test]
    fn a_window_without_changes_has_the_depth_it_opened_with() {
        let filter = Filter { since_ns: Some(100), until_ns: Some(200), ..Filter::default() };
        let mut depth = Depth::new(&filter);
        depth.set(10, 2);
        assert_eq!(depth.summary(1000).mean, Some(2.0));
    }
}
