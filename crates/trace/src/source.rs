//! The interface of readers: their input is opened files; they are sources of events in time order, with information
//! about the trace.

use crate::error::{Result, TraceError};
use crate::event::{DeviceId, EventBatch};
use serde::{Deserialize, Serialize};
use std::io::Read;

/// One file, opened and decompressed.
pub struct OpenFile {
    pub path: String,  // Path for messages, without a compression suffix; `standard input` for `-`
    pub head: Vec<u8>, // The file's first bytes, at most 64 KiB; `reader` returns them again
    pub reader: Box<dyn Read + Send>, // All bytes, from the first
}

/// A trace's name and its files, opened.
pub struct OpenInput {
    pub name: String,         // As in [`Input::name`]: the name of a per-CPU set, empty for a single file
    pub files: Vec<OpenFile>, // The files, in the order of their CPUs
}

impl OpenInput {
    /// The input for [`TraceInfo::inputs`].
    pub fn describe(&self) -> Input {
        Input { name: self.name.clone(), files: self.files.iter().map(|f| f.path.clone()).collect() }
    }
}

/// Takes the only file out of `inputs`, for formats with a single file.
pub fn single_file(inputs: Vec<OpenInput>, format: &str) -> Result<OpenFile> {
    let count: usize = inputs.iter().map(|i| i.files.len()).sum();
    match inputs.into_iter().flat_map(|i| i.files).next() {
        Some(file) if count == 1 => Ok(file),
        _ => Err(TraceError::Request(format!(
            "{count} files given: a trace in the format {format} is one file; convert them one by one"
        ))),
    }
}

/// What the records of a format contain. Other properties are unknown, which is not the same as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Capabilities {
    /// Whether it has the path through the block layer: remaps, merges and dispatches.
    pub layers: bool,
    /// Whether it has the process of each I/O.
    pub processes: bool,
    /// Whether it distinguishes reads and writes.
    pub directions: bool,
    /// Whether it has the times at which I/Os completed.
    pub completions: bool,
    /// Resolution of the times, in ns; `null` if the trace has no times.
    pub clock_ns: Option<u64>,
}

impl Capabilities {
    /// The capabilities of blktrace.
    pub const BLKTRACE: Capabilities =
        Capabilities { layers: true, processes: true, directions: true, completions: true, clock_ns: Some(1) };

    /// The capabilities of a table of reads and writes with only their start times.
    pub const fn requests(clock_ns: u64) -> Capabilities {
        Capabilities { layers: false, processes: false, directions: true, completions: false, clock_ns: Some(clock_ns) }
    }
}

/// A problem that does not stop reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Warning {
    /// The file that the warning is about, or the name of the input.
    pub path: String,
    /// What happened, where, and what blklab did about it.
    pub message: String,
}

/// One input of a set: a blktrace name with its per-CPU files, or a single file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Input {
    /// blkparse's name of the input, usually a device such as `md127`; empty if events name their devices themselves.
    pub name: String,
    /// The files that were read.
    pub files: Vec<String>,
}

/// Information about a trace. It changes while reading, and is final at the end of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TraceInfo {
    /// Name of the trace's format, which `--format` accepts.
    pub format: String,
    /// What the trace contains.
    pub capabilities: Capabilities,
    /// The inputs, with their files.
    pub inputs: Vec<Input>,
    /// Wall-clock time of the trace's time zero, in ns since 1970; `null` if the format does not record it.
    pub start_unix_ns: Option<u64>,
    /// Bytes read, after decompression; of a Parquet file, its size.
    pub bytes_read: u64,
    /// Notes in the trace that are not events, which blkparse leaves out of its text.
    pub messages: u64,
    /// Events with a time before that of their predecessor in one stream.
    pub out_of_order: u64,
    /// Events that are missing according to sequence numbers.
    pub sequence_gaps: u64,
    /// Devices that the trace names without numbers: the number that blklab gave to each (major number times 2^20, plus
    /// minor number), and its name.
    pub device_names: Vec<(u32, String)>,
    /// Events that the kernel dropped while recording; `null` if no sidecar file next to the trace says it.
    pub dropped: Option<u64>,
    /// The recorded devices and those below them, from the sidecar file; empty without one.
    pub stack: Vec<RecordedLayer>,
    /// Problems that did not stop the analysis, at most 50.
    pub warnings: Vec<Warning>,
}

/// A block device of the recorded machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(default)]
pub struct RecordedLayer {
    /// Its number, `major:minor`.
    pub number: String,
    /// The kernel's name, such as `dm-3`.
    pub name: String,
    /// What users call it, such as `vg0/home`.
    pub label: String,
    /// `disk`, `partition`, `md`, `dm`, `loop`, `bcache` or `other`.
    pub kind: String,
    /// The kernel's names of the devices directly above it.
    pub above: Vec<String>,
    /// Its part in a cache: `cache` or `backing`; `null` for others.
    pub role: Option<String>,
    /// Its size in bytes; `null` if the recording does not have it.
    pub bytes: Option<u64>,
}

impl TraceInfo {
    pub const MAX_WARNINGS: usize = 50; // Enough to see what is wrong, few enough for any trace

    /// The name of a device whose events come from the input numbered `input`: that of the input, otherwise the trace's
    /// own name for the device; empty when it has none.
    pub fn device_name(&self, device: DeviceId, input: u16) -> &str {
        let input = self.inputs.get(usize::from(input)).map_or("", |input| input.name.as_str());
        if !input.is_empty() {
            return input;
        }
        // Named devices are usually numbered in the order of their names.
        let guess = self.device_names.get(device.minor() as usize).filter(|(number, _)| *number == device.0);
        let named = guess.or_else(|| self.device_names.iter().find(|(number, _)| *number == device.0));
        named.map_or("", |(_, name)| name.as_str())
    }

    /// An error for a selection without anything, with the devices that exist.
    pub fn nothing_selected(&self) -> TraceError {
        let inputs = self.inputs.iter().map(|input| &input.name).filter(|name| !name.is_empty());
        let mut names: Vec<&str> =
            inputs.chain(self.device_names.iter().map(|(_, name)| name)).map(String::as_str).collect();
        let more = if names.len() > MAX_LISTED { ", …" } else { "" };
        names.truncate(MAX_LISTED);
        let path = self.inputs.first().and_then(|input| input.files.first()).map_or("trace", String::as_str);
        let devices =
            if names.is_empty() { String::new() } else { format!("; its devices: {}{more}", names.join(", ")) };
        TraceError::Content(format!("{path}: nothing to write: no I/O passes the filters{devices}"))
    }

    /// Shows `shown` instead of the beginning `path` of the files' paths.
    pub fn show_as(&mut self, path: &str, shown: &str) {
        let warnings = self.warnings.iter_mut().map(|warning| &mut warning.path);
        for file in self.inputs.iter_mut().flat_map(|input| &mut input.files).chain(warnings) {
            if let Some(rest) = file.strip_prefix(path) {
                *file = [shown, rest].concat();
            }
        }
    }

    /// Adds a warning, unless there are too many.
    pub fn warn(&mut self, path: &str, message: impl Into<String>) {
        if self.warnings.len() < Self::MAX_WARNINGS {
            self.warnings.push(Warning { path: path.to_owned(), message: message.into() });
        }
    }
}

const MAX_LISTED: usize = 20; // Device names in an error

/// A reader of one format.
pub trait Source: Send {
    /// Appends about [`EventBatch::TARGET`] events to `batch`, in time order. Returns false if the trace has ended
    /// and nothing was added.
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool>;

    /// The information so far.
    fn info(&self) -> &TraceInfo;
}
