//! The I/Os of the largest processes over time.

use super::chunk::{Chunk, Panel, ProfiledDevice, Renumbering};
use blklab_stats::{Merge, Timeline, checked, merge_fields};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const DISTINCT: usize = 12; // Processes that are distinguished in a slice, and in the profile
const OTHERS: u32 = u32::MAX; // Index of all others, which is not that of a process

/// I/Os of a slice by process: those of the largest, and of all others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
struct Slice(Vec<(u32, u64)>);

impl Slice {
    fn add(&mut self, process: u32, ios: u64) {
        match self.0.iter().position(|(known, _)| *known == process) {
            Some(at) => self.0[at].1 += ios,
            None if self.0.len() < DISTINCT || process == OTHERS => self.0.push((process, ios)),
            None => self.add(OTHERS, ios),
        }
    }
}

impl Merge for Slice {
    fn merge(&mut self, other: &Self) {
        let mut all = Slice::default();
        let (mut named, others): (Vec<_>, Vec<_>) =
            [&self.0[..], &other.0].concat().into_iter().partition(|e| e.0 != OTHERS);
        named.sort_unstable();
        named.dedup_by(|next, entry| {
            next.0 == entry.0 && {
                entry.1 += next.1;
                true
            }
        });
        named.sort_by_key(|entry| std::cmp::Reverse(entry.1));
        named.into_iter().chain(others).for_each(|(process, ios)| all.add(process, ios));
        *self = all;
    }
}

/// I/Os by process and time on a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessSeries(Timeline<Slice>);

checked!(Slice, |slice| slice.0.len() <= DISTINCT + 1);

/// The I/Os of processes over time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct ProcessesOverTime {
    /// Width of a slice of time, in ns.
    pub width_ns: u64,
    /// I/Os queued in each slice, by name of the process. The twelve largest are named, `(others)` are the rest; in
    /// each slice, processes beyond its twelve largest are among the others.
    pub ios: BTreeMap<String, Vec<u64>>,
}

impl Panel for ProcessSeries {
    type Profile = ProcessesOverTime;
    const DETAIL: bool = true;

    fn for_device(index: usize) -> ProcessSeries {
        ProcessSeries(Timeline::new(if index < 16 { 512 } else { 64 }))
    }

    fn renumber(&mut self, numbers: &Renumbering) {
        for slice in self.0.values_mut() {
            let ios = std::mem::take(&mut slice.0).into_iter();
            ios.for_each(|(process, ios)| slice.add(numbers.process(process), ios));
        }
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            self.0.at(row.time).add(row.process, 1);
        }
    }

    fn profile(&self, device: &ProfiledDevice) -> ProcessesOverTime {
        let mut all = Slice::default();
        self.0.iter().for_each(|(_, slice)| all.merge(slice));
        let mut ios: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (at, (_, slice)) in self.0.iter().enumerate() {
            for &(process, count) in &slice.0 {
                let known = process != OTHERS && all.0.iter().any(|entry| entry.0 == process);
                let series = ios.entry(if known { (device.process)(process) } else { "(others)".into() }).or_default();
                series.resize(at + 1, 0);
                series[at] += count;
            }
        }
        ProcessesOverTime { width_ns: self.0.width_ns(), ios }
    }
}

merge_fields!(ProcessSeries: 0);

#[cfg(test)]
mod tests;
