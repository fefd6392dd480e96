//! The input of the statistics: rows of one device, some thousands at a time.

use crate::event::{DeviceId, Op, Rwbs, StartAction, op_of};
use crate::io::Io;
use blklab_stats::{Merge, checked};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Devices from which on their chunks are smaller, and their events are sorted by device, some at a time.
pub const MANY_DEVICES: usize = 16;

/// One arrival: a Q event with its process and source resolved.
#[derive(Clone, Copy, Debug)]
pub struct QueuedIo {
    pub time: u64,        // Nanoseconds since the trace began
    pub sector: u64,      // First sector
    pub bytes: u32,       // Length in bytes
    pub process: u32,     // Index of the process's name
    pub source: DeviceId, // The device that it was remapped from; the null device if it was not remapped
    pub rwbs: Rwbs,       // Category bits
    pub cpu: u16,         // Processor
}

impl QueuedIo {
    /// The arrival of an I/O that has ended.
    pub fn of(io: &Io) -> QueuedIo {
        let Io { t_queue: time, sector, bytes, process, source, rwbs, cpu, .. } = *io;
        QueuedIo { time, sector, bytes, process, source, rwbs, cpu }
    }

    /// Its operation.
    pub fn op(&self) -> Op {
        op_of(self.rwbs, self.bytes)
    }

    /// 0 for a read, 1 for a write.
    pub fn side(&self) -> Option<usize> {
        match self.op() {
            Op::Read => Some(0),
            Op::Write => Some(1),
            Op::Discard | Op::Flush => None,
        }
    }

    /// Length in sectors.
    pub fn sectors(&self) -> u64 {
        u64::from(self.bytes >> 9)
    }
}

/// Rows of one device: arrivals in order of time, ended I/Os in order of their end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Chunk {
    pub device: usize,      // Index of the device
    pub start: StartAction, // The events with which its I/Os begin
    pub first_block: u64,   // Number of the device's first block among those of all devices
    #[serde(skip)]
    pub queued: Vec<QueuedIo>, // Arrivals
    #[serde(skip)]
    pub ended: Vec<Io>, // Ended I/Os
}

checked!(Chunk, |chunk| chunk.first_block <= u64::MAX >> 2);

impl Chunk {
    pub const ROWS: usize = 1024; // Rows after which a chunk is sent on: its two lists fit into the L2 cache

    /// An empty chunk of a device; the lists of many devices grow with use.
    pub fn new(device: usize, first_block: u64) -> Chunk {
        let room = if device < MANY_DEVICES { Self::ROWS } else { 0 };
        let (queued, ended) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Chunk { device, start: StartAction::Q, first_block, queued, ended }
    }

    /// If a trace has many devices, their chunks are smaller.
    fn rows(device: usize) -> usize {
        if device < MANY_DEVICES { Self::ROWS } else { Self::ROWS / 16 }
    }

    /// Whether it must be sent on.
    pub fn is_full(&self) -> bool {
        let rows = Self::rows(self.device);
        self.queued.len() >= rows || self.ended.len() >= rows
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.ended.is_empty()
    }
}

/// One kind of statistic of one device.
pub trait Panel: Default + Merge + Send + 'static {
    /// What the document has of it.
    type Profile;

    /// Whether it is left out for a device that is described briefly.
    const DETAIL: bool = false;

    /// An empty panel for the device with this index; it is smaller for the many devices of a large trace.
    fn for_device(_index: usize) -> Self {
        Self::default()
    }

    /// Counts rows of the device.
    fn observe(&mut self, chunk: &Chunk);

    /// Ends the trace.
    fn end(&mut self) {}

    /// Gives processes and devices new numbers, before another trace's panel is merged.
    fn renumber(&mut self, _numbers: &Renumbering) {}

    /// What the document has of it.
    fn profile(&self, device: &ProfiledDevice) -> Self::Profile;
}

/// What profiles of a device's panels need besides the panels.
pub struct ProfiledDevice<'a> {
    pub number: &'a str, // Its number, `major,minor`
    pub name: Option<&'a str>,
    pub p50: Option<u64>, // The median of Q2C, or of D2C in a recording without Q, in ns
    pub process: &'a dyn Fn(u32) -> String, // The name of a process by its index
}

/// The numbers that processes and devices of a trace get among those of another one.
#[derive(Debug, Default)]
pub struct Renumbering {
    pub processes: Vec<u32>,                  // By the index of a process
    pub devices: HashMap<DeviceId, DeviceId>, // Those that change
    pub all_direct: bool,                     // Whether I/Os count as queued directly, wherever they come from
}

impl Renumbering {
    /// The new index of a process.
    pub fn process(&self, index: u32) -> u32 {
        self.processes.get(index as usize).copied().unwrap_or(index)
    }

    /// The new number of a device.
    pub fn device(&self, device: DeviceId) -> DeviceId {
        if self.all_direct { DeviceId::default() } else { self.devices.get(&device).copied().unwrap_or(device) }
    }
}

/// A panel for every device of a trace.
///
/// It gets every chunk in order. Panels do not depend on each other, so each can run on its own thread.
#[derive(Clone)]
pub struct PerDevice<P> {
    pub panels: Vec<P>,
    make: Arc<dyn Fn(usize) -> P + Send + Sync>,
}

impl<P: Panel> Default for PerDevice<P> {
    fn default() -> Self {
        Self::new(P::for_device)
    }
}

impl<P: Panel> PerDevice<P> {
    /// No panels yet; `make` makes the panel for the device with an index.
    pub fn new(make: impl Fn(usize) -> P + Send + Sync + 'static) -> Self {
        Self { panels: Vec::new(), make: Arc::new(make) }
    }

    /// Counts the rows of one device.
    pub fn observe(&mut self, chunk: &Chunk) {
        self.panels.extend((self.panels.len()..=chunk.device).map(&*self.make));
        self.panels[chunk.device].observe(chunk);
    }

    /// Ends the trace.
    pub fn end(&mut self) {
        self.panels.iter_mut().for_each(P::end);
    }

    /// Adds a panel of another trace to the device with an index.
    pub fn merge(&mut self, device: usize, mut panel: P, numbers: &Renumbering) {
        panel.renumber(numbers);
        if device < self.panels.len() {
            return self.panels[device].merge(&panel);
        }
        self.panels.extend((self.panels.len()..device).map(&*self.make));
        self.panels.push(panel);
    }

    /// The profile of a device's panel; of an empty one if it had no rows, or is left out.
    pub fn profile(&self, at: usize, device: &ProfiledDevice, brief: bool) -> P::Profile {
        let panel = self.panels.get(at).filter(|_| !(brief && P::DETAIL));
        panel.map_or_else(|| P::default().profile(device), |panel| panel.profile(device))
    }

    /// Takes the panel of a device; an empty one if it had no rows.
    pub fn take(&mut self, device: usize) -> P {
        self.panels.get_mut(device).map(std::mem::take).unwrap_or_default()
    }
}
