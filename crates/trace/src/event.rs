//! One block-layer event, in the form every reader produces and every consumer reads.
//!
//! The layout follows the kernel's `struct blk_io_trace` (include/uapi/linux/blktrace_api.h), so that blktrace binary
//! passes through without loss; readers of other formats fill in what those contain.

pub use crate::codes::{Action, Rwbs};
use serde::{Deserialize, Serialize};
use std::fmt;

pub const SECTOR: u64 = 512; // Bytes in a sector: always 512, independent of the device's block size
const FEWEST: usize = 64; // Events of a device after which a trace with enough Q is taken as recorded with Q
const ENOUGH: usize = 1024; // Events of a device after which a trace without Q is taken as recorded without Q

/// The operation of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// Data from the device.
    Read = 0,
    /// Data to the device.
    Write = 1,
    /// Blocks that are not needed any more (TRIM).
    Discard = 2,
    /// No data: make earlier writes stable.
    Flush = 3,
}

impl Op {
    /// Every operation, in the order of the discriminants.
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Discard, Op::Flush];

    /// Lower-case name as the command line and JSON use it.
    pub fn name(self) -> &'static str {
        ["read", "write", "discard", "flush"][self as usize]
    }
}

/// A device number in Linux's form: `major << 20 | minor`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// From major and minor numbers.
    pub const fn new(major: u32, minor: u32) -> DeviceId {
        DeviceId(major << 20 | (minor & 0xf_ffff))
    }

    /// The driver's number.
    pub const fn major(self) -> u32 {
        self.0 >> 20
    }

    /// The device's number within its driver.
    pub const fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }

    /// The file name of a device in formats without numbers: `dev-8-16`.
    pub fn file_name(self) -> String {
        format!("dev-{}-{}", self.major(), self.minor())
    }

    /// The inverse of [`DeviceId::file_name`].
    pub fn from_file_name(name: &str) -> Option<DeviceId> {
        let (major, minor) = name.strip_prefix("dev-")?.split_once('-')?;
        let device = DeviceId::new(
            major.parse().ok().filter(|&m: &u32| m < 4096)?,
            minor.parse().ok().filter(|&m: &u32| m < 1 << 20)?,
        );
        (device.file_name() == name).then_some(device)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.major(), self.minor())
    }
}

/// One event. 64 bytes: a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Event {
    pub time: u64,            // Nanoseconds since the trace began
    pub sector: u64,          // First sector
    pub arg_sector: u64, // Remap: the source's sector. Split: where the second part starts. Unplug: how many requests.
    pub bytes: u32,      // Length in bytes
    pub device: DeviceId, // The device it happened on
    pub sequence: u32,   // Sequence number within its CPU's stream
    pub pid: u32,        // Process (thread) id that was running; for completions, the process that was interrupted
    pub arg_device: DeviceId, // Remap: the source's device
    /// Remap: the target's device, the whole disk where `device` is a traced partition; else 0.
    pub target_device: DeviceId,
    pub pdu_start: u32, // Where this event's extra bytes start in [`EventBatch::pdu`]
    pub pdu_len: u16,   // Length of the extra bytes that were kept (passthrough commands, messages); else 0
    pub cpu: u16,       // Processor
    pub rwbs: Rwbs,     // Category bits
    pub error: u16,     // Kernel's error as recorded: an errno, negated, cut to 16 bits (-5 is 65531)
    pub input: u16,     // Which input of the set it came from: index into [`crate::source::TraceInfo::inputs`]
    pub action: Action, // What happened
}

impl Event {
    /// The operation of the event's I/O.
    pub fn op(&self) -> Op {
        op_of(self.rwbs, self.bytes)
    }

    /// Length in sectors.
    pub fn sectors(&self) -> u64 {
        u64::from(self.bytes >> 9)
    }

    /// One past the last sector.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors())
    }
}

/// The operation of an I/O with these category bits and this length.
pub fn op_of(rwbs: Rwbs, bytes: u32) -> Op {
    if rwbs.has(Rwbs::DISCARD) {
        Op::Discard
    } else if bytes == 0 && rwbs.has(Rwbs::FLUSH) {
        Op::Flush
    } else if rwbs.has(Rwbs::WRITE) {
        Op::Write
    } else {
        Op::Read
    }
}

/// A process's name that appeared while reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    pub before: usize, // The first event of the batch at which the name is known
    pub pid: u32,      // Process id
    pub name: Vec<u8>, // The task's name as recorded (not trusted: any bytes)
}

/// Some events in time order, with their extra bytes and new process names.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    pub events: Vec<Event>,      // The events
    pub pdu: Vec<u8>,            // Extra bytes of passthrough commands and messages
    pub names: Vec<ProcessName>, // New names, in order of `before`
}

impl EventBatch {
    /// The approximate number of events in a batch: enough to amortise, few enough to stay in cache.
    pub const TARGET: usize = 2048;

    /// Empties the batch, keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.pdu.clear();
        self.names.clear();
    }

    /// The extra bytes of `event`.
    pub fn pdu_of(&self, event: &Event) -> &[u8] {
        let start = event.pdu_start as usize;
        self.pdu.get(start..start + event.pdu_len as usize).unwrap_or(&[])
    }

    /// Keeps `bytes` for `event`, which must be pushed to this batch afterwards.
    pub fn attach(&mut self, event: &mut Event, bytes: &[u8]) {
        event.pdu_start = self.pdu.len() as u32;
        event.pdu_len = bytes.len().min(usize::from(u16::MAX)) as u16;
        self.pdu.extend_from_slice(&bytes[..usize::from(event.pdu_len)]);
    }
}

// A recording with an action mask (`blktrace -a issue -a complete`) has no Q: its I/Os begin with D, or with C if it has
// no D either.
/// The action with which I/Os begin, named after blkparse's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub enum StartAction {
    /// The I/Os are bios, from their queueing (Q).
    #[default]
    Q,
    /// The I/Os are requests, from their dispatch (D): the time in the queue is unknown.
    D,
    /// Only completions (C) were recorded: no latency, no queue depth, no process.
    C,
}

impl StartAction {
    /// The start action of a trace or device that begins with `events`; `None` if more events are needed.
    pub fn of(events: &[Event], ended: bool) -> Option<StartAction> {
        let count = |action| events.iter().filter(|event| event.action == action).count();
        let bytes = |action| -> u64 {
            let counted = |e: &&Event| e.action == action && !e.rwbs.has(Rwbs::PASSTHROUGH);
            events.iter().filter(counted).map(|event| u64::from(event.bytes)).sum()
        };
        let (queued, dispatched) = (count(Action::QUEUE), count(Action::DISPATCH));
        // Q events that were lost, or not recorded for some I/O, have fewer bytes than what is dispatched.
        if queued > 0 && (ended || events.len() >= FEWEST) && 2 * bytes(Action::QUEUE) >= bytes(Action::DISPATCH) {
            return Some(StartAction::Q);
        }
        (ended || events.len() >= ENOUGH).then(|| match (dispatched, count(Action::COMPLETE)) {
            (1.., _) => StartAction::D,
            (0, 1..) if queued == 0 => StartAction::C,
            _ => StartAction::Q,
        })
    }

    /// The action's code.
    pub fn action(self) -> Action {
        match self {
            StartAction::Q => Action::QUEUE,
            StartAction::D => Action::DISPATCH,
            StartAction::C => Action::COMPLETE,
        }
    }
}

#[cfg(test)]
mod tests;
