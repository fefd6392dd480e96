//! What every reader is: a source of events in time order, with what it knows about itself.

use crate::error::Result;
use crate::event::{Event, EventBatch};
use serde::Serialize;

/// Something survivable that the user should know of.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
