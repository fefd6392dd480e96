//! The input of the statistics: rows of one device, some thousands at a time.

use crate::event::{DeviceId, Op, Rwbs, op_of};
use crate::io::Io;
use crate::start::StartAction;
use blklab_stats::Merge;
use std::sync::Arc;

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
    #[inline]
    pub fn op(&self) -> Op {
        op_of(self.rwbs, self.bytes)
    }

    /// Length in sectors.
    #[inline]
    pub fn sectors(&self) -> u64 {
        u64::from(self.bytes >> 9)
    }
}

/// Rows of one device: arrivals in order of time, ended I/Os in order of their end.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    pub device: usize,         // Index of the device
    pub start: StartAction,    // The events with which its I/Os begin
    pub queued: Vec<QueuedIo>, // Arrivals
    pub ended: Vec<Io>,        // Ended I/Os
}

impl Chunk {
    pub const ROWS: usize = 1024; // Rows after which a chunk is sent on: its two lists fit into the L2 cache

    /// An empty chunk of a device.
    pub fn new(device: usize) -> Chunk {
        let rows = Self::rows(device);
        Chunk { device, start: StartAction::Q, queued: Vec::with_capacity(rows), ended: Vec::with_capacity(rows) }
    }

    /// If a trace has many devices, their chunks are smaller.
    fn rows(device: usize) -> usize {
        if device < 16 { Self::ROWS } else { Self::ROWS / 16 }
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
    /// An empty panel for the device with this index; it is smaller for the many devices of a large trace.
    fn for_device(_index: usize) -> Self {
        Self::default()
    }

    /// Counts rows of the device.
    fn observe(&mut self, chunk: &Chunk);
}

/// A panel for every device of a trace.
///
/// It gets every chunk in order. Panels do not depend on each other, so each can run on its own thread.
#[derive(Clone)]
pub struct PerDevice<P> {
    panels: Vec<P>,
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
        while self.panels.len() <= chunk.device {
            self.panels.push((self.make)(self.panels.len()));
        }
        self.panels[chunk.device].observe(chunk);
    }

    /// Takes the panel of a device; an empty one if it had no rows.
    pub fn take(&mut self, device: usize) -> P {
        self.panels.get_mut(device).map(std::mem::take).unwrap_or_default()
    }
}
