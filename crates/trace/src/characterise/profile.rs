//! The result of characterisation: the document of `blklab trace stat --json`.

use super::DeviceProfile;
use super::depth::DepthOverTime;
use super::dispatches::Dispatches;
use crate::blkparse::summary::DeviceSummary;
use crate::blkparse::tally::Tally;
use crate::event::{Action, DeviceId, StartAction};
use crate::filter::Filter;
use crate::source::{RecordedLayer, TraceInfo};
use blklab_stats::LevelSummary;
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::collections::{BTreeMap, BTreeSet};

pub const FORMAT_VERSION: u32 = 1; // Version of the document's shape

/// Events by action code, serialised with blkparse's letters. Messages, and codes that no kernel uses, are at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCounts(pub [u64; 32]);

impl Serialize for EventCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (code, &count) in self.0.iter().enumerate().filter(|(_, c)| **c > 0) {
            let action = Action(code as u8);
            match action.letters() {
                "?" if code == 0 => map.serialize_entry("m", &count)?,
                "?" => map.serialize_entry(&format!("action {code}"), &count)?,
                letters => map.serialize_entry(letters, &count)?,
            }
        }
        map.end()
    }
}

/// The counts of a device's events.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct DeviceFlow {
    /// Number of the device, `major,minor`.
    pub device: String,
    /// Name of the input or device, such as `md127`; `null` if the trace has none.
    pub name: Option<String>,
    /// Time of its first event, in ns since the trace began.
    pub first_ns: u64,
    /// Time of its last event, in ns since the trace began.
    pub last_ns: u64,
    /// Time from its first event to its last, in ns. Of several traces, what several of them cover counts once, by the
    /// wall clock.
    pub observed_ns: u64,
    /// Number of events by blkparse's letter: `Q`, `C`, `UT` …
    #[schemars(with = "BTreeMap<String, u64>")]
    pub events: EventCounts,
    /// The event with which its I/Os begin: Q; D or C in a recording without Q.
    pub start: StartAction,
    /// Bios between Q and C over time. The filter's latency does not apply to it.
    pub in_flight: LevelSummary,
    /// Bios between Q and C in slices of time.
    pub depth_over_time: DepthOverTime,
    /// Bios whose completion is missing: in flight for longer than four times the 99th percentile of Q2C when another bio
    /// with their range was queued, or when the trace ended.
    pub lost: u64,
    /// Requests between D and C over time; empty for bio-based devices (md, dm), which have no D.
    pub dispatched: LevelSummary,
    /// The order in which requests were dispatched.
    pub dispatches: Dispatches,
    /// Completions of I/Os without a queue or dispatch event.
    pub unmatched_completions: u64,
    /// Bios that were discarded because too many were in flight.
    pub given_up: u64,
    /// Devices above that are one range of a device below: partitions, linear volumes.
    pub begins: Vec<DeviceBegin>,
}

/// Where a device begins on the one below it.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct DeviceBegin {
    /// The device above, `major,minor`.
    pub upper: String,
    /// The device below, `major,minor`.
    pub lower: String,
    /// The sector of the device below at which the device above begins.
    pub sector: u64,
}

impl DeviceBegin {
    /// The devices of remaps, and the sector; `None` if it is not the same in all remaps.
    pub fn of((&(upper, lower), begin): (&(u32, u32), &Option<u64>)) -> Option<DeviceBegin> {
        let (upper, lower) = (DeviceId(upper).to_string(), DeviceId(lower).to_string());
        begin.map(|sector| DeviceBegin { upper, lower, sector })
    }
}

/// blkparse's summary, as numbers.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct SummaryProfile {
    /// blkparse's name: that of the input, or `major,minor` of a device in a merged stream.
    pub name: String,
    /// Events counted.
    pub events: u64,
    /// Time of the first event, in ns since the trace began.
    pub first_ns: u64,
    /// Time of the last event, in ns since the trace began.
    pub last_ns: u64,
    /// The most requests between dispatch and completion: reads, writes.
    pub max_depth: [u64; 2],
    /// Gaps in the sequence numbers of each CPU: their number, and the number of missing events. Counted only in a
    /// merged stream, otherwise 0.
    pub skips: [u64; 2],
    /// Counts by the number of the CPU.
    pub cpus: BTreeMap<u16, Tally>,
    /// Counts of all CPUs together.
    pub total: Tally,
}

impl From<DeviceSummary> for SummaryProfile {
    fn from(device: DeviceSummary) -> SummaryProfile {
        let (cpus, total) = (device.tallies().into_iter().collect(), device.total());
        let DeviceSummary { name, events, first_ns, last_ns, max_depth, skips, .. } = device;
        SummaryProfile { name, events, first_ns, last_ns, max_depth, skips, cpus, total }
    }
}

/// A characterised trace.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct Profile {
    /// Version of this document: 1. A change of meaning increases it, a new key does not.
    pub format_version: u32,
    /// The trace: its inputs, format, capabilities and warnings.
    pub trace: TraceInfo,
    /// Which I/Os were selected.
    pub filter: Filter,
    /// Events read, before the filter.
    pub events: u64,
    /// Events of devices beyond the first 1,024; no figure includes them.
    pub events_left_out: u64,
    /// Number (`major,minor`) of the device that the whole workload passes through, to look at first; `null` without
    /// devices.
    pub focus: Option<String>,
    /// Time of the first event, in ns since the trace began, before the filter.
    pub first_ns: u64,
    /// Time of the last event, in ns since the trace began, before the filter.
    pub last_ns: u64,
    /// Names of all devices with a name, by number (`major,minor`), before the filter.
    pub device_names: BTreeMap<String, String>,
    /// The first 64 names of processes, in order of appearance, before the filter.
    pub process_names: Vec<String>,
    /// Every device, in order of appearance.
    pub devices: Vec<DeviceProfile>,
    /// The summary that blkparse prints at the end, for each input or device.
    pub summary: Vec<SummaryProfile>,
}

/// The device to look at first: the one that most others of the trace receive I/O from (an array above its members, a
/// disk without remaps), because the whole workload passes through it; among equals the one with most I/Os. What the
/// recording says of the stack counts as well: bcache traces no remaps, and dm-cache remaps to volumes that may not be
/// traced.
pub fn focus(devices: &[DeviceProfile], stack: &[RecordedLayer]) -> Option<String> {
    let uppers: Vec<BTreeSet<&str>> = devices.iter().map(|d| find_above(&d.flow.device, devices, stack)).collect();
    let feeds = |d: &DeviceProfile| {
        let remapped = |other: &DeviceProfile| other.load.sources.iter().any(|s| s.name == d.flow.device);
        let fed = |(other, above): &(&DeviceProfile, &BTreeSet<&str>)| {
            remapped(other) || above.contains(d.flow.device.as_str())
        };
        devices.iter().zip(&uppers).filter(fed).count()
    };
    let ios = |d: &DeviceProfile| d.load.ops.values().map(|op| op.counts.ios).sum::<u64>();
    devices.iter().max_by_key(|d| (feeds(d), ios(d))).map(|d| d.flow.device.clone())
}

/// The nearest devices of the trace above a device, by the record of the stack, which has `major:minor`.
fn find_above<'a>(number: &str, devices: &'a [DeviceProfile], stack: &'a [RecordedLayer]) -> BTreeSet<&'a str> {
    let number_of = |layer: &RecordedLayer| layer.number.replace(':', ",");
    let mut waiting: Vec<&RecordedLayer> = stack.iter().filter(|layer| number_of(layer) == number).collect();
    let mut visited = BTreeSet::from([number.to_owned()]);
    let mut found = BTreeSet::new();
    while let Some(layer) = waiting.pop() {
        for upper in stack.iter().filter(|upper| layer.above.contains(&upper.name)) {
            if !visited.insert(number_of(upper)) {
                continue;
            }
            match devices.iter().find(|d| d.flow.device == number_of(upper)) {
                Some(device) => drop(found.insert(device.flow.device.as_str())),
                None => waiting.push(upper),
            }
        }
    }
    found
}
