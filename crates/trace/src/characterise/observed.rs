//! When traces were recorded: the time that they cover together.

use blklab_stats::{Merge, checked};
use serde::{Deserialize, Serialize};

const MOST: usize = 1 << 12; // Intervals that are kept; the lengths of further ones are added up

/// The intervals that traces cover, by the wall clock; those of traces without one follow each other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct ObservedTime {
    intervals: Vec<(u64, u64)>, // Begin and end, ns since 1970; ascending, without overlaps
    further_ns: u64,
}

checked!(ObservedTime, |observed| observed.intervals.iter().all(|(begin, end)| begin <= end));

impl ObservedTime {
    /// The time of one trace that began at `start_unix_ns`.
    pub fn new(start_unix_ns: Option<u64>, first_ns: u64, last_ns: u64) -> ObservedTime {
        let interval =
            start_unix_ns.map(|start| (start.saturating_add(first_ns), start.saturating_add(last_ns.max(first_ns))));
        let further_ns = if interval.is_some() { 0 } else { last_ns.saturating_sub(first_ns) };
        ObservedTime { intervals: interval.into_iter().collect(), further_ns }
    }

    /// Its length; what several traces cover counts once.
    pub fn length_ns(&self) -> u64 {
        self.intervals.iter().fold(self.further_ns, |sum, (begin, end)| sum.saturating_add(end - begin))
    }
}

impl Merge for ObservedTime {
    fn merge(&mut self, other: &Self) {
        let mut all = [&self.intervals[..], &other.intervals].concat();
        all.sort_unstable();
        self.intervals.clear();
        self.further_ns = self.further_ns.saturating_add(other.further_ns);
        for (begin, end) in all {
            let has_room = self.intervals.len() < MOST;
            match self.intervals.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ if has_room => self.intervals.push((begin, end)),
                _ => self.further_ns = self.further_ns.saturating_add(end - begin),
            }
        }
    }
}
