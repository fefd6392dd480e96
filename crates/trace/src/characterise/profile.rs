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
    /// `major,minor`.
    pub device: String,
    /// The input's name, e.g. `md127`.
    pub name: Option<String>,
    /// Time of its first event, ns since the trace began.
    pub first_ns: u64,
    /// Time of its last event.
    pub last_ns: u64,
    /// Events by action letter.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub events: EventCounts,
    /// The events with which its I/Os begin: Q, or D or C in a recording without Q.
    pub start: StartAction,
    /// Bios between Q and C, over time.
    pub in_flight: LevelSummary,
    /// The same in slices of time.
    pub depth_over_time: DepthOverTime,
    /// Requests between D and C, over time; empty on bio-based devices (md, dm), which have no D.
    pub dispatched: LevelSummary,
    /// Completions of I/Os that were never seen queued or dispatched.
    pub unmatched_completions: u64,
    /// Bios given up because too many were in flight.
    pub given_up: u64,
}

/// The profile of one device.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceProfile {
    /// Events and queue depth.
    #[serde(flatten)]
    pub flow: DeviceFlow,
    /// Operations, sizes, processes.
    pub load: LoadProfile,
    /// Latencies of `read`, `write`, `discard`, `flush`, `all`.
    pub life: BTreeMap<&'static str, LifeProfile>,
    /// Streams, seeks, arrivals.
    pub pattern: PatternProfile,
    /// Hot and cold blocks of 4 KiB.
    pub hotness: HotnessSummary,
    /// Load and response times over time.
    pub over_time: OverTimeProfile,
    /// Where the I/Os went over time.
    pub offsets: OffsetsProfile,
    /// Load by process over time.
    pub processes_over_time: ProcessesOverTime,
    /// The slowest I/Os, and stalls.
    pub slow: SlowProfile,
    /// The files of its filesystem, if asked for.
    pub files: Option<FilesProfile>,
}

/// blkparse's summary, as numbers.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct SummaryProfile {
    /// Name, events, times, depth and skips.
    #[serde(flatten)]
    pub device: DeviceSummary,
    /// Counts by CPU.
    pub cpus: BTreeMap<u16, Tally>,
    /// All CPUs together.
    pub total: Tally,
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
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The trace's files, format, clock and warnings.
    pub trace: TraceInfo,
    /// The filter.
    pub filter: Filter,
    /// Events read, before filtering.
    pub events: u64,
    /// Events of devices beyond the first 1,024; no figure includes them.
    pub events_left_out: u64,
    /// Number (`major,minor`) of the device that the whole workload passes through: look at this one first.
    pub focus: Option<String>,
    /// Times of the first and the last event, ns since the trace began, before filtering.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Names of all named devices by number (`major,minor`), before filtering.
    pub device_names: BTreeMap<String, String>,
    /// Names of processes, in order of appearance, before filtering: at most 64.
    pub process_names: Vec<String>,
    /// Every device seen, in order of appearance.
    pub devices: Vec<DeviceProfile>,
    /// blkparse's closing summary of the same events.
    pub summary: Vec<SummaryProfile>,
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
