//! From events to chunks: counts, pairs, filters, and sorts what is left by device.

use super::chunk::{Chunk, Queued};
use super::depth::Depth;
use super::profile::{DeviceFlow, EventCounts};
use super::remaps::Remaps;
use crate::blkparse::summary::DeviceSummary;
use crate::event::{Action, DeviceId, Event, EventBatch};
use crate::filter::Filter;
use crate::io::NEVER;
use crate::pair::{Origin, Pairer};
use crate::process::ProcessTable;
use crate::source::TraceInfo;
use std::collections::{BTreeMap, HashMap};

/// Devices told apart; events of further ones are counted and left out.
const MAX_DEVICES: usize = 1024;
/// Process names told apart; the rest share the last index.
const MAX_NAMES: usize = 1 << 16;
/// Shown for processes without a name.
const UNKNOWN: &str = "(unknown)";

/// Processes remembered without looking their names up.
const RECENT: usize = 256;

#[derive(Clone, Copy, Default)]
struct KnownProcess {
    known: bool,
    pid: u32,
    index: u32,
    wanted: bool,
}

/// What is kept of a device while events come in.
struct Lane {
    device: DeviceId,
    input: u16,
    wanted: bool,
    pairer: Pairer,
    summary: DeviceSummary,
    in_flight: Depth,
    dispatched: Depth,
    chunk: Chunk,
}

/// The first stage of characterisation.
pub struct Intake {
    filter: Filter,
    /// The filter lets everything pass.
    open: bool,
    inputs: Vec<String>,
    lanes: Vec<Lane>,
    lane_of: HashMap<DeviceId, usize>,
    last_lane: usize,
    remaps: Remaps,
    processes: ProcessTable,
    names: Vec<String>,
    name_index: HashMap<String, u32>,
    /// Processes met of late, by the low bits of their pid.
    recent: Vec<KnownProcess>,
    /// One merged stream: each device is summed up by itself, and sequence numbers may have gaps.
    merged: bool,
    total: u64,
    beyond_devices: u64,
    first_time: Option<u64>,
    last_time: u64,
}

impl Intake {
    /// For a trace whose source tells `info` before its first event.
    pub fn new(filter: Filter, info: &TraceInfo) -> Intake {
        let inputs: Vec<String> = info.inputs.iter().map(|i| i.name.clone()).collect();
        Intake {
            merged: inputs.iter().all(String::is_empty),
            open: filter.is_open(),
            filter,
            inputs,
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            last_lane: 0,
            remaps: Remaps::default(),
            processes: ProcessTable::default(),
            names: vec![UNKNOWN.into()],
            name_index: HashMap::from([(UNKNOWN.into(), 0)]),
            recent: vec![KnownProcess::default(); RECENT],
            total: 0,
            beyond_devices: 0,
            first_time: None,
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
            self.recent[name.pid as usize % RECENT].known = false;
        }
        self.events(&batch.events[from..], hand_on);
    }

    fn events(&mut self, events: &[Event], hand_on: &mut dyn FnMut(Chunk)) {
        self.total += events.len() as u64;
        self.first_time = self.first_time.or(events.first().map(|event| event.time));
        self.last_time = events.iter().fold(self.last_time, |last, event| last.max(event.time));
        let mut rest = events;
        while let Some(first) = rest.first() {
            let same = |e: &&Event| e.device == first.device && e.input == first.input;
            let (run, behind) = rest.split_at(rest.iter().take_while(same).count());
            rest = behind;
            let Some(at) = self.lane(first) else {
                self.beyond_devices += run.len() as u64;
                continue;
            };
            // Short enough that a chunk cannot outgrow its size by much.
            for part in run.chunks(Chunk::ROWS / 4) {
                self.run(at, part);
                if self.lanes[at].chunk.is_full() {
                    hand_on(self.lanes[at].renew_chunk());
                }
            }
        }
    }

    /// Events of one device.
    fn run(&mut self, at: usize, events: &[Event]) {
        let (open, merged) = (self.open, self.merged);
        let lane = &mut self.lanes[at];
        if lane.wanted {
            for event in events.iter().filter(|e| open || self.filter.wants_time(e.time)) {
                lane.summary.add(event, merged);
            }
        }
        for event in events {
            let lane = &mut self.lanes[at];
            match event.action {
                Action::QUEUE => self.queue(at, event),
                Action::REMAP => self.remaps.remap(event),
                Action::DISPATCH | Action::REQUEUE | Action::COMPLETE => {
                    // Whose process asked for a request is not known here: then no depth is better than a wrong one.
                    if open || (self.filter.processes.is_empty() && self.filter.wants_op(event.op())) {
                        lane.dispatch(event);
                    }
                    self.pair(at, event, Origin::default());
                }
                _ => lane.pairer.event(event, Origin::default(), &mut lane.chunk.ended),
            }
        }
    }

    #[inline]
    fn queue(&mut self, at: usize, event: &Event) {
        let source = self.remaps.source_of(event);
        let (process, wanted) = self.process(event.pid);
        if !self.open && wanted && self.filter.wants_op(event.op()) {
            let lane = &mut self.lanes[at];
            lane.in_flight.set(event.time, lane.in_flight.now() + 1);
        }
        self.pair(at, event, Origin { source, process });
        if self.open || (wanted && self.lanes[at].wanted && self.wants(event)) {
            self.lanes[at].chunk.queued.push(Queued {
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

    fn wants(&self, event: &Event) -> bool {
        self.filter.wants_time(event.time) && self.filter.wants_op(event.op())
    }

    /// Gives the event to the device's pairer, which puts the I/Os that it ended into the chunk.
    #[inline]
    fn pair(&mut self, at: usize, event: &Event, origin: Origin) {
        let lane = &mut self.lanes[at];
        let ended = lane.chunk.ended.len();
        let before = lane.pairer.in_flight();
        lane.pairer.event(event, origin, &mut lane.chunk.ended);
        let after = lane.pairer.in_flight();
        if self.open && before != after {
            lane.in_flight.set(event.time, after as u64);
        }
        if !self.open && lane.chunk.ended.len() > ended {
            self.end_wanted(at, ended, event.time);
            self.keep_wanted(at, ended);
        }
    }

    /// Counts down the depth by the wanted I/Os among those that ended, from the chunk's `first` on.
    fn end_wanted(&mut self, at: usize, first: usize, time: u64) {
        for index in first..self.lanes[at].chunk.ended.len() {
            let io = self.lanes[at].chunk.ended[index];
            if io.t_queue != NEVER && self.filter.wants_op(io.op()) && self.process(io.pid).1 {
                let lane = &mut self.lanes[at];
                lane.in_flight.set(time, lane.in_flight.now().saturating_sub(1));
            }
        }
    }

    /// Takes out of a chunk, from its `first` ended I/O on, those that the filter does not want.
    fn keep_wanted(&mut self, at: usize, first: usize) {
        let mut ended = std::mem::take(&mut self.lanes[at].chunk.ended);
        let mut kept = first;
        for index in first..ended.len() {
            let io = ended[index];
            if self.lanes[at].wanted && self.filter.wants_io(&io) && self.process(io.pid).1 {
                ended[kept] = io;
                kept += 1;
            }
        }
        ended.truncate(kept);
        self.lanes[at].chunk.ended = ended;
    }

    fn lane(&mut self, event: &Event) -> Option<usize> {
        if let Some(lane) = self.lanes.get(self.last_lane)
            && lane.device == event.device
        {
            return Some(self.last_lane);
        }
        let at = match self.lane_of.get(&event.device) {
            Some(&at) => at,
            None if self.has_room_for(event) => self.add_lane(event),
            None => return None,
        };
        self.last_lane = at;
        Some(at)
    }

    /// Devices that the user asked for by name have room whatever else there is.
    fn has_room_for(&self, event: &Event) -> bool {
        let asked_for = !self.filter.devices.is_empty() && self.wants_device(event);
        self.lanes.len() < if asked_for { 2 * MAX_DEVICES } else { MAX_DEVICES }
    }

    fn wants_device(&self, event: &Event) -> bool {
        let input = self.inputs.get(usize::from(event.input)).map_or("", String::as_str);
        self.filter.wants_device(event.device, input)
    }

    fn add_lane(&mut self, event: &Event) -> usize {
        let wanted = self.wants_device(event);
        self.lane_of.insert(event.device, self.lanes.len());
        self.lanes.push(Lane {
            device: event.device,
            input: event.input,
            wanted,
            pairer: Pairer::default(),
            summary: DeviceSummary::default(),
            in_flight: Depth::new(&self.filter),
            dispatched: Depth::new(&self.filter),
            chunk: Chunk::new(self.lanes.len()),
        });
        self.lanes.len() - 1
    }

    /// The index of a process's name, and whether the filter wants it.
    #[inline]
    fn process(&mut self, pid: u32) -> (u32, bool) {
        let recent = &self.recent[pid as usize % RECENT];
        if recent.known && recent.pid == pid {
            return (recent.index, recent.wanted);
        }
        let (index, wanted) = self.resolve(pid);
        self.recent[pid as usize % RECENT] = KnownProcess { known: true, pid, index, wanted };
        (index, wanted)
    }

    #[cold]
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
        (index, wanted)
    }

    /// Ends the trace: the last chunks are handed on.
    pub fn finish(&mut self, hand_on: &mut dyn FnMut(Chunk)) {
        for at in 0..self.lanes.len() {
            let lane = &mut self.lanes[at];
            let ended = lane.chunk.ended.len();
            lane.pairer.finish(&mut lane.chunk.ended);
            if !self.open {
                self.keep_wanted(at, ended);
            }
            let lane = &mut self.lanes[at];
            if !lane.chunk.is_empty() {
                hand_on(lane.renew_chunk());
            }
        }
    }

    /// What was counted for each wanted device: its index in chunks, and its flow.
    pub fn flows(&self) -> Vec<(usize, DeviceFlow)> {
        let end = self.last_time;
        let flow = |lane: &Lane| DeviceFlow {
            device: lane.device.to_string(),
            name: self.name(lane),
            first_ns: lane.summary.first_ns,
            last_ns: lane.summary.last_ns,
            events: EventCounts(lane.summary.by_action()),
            in_flight: lane.in_flight.summary(end),
            dispatched: lane.dispatched.summary(end),
            unmatched_completions: lane.pairer.unmatched_completions,
            given_up: lane.pairer.given_up,
        };
        let wanted = self.lanes.iter().enumerate().filter(|(_, l)| l.wanted && l.summary.events > 0);
        wanted.map(|(at, lane)| (at, flow(lane))).collect()
    }

    /// The name of a device's input, if it has one.
    fn name(&self, lane: &Lane) -> Option<String> {
        self.inputs.get(usize::from(lane.input)).filter(|name| !name.is_empty()).cloned()
    }

    /// The name of a process by its index.
    pub fn process_name(&self, index: u32) -> String {
        self.names.get(index as usize).cloned().unwrap_or_else(|| UNKNOWN.into())
    }

    /// blkparse's summary of what the filter's devices and times let pass: by input, or by device where the
    /// inputs have no names.
    pub fn summary(&self) -> Vec<DeviceSummary> {
        let named = |lane: &Lane| match self.inputs.get(usize::from(lane.input)) {
            Some(name) if !self.merged => name.clone(),
            _ => lane.device.to_string(),
        };
        let mut all: Vec<DeviceSummary> = Vec::new();
        for lane in self.lanes.iter().filter(|lane| lane.summary.events > 0) {
            let name = named(lane);
            match all.iter_mut().find(|summary| summary.name == name) {
                Some(summary) => summary.absorb(&lane.summary),
                None => {
                    let mut summary = lane.summary.clone();
                    summary.name = name;
                    all.push(summary);
                }
            }
        }
        let place = |summary: &DeviceSummary| self.inputs.iter().position(|name| *name == summary.name);
        all.sort_by_key(place);
        all
    }

    /// Times of the first and the last event of all.
    pub fn span(&self) -> (u64, u64) {
        (self.first_time.unwrap_or(0), self.last_time)
    }

    /// Names of all devices that have one, by number.
    pub fn device_names(&self) -> BTreeMap<String, String> {
        let named = self.lanes.iter().filter_map(|lane| Some((lane.device.to_string(), self.name(lane)?)));
        named.collect()
    }

    /// Events read, and those of devices beyond the limit.
    pub fn totals(&self) -> (u64, u64) {
        (self.total, self.beyond_devices)
    }
}

impl Lane {
    /// Counts a request at the driver.
    #[inline]
    fn dispatch(&mut self, event: &Event) {
        let now = self.dispatched.now();
        // What was dispatched before the trace began completes without ever having been counted.
        let after = if event.action == Action::DISPATCH { now + 1 } else { now.saturating_sub(1) };
        if after != now {
            self.dispatched.set(event.time, after);
        }
    }

    fn renew_chunk(&mut self) -> Chunk {
        let next = Chunk::new(self.chunk.device);
        std::mem::replace(&mut self.chunk, next)
    }
}
