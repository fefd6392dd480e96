//! The result of characterisation: the document of `blklab trace stat --json`.

use super::depth::DepthOverTime;
use super::files::FilesProfile;
use super::life::LifeProfile;
use super::load::LoadProfile;
use super::offsets::OffsetsProfile;
use super::over_time::OverTimeProfile;
use super::pattern::PatternProfile;
use super::process_series::ProcessesOverTime;
use super::slow::SlowProfile;
use crate::blkparse::summary::DeviceSummary;
use crate::blkparse::tally::Tally;
use crate::event::Action;
use crate::filter::Filter;
use crate::source::TraceInfo;
use crate::start::StartAction;
use blklab_stats::{HotnessSummary, LevelSummary};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::collections::BTreeMap;

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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFlow {
    pub device: String,       // `major,minor`
    pub name: Option<String>, // The input's name, e.g. `md127`.
    pub first_ns: u64,        // Time of its first event, ns since the trace began
    pub last_ns: u64,         // Time of its last event
    /// Time from the first event to the last; of several traces, what several of them cover counts once.
    pub observed_ns: u64,
    /// Events by action letter.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub events: EventCounts,
    pub start: StartAction, // The events with which its I/Os begin: Q, or D or C in a recording without Q
    pub in_flight: LevelSummary, // Bios between Q and C, over time
    pub depth_over_time: DepthOverTime, // The same in slices of time
    /// Requests between D and C, over time; empty on bio-based devices (md, dm), which have no D.
    pub dispatched: LevelSummary,
    pub unmatched_completions: u64, // Completions of I/Os that were never seen queued or dispatched
    pub given_up: u64,              // Bios given up because too many were in flight
}

/// The profile of one device.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceProfile {
    /// Events and queue depth.
    #[serde(flatten)]
    pub flow: DeviceFlow,
    pub load: LoadProfile,                         // Operations, sizes, processes
    pub life: BTreeMap<&'static str, LifeProfile>, // Latencies of `read`, `write`, `discard`, `flush`, `all`
    pub pattern: PatternProfile,                   // Streams, seeks, arrivals
    pub hotness: HotnessSummary,                   // Hot and cold blocks of 4 KiB
    pub over_time: OverTimeProfile,                // Load and response times over time
    pub offsets: OffsetsProfile,                   // Where the I/Os went over time
    pub processes_over_time: ProcessesOverTime,    // Load by process over time
    pub slow: SlowProfile,                         // The slowest I/Os, and stalls
    pub files: Option<FilesProfile>,               // The files of its filesystem, if asked for
}

/// blkparse's summary, as numbers.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct SummaryProfile {
    /// Name, events, times, depth and skips.
    #[serde(flatten)]
    pub device: DeviceSummary,
    pub cpus: BTreeMap<u16, Tally>, // Counts by CPU
    pub total: Tally,               // All CPUs together
}

impl From<DeviceSummary> for SummaryProfile {
    fn from(device: DeviceSummary) -> SummaryProfile {
        SummaryProfile { cpus: device.tallies().into_iter().collect(), total: device.total(), device }
    }
}

/// A characterised trace.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    pub format_version: u32,  // See [`FORMAT_VERSION`]
    pub trace: TraceInfo,     // The trace's files, format, clock and warnings
    pub filter: Filter,       // The filter
    pub events: u64,          // Events read, before filtering
    pub events_left_out: u64, // Events of devices beyond the first 1,024; no figure includes them
    /// Number (`major,minor`) of the device that the whole workload passes through: look at this one first.
    pub focus: Option<String>,
    pub first_ns: u64, // Times of the first and the last event, ns since the trace began, before filtering
    pub last_ns: u64,  // See `first_ns`
    /// Names of all named devices by number (`major,minor`), before filtering.
    pub device_names: BTreeMap<String, String>,
    pub process_names: Vec<String>, // Names of processes, in order of appearance, before filtering: at most 64
    pub devices: Vec<DeviceProfile>, // Every device seen, in order of appearance
    pub summary: Vec<SummaryProfile>, // blkparse's closing summary of the same events
}

/// The device to look at first: the one that most others of the trace receive I/O from (an array above its members, a
/// disk without remaps), because the whole workload passes through it; among equals the one with most I/Os.
pub fn focus(devices: &[DeviceProfile]) -> Option<String> {
    let feeds = |d: &DeviceProfile| {
        let fed = |other: &&DeviceProfile| other.load.sources.iter().any(|s| s.name == d.flow.device);
        devices.iter().filter(fed).count()
    };
    let ios = |d: &DeviceProfile| d.load.ops.values().map(|op| op.counts.ios).sum::<u64>();
    devices.iter().max_by_key(|d| (feeds(d), ios(d))).map(|d| d.flow.device.clone())
}
