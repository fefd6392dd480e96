//! From events to chunks: counts, pairs, filters, and sorts what is left by device.

use super::chunk::{Chunk, Ended, Queued};
use super::profile::{DeviceFlow, EventCounts};
use crate::blkparse::summary::Summary;
use crate::event::{Action, DeviceId, Event, EventBatch};
use crate::filter::Filter;
use crate::io::Io;
use crate::pair::Pairer;
use crate::process::ProcessTable;
use crate::source::TraceInfo;
use blklab_stats::Level;
use std::collections::HashMap;

/// Devices told apart; events of further ones are counted and left out.
const MAX_DEVICES: usize = 1024;
/// Process names told apart; the rest share the last index.
const MAX_NAMES: usize = 1 << 16;
/// Shown for processes without a name.
const UNKNOWN: &str = "(unknown)";

/// What is kept of a device while events come in.
struct Lane {
    device: DeviceId,
    input: u16,
    wanted: bool,
    pairer: Pairer,
    counts: EventCounts,
    in_flight: Level,
    dispatched: Level,
    chunk: Chunk,
    first: Option<u64>,
    last: u64,
}

/// A remap seen just before the Q it belongs to.
#[derive(Clone, Copy, Default)]
struct Remap {
    device: DeviceId,
    sector: u64,
    bytes: u32,
    source: DeviceId,
}

/// The first stage of characterisation.
pub struct Intake {
    filter: Filter,
    inputs: Vec<String>,
    lanes: Vec<Lane>,
    last_lane: usize,
    /// By CPU: the latest remap.
    remaps: Vec<Remap>,
    processes: ProcessTable,
    names: Vec<String>,
    name_index: HashMap<String, u32>,
    by_pid: HashMap<u32, (u32, bool)>,
    last_pid: (u32, u32, bool),
    summary: Summary,
    done: Vec<Io>,
    total: u64,
    beyond_devices: u64,
    last_time: u64,
}

impl Intake {
    /// For a trace whose source tells `info` before its first event.
    pub fn new(filter: Filter, info: &TraceInfo) -> Intake {
        let inputs: Vec<String> = info.inputs.iter().map(|i| i.name.clone()).collect();
        Intake {
            summary: Summary::new(inputs.iter().map(String::as_str)),
            filter,
            inputs,
            lanes: Vec::new(),
            last_lane: 0,
            remaps: Vec::new(),
            processes: ProcessTable::default(),
            names: vec![UNKNOWN.into()],
            name_index: HashMap::from([(UNKNOWN.into(), 0)]),
            by_pid: HashMap::new(),
            last_pid: (u32::MAX, 0, false),
            done: Vec::new(),
            total: 0,
            beyond_devices: 0,
            last_time: 0,
        }
    }

    /// Takes in a batch; chunks that are full are given to `hand_on`, which gives back an empty one.
    pub fn batch(&mut self, batch: &EventBatch, hand_on: &mut dyn FnMut(Chunk)) {
        let mut from = 0;
        for name in &batch.names {
            let before = name.before.min(batch.events.len());
            self.events(&batch.events[from..before.max(from)], hand_on);
            from = before.max(from);
            self.processes.learn(name.pid, &name.name);
            self.by_pid.remove(&name.pid);
            self.last_pid.0 = u32::MAX;
        }
        self.events(&batch.events[from..], hand_on);
    }

    fn events(&mut self, events: &[Event], hand_on: &mut dyn FnMut(Chunk)) {
        for event in events {
            self.event(event);
            let lane = &mut self.lanes[self.last_lane];
            if lane.chunk.is_full() {
                hand_on(lane.renew_chunk());
            }
        }
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        let Some(at) = self.lane(event) else {
            self.beyond_devices += 1;
            return;
        };
        self.total += 1;
        self.last_time = self.last_time.max(event.time);
        let in_time = self.filter.wants_time(event.time);
        if in_time && self.lanes[at].wanted {
            self.summary.add(event);
            self.lanes[at].count(event);
        }
        match event.action {
            Action::REMAP => self.remap(event),
            Action::QUEUE => {
                let source = self.source_of(event);
                self.pair(at, event, source);
                let (process, wanted) = self.process(event.pid);
                let lane = &mut self.lanes[at];
                if wanted && in_time && lane.wanted && self.filter.wants_op(event.op()) {
                    lane.chunk.queued.push(Queued {
                        time: event.time,
                        sector: event.sector,
                        bytes: event.bytes,
                        process,
                        source,
                        rwbs: event.rwbs,
                        cpu: event.cpu,
                    });
                }
            }
            Action::DISPATCH | Action::REQUEUE => {
                self.pair(at, event, DeviceId(0));
                let change = if event.action == Action::DISPATCH { 1 } else { -1 };
                self.lanes[at].dispatched.change(event.time, change);
            }
            Action::COMPLETE => {
                self.pair(at, event, DeviceId(0));
                let lane = &mut self.lanes[at];
                if lane.dispatched.level() > 0 {
                    lane.dispatched.change(event.time, -1);
                }
            }
            _ => self.pair(at, event, DeviceId(0)),
        }
    }

    /// Gives the event to the device's pairer and takes in the I/Os it ended.
    #[inline]
    fn pair(&mut self, at: usize, event: &Event, source: DeviceId) {
        let lane = &mut self.lanes[at];
        let before = lane.pairer.in_flight();
        lane.pairer.event(event, source, &mut self.done);
        let after = lane.pairer.in_flight();
        if before != after {
            lane.in_flight.set(event.time, after as u64);
        }
        if !self.done.is_empty() {
            self.take_done(at);
        }
    }

    fn take_done(&mut self, at: usize) {
        let mut done = std::mem::take(&mut self.done);
        for io in done.drain(..) {
            let (process, wanted) = self.process(io.pid);
            let lane = &mut self.lanes[at];
            if wanted && lane.wanted && self.filter.wants_io(&io) {
                lane.chunk.ended.push(Ended { io, process });
            }
        }
        self.done = done;
    }

    #[inline]
    fn lane(&mut self, event: &Event) -> Option<usize> {
        if let Some(lane) = self.lanes.get(self.last_lane)
            && lane.device == event.device
        {
            return Some(self.last_lane);
        }
        let at = match self.lanes.iter().position(|l| l.device == event.device) {
            Some(at) => at,
            None if self.lanes.len() < MAX_DEVICES => self.add_lane(event),
            None => return None,
        };
        self.last_lane = at;
        Some(at)
    }

    fn add_lane(&mut self, event: &Event) -> usize {
        let input = self.inputs.get(usize::from(event.input)).map_or("", String::as_str);
        self.lanes.push(Lane {
            device: event.device,
            input: event.input,
            wanted: self.filter.wants_device(event.device, input),
            pairer: Pairer::default(),
            counts: EventCounts::default(),
            in_flight: Level::new(),
            dispatched: Level::new(),
            chunk: Chunk { device: self.lanes.len(), ..Chunk::default() },
            first: None,
            last: 0,
        });
        self.lanes.len() - 1
    }

    fn remap(&mut self, event: &Event) {
        let cpu = usize::from(event.cpu);
        if self.remaps.len() <= cpu {
            self.remaps.resize(cpu + 1, Remap::default());
        }
        let earlier = self.remaps[cpu];
        // A partition's remap follows the one that led to the partition: the first tells the source.
        let chained = earlier.device == event.arg_device
            && earlier.bytes == event.bytes
            && earlier.sector == event.arg_sector;
        let source =
            if chained && event.target_device == event.device { earlier.source } else { event.arg_device };
        self.remaps[cpu] = Remap { device: event.device, sector: event.sector, bytes: event.bytes, source };
    }

    /// Where a queued bio came from: the remap just before it on its CPU, if it fits.
    #[inline]
    fn source_of(&mut self, event: &Event) -> DeviceId {
        let Some(remap) = self.remaps.get_mut(usize::from(event.cpu)) else {
            return DeviceId(0);
        };
        if remap.device == event.device && remap.sector == event.sector && remap.bytes == event.bytes {
            return std::mem::take(remap).source;
        }
        DeviceId(0)
    }

    /// The index of a process's name, and whether the filter wants it.
    #[inline]
    fn process(&mut self, pid: u32) -> (u32, bool) {
        if self.last_pid.0 == pid {
            return (self.last_pid.1, self.last_pid.2);
        }
        let (index, wanted) = match self.by_pid.get(&pid) {
            Some(&known) => known,
            None => self.resolve(pid),
        };
        self.last_pid = (pid, index, wanted);
        (index, wanted)
    }

    fn resolve(&mut self, pid: u32) -> (u32, bool) {
        let name = self.processes.name(pid).unwrap_or(UNKNOWN);
        let wanted = self.filter.wants_process(pid, name);
        let index = match self.name_index.get(name) {
            Some(&index) => index,
            None if self.names.len() < MAX_NAMES => {
                self.names.push(name.to_owned());
                let index = (self.names.len() - 1) as u32;
                self.name_index.insert(name.to_owned(), index);
                index
            }
            None => 0,
        };
        if self.by_pid.len() < 1 << 20 {
            self.by_pid.insert(pid, (index, wanted));
        }
        (index, wanted)
    }

    /// Ends the trace: the last chunks are handed on.
    pub fn finish(&mut self, hand_on: &mut dyn FnMut(Chunk)) {
        for at in 0..self.lanes.len() {
            self.lanes[at].pairer.finish(&mut self.done);
            self.take_done(at);
            let last = self.last_time;
            let lane = &mut self.lanes[at];
            lane.in_flight.advance(last);
            lane.dispatched.advance(last);
            if !lane.chunk.is_empty() {
                hand_on(lane.renew_chunk());
            }
        }
    }

    /// What was counted for each wanted device: its index in chunks, and its flow.
    pub fn flows(&self) -> Vec<(usize, DeviceFlow)> {
        let name = |lane: &Lane| self.inputs.get(usize::from(lane.input)).filter(|n| !n.is_empty()).cloned();
        let flow = |lane: &Lane| DeviceFlow {
            device: lane.device.to_string(),
            name: name(lane),
            first_ns: lane.first.unwrap_or(0),
            last_ns: lane.last,
            events: lane.counts.clone(),
            in_flight: lane.in_flight.summary(),
            dispatched: lane.dispatched.summary(),
            unmatched_completions: lane.pairer.unmatched_completions,
            given_up: lane.pairer.given_up,
        };
        let wanted = self.lanes.iter().enumerate().filter(|(_, l)| l.wanted && l.first.is_some());
        wanted.map(|(at, lane)| (at, flow(lane))).collect()
    }

    /// The name of a process by its index.
    pub fn process_name(&self, index: u32) -> String {
        self.names.get(index as usize).cloned().unwrap_or_else(|| UNKNOWN.into())
    }

    /// blkparse's counts of what the filter's devices and times let pass.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Events read, and those of devices beyond the limit.
    pub fn totals(&self) -> (u64, u64) {
        (self.total, self.beyond_devices)
    }
}

impl Lane {
    #[inline]
    fn count(&mut self, event: &Event) {
        self.first.get_or_insert(event.time);
        self.last = self.last.max(event.time);
        self.counts.add(event.action);
    }

    fn renew_chunk(&mut self) -> Chunk {
        let next = Chunk {
            device: self.chunk.device,
            queued: Vec::with_capacity(Chunk::ROWS),
            ended: Vec::with_capacity(Chunk::ROWS),
        };
        std::mem::replace(&mut self.chunk, next)
    }
}
