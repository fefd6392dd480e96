//! What every reader is given, opened files, and what it is: a source of events in time order, with what it
//! knows about itself.

use crate::error::{Result, TraceError};
use crate::event::{Event, EventBatch};
use serde::{Deserialize, Serialize};
use std::io::Read;

/// One file, opened and decompressed.
pub struct OpenFile {
    /// Path as shown in messages, without a compression suffix; `standard input` for `-`.
    pub path: String,
    /// The file's first bytes, at most 64 KiB; `reader` gives them again.
    pub head: Vec<u8>,
    /// All bytes, from the first.
    pub reader: Box<dyn Read + Send>,
}

/// A trace's name and its files, opened.
pub struct OpenInput {
    /// As in [`Input::name`]: the name of a per-CPU set, empty for a single file.
    pub name: String,
    /// The files, in the order of their CPUs.
    pub files: Vec<OpenFile>,
}

impl OpenInput {
    /// Its record, for [`TraceInfo::inputs`].
    pub fn describe(&self) -> Input {
        Input { name: self.name.clone(), files: self.files.iter().map(|f| f.path.clone()).collect() }
    }
}

/// For formats that are one file: takes it out of `inputs`.
pub fn single_file(inputs: Vec<OpenInput>, format: &str) -> Result<OpenFile> {
    let count: usize = inputs.iter().map(|i| i.files.len()).sum();
    match inputs.into_iter().flat_map(|i| i.files).next() {
        Some(file) if count == 1 => Ok(file),
        _ => Err(TraceError::Request(format!(
            "{count} files given: a trace in the format {format} is one file; convert them one by one"
        ))),
    }
}

/// What the records of a format tell. What they do not tell is unknown, which is not the same as absent.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The way through the block layer: remaps from one device to another, merges, dispatches.
    pub layers: bool,
    /// Which process asked.
    pub processes: bool,
    /// Whether an I/O is a read or a write.
    pub directions: bool,
    /// When an I/O completed.
    pub completions: bool,
    /// Resolution of the times, ns; null when there are none.
    pub clock_ns: Option<u64>,
}

impl Capabilities {
    /// What blktrace records.
    pub const BLKTRACE: Capabilities = Capabilities {
        layers: true,
        processes: true,
        directions: true,
        completions: true,
        clock_ns: Some(1),
    };

    /// A table of reads and writes with the times at which they were issued, and no more.
    pub const fn requests(clock_ns: u64) -> Capabilities {
        Capabilities {
            layers: false,
            processes: false,
            directions: true,
            completions: false,
            clock_ns: Some(clock_ns),
        }
    }
}

/// Something survivable that the user should know of.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The file, or the set's name.
    pub path: String,
    /// What, where, and what was done about it.
    pub message: String,
}

/// One input of a set: a blktrace name with its per-CPU files, or a single file.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// As blkparse would name it, e.g. `md127`; empty when events name their devices themselves.
    pub name: String,
    /// The files read.
    pub files: Vec<String>,
}

/// What is known of a trace besides its events. Grows while reading; final once the source is exhausted.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceInfo {
    /// Name of the format, as `--format` takes it.
    pub format: String,
    /// What the trace can tell.
    pub capabilities: Capabilities,
    /// What was read.
    pub inputs: Vec<Input>,
    /// Wall-clock time of the trace's time zero, ns since 1970, when the format records it.
    pub start_unix_ns: Option<u64>,
    /// Bytes read, before decompression is undone.
    pub bytes_read: u64,
    /// Notes that are not events (cgroup-tagged messages), which blkparse leaves out of its text.
    pub messages: u64,
    /// Events whose time lay before their predecessor's in one stream.
    pub out_of_order: u64,
    /// Events missing by their sequence numbers.
    pub sequence_gaps: u64,
    /// Names of devices that the trace does not number: the number given to each (`DeviceId`), and its name.
    pub device_names: Vec<(u32, String)>,
    /// Events the kernel dropped while recording, when a record of that lies beside the trace.
    pub dropped: Option<u64>,
    /// Survivable problems, at most [`TraceInfo::MAX_WARNINGS`].
    pub warnings: Vec<Warning>,
}

impl TraceInfo {
    /// Enough to see what is wrong, few enough for any trace.
    pub const MAX_WARNINGS: usize = 50;

    /// The name of the input that an event came from; empty when it has none.
    pub fn input_of(&self, event: &Event) -> &str {
        self.inputs.get(usize::from(event.input)).map_or("", |input| input.name.as_str())
    }

    /// Notes a warning unless there are too many already.
    pub fn warn(&mut self, path: &str, message: impl Into<String>) {
        if self.warnings.len() < Self::MAX_WARNINGS {
            self.warnings.push(Warning { path: path.to_owned(), message: message.into() });
        }
    }
}

/// A reader of one format.
pub trait Source: Send {
    /// Appends the next events to `batch` (about [`EventBatch::TARGET`] of them), in time order.
    /// Returns false when the trace has ended and nothing was added.
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool>;

    /// What is known so far.
    fn info(&self) -> &TraceInfo;
}
