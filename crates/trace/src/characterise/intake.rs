//! From events to chunks: counts, pairs and filters events, and sorts them by device.

use super::chunk::{Chunk, MANY_DEVICES, QueuedIo};
use super::depth::QueueDepth;
use super::dispatches::DispatchOrder;
use super::observed::ObservedTime;
use super::profile::{DeviceBegin, DeviceFlow, EventCounts};
use super::remaps::Remaps;
use super::users::UserDepths;
use crate::blkparse::summary::DeviceSummary;
use crate::event::{Action, DeviceId, Event, EventBatch, Op, Rwbs, StartAction};
use crate::filter::Filter;
use crate::io::{COMMITS, Io, NEVER, UserKey, background};
use crate::pair::{BioOrigin, Pairer};
use crate::process::ProcessTable;
use crate::source::TraceInfo;
use blklab_stats::{Hashing, LogLinear, hash64};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

pub mod merging;

const MAX_DEVICES: usize = 1024; // The largest number of devices; events of further ones are only counted
const MAX_NAMES: usize = 1 << 16; // The largest number of process names; further ones share index 0
const SHOWN_NAMES: usize = 64; // The largest number of process names that a profile lists
const UNKNOWN: &str = "(unknown)"; // The name of unnamed processes
const MOST_LATE: usize = 1 << 16; // I/Os of a device that wait to be queued in order of time
const FEWEST: u64 = 100; // Complete bios from which on their times say what is usual
const RENEWED: u64 = 256; // Complete bios after which this is computed again
const SORTED: usize = 1 << 16; // Events that are sorted at a time: 4 MiB
const RECENT: usize = 4096; // Processes whose names are cached

/// The state of a device while events are read.
#[derive(Default, Serialize, Deserialize)]
struct DeviceState {
    device: DeviceId,
    input: u16,
    wanted: bool,
    start: Option<StartAction>, // With which events its I/Os begin; `None` until enough events are in `held`
    #[serde(skip)]
    held: Vec<Event>,
    pairer: Pairer,
    summary: DeviceSummary,
    in_flight: QueueDepth,
    dispatched: QueueDepth,
    observed: ObservedTime,
    background: [u32; 2], // Bios of each kind of background I/O in flight
    #[serde(skip)]
    users: UserDepths, // The other bios in flight, by user
    #[serde(skip)]
    latest_sync: u32, // Index of the name of the process that queued the latest synchronous write
    begins: BTreeMap<(u32, u32), Option<u64>>, // By the two devices of remaps: where the upper one begins on the lower one
    dispatches: DispatchOrder,
    took: LogLinear<3>, // Q2C, in ns
    completed: u64,
    chunk: Chunk,
    #[serde(skip)]
    late: Vec<QueuedIo>, // I/Os that are wanted for their latency, until they are queued in order of time
}

/// What is known of a process.
#[derive(Clone, Copy)]
struct KnownProcess {
    index: u32,    // Of its name
    wanted: bool,  // Whether the filter wants it
    resyncs: bool, // Whether it is md's resync
    thread: KernelThread,
}

/// Threads of the kernel that can commit for a program.
#[derive(Clone, Copy, PartialEq)]
enum KernelThread {
    None,
    Journal, // Of ext4: all its I/O is commits
    Worker,  // Can flush for a filesystem or for md
}

/// The first stage of characterisation.
#[derive(Default, Serialize, Deserialize)]
#[serde(try_from = "merging::StoredIntake")]
pub struct Intake {
    pub filter: Filter, // The filter
    #[serde(skip)]
    unfiltered: bool, // Whether the filter lets everything pass
    #[serde(skip)]
    deferred: bool, // Whether only completed I/Os show if the filter wants them
    pub info: TraceInfo, // The trace's inputs and the devices named so far; when a trace ends, all of it
    #[serde(skip)]
    host: String, // Where the devices are; empty if there is only one host
    states: Vec<DeviceState>,
    #[serde(skip)]
    index_by_device: HashMap<DeviceId, usize, Hashing>,
    #[serde(skip)]
    last_index: usize,
    #[serde(skip)]
    remaps: Remaps,
    #[serde(skip)]
    processes: ProcessTable,
    names: Vec<String>,
    #[serde(skip)]
    name_index: HashMap<String, u32>,
    #[serde(skip)]
    recent: HashMap<u32, KnownProcess, Hashing>, // What `look_up_process` has returned for recent processes
    /// Whether the input is one merged stream: then each device has its own summary, and sequence numbers can have
    /// gaps.
    #[serde(skip)]
    merged: bool,
    total: u64,
    beyond_devices: u64,
    first_time: Option<u64>,
    last_time: u64,
}

impl Intake {
    /// An intake for a trace of a host.
    pub fn new(filter: Filter, host: &str) -> Intake {
        Intake {
            merged: true,
            unfiltered: filter.is_open(),
            deferred: filter.min_latency_ns.is_some(),
            filter,
            host: host.to_owned(),
            names: vec![UNKNOWN.into()],
            name_index: HashMap::from([(UNKNOWN.into(), 0)]),
            ..Intake::default()
        }
    }

    /// Adds a batch. Full chunks are given to `send_chunk`.
    pub fn add_batch(&mut self, batch: &EventBatch, info: &TraceInfo, send_chunk: &mut dyn FnMut(Chunk)) {
        if self.total == 0 {
            self.merged = info.inputs.iter().all(|input| input.name.is_empty());
            self.info = info.clone();
        }
        let known = self.info.device_names.len();
        self.info.device_names.extend_from_slice(&info.device_names[known..]);
        let mut from = 0;
        for name in &batch.names {
            let before = name.before.min(batch.events.len());
            self.add_events(&batch.events[from..before.max(from)], send_chunk);
            from = before.max(from);
            self.processes.learn(name.pid, &name.name);
            self.recent.remove(&name.pid);
        }
        self.add_events(&batch.events[from..], send_chunk);
    }

    fn add_events(&mut self, events: &[Event], send_chunk: &mut dyn FnMut(Chunk)) {
        self.total += events.len() as u64;
        self.first_time = self.first_time.or(events.first().map(|event| event.time));
        self.last_time = events.iter().fold(self.last_time, |last, event| last.max(event.time));
        let sorted = if self.states.len() >= MANY_DEVICES { self.sorted(events) } else { None };
        let mut remaining = sorted.as_deref().unwrap_or(events);
        while let Some(first) = remaining.first() {
            let same = |e: &&Event| e.device == first.device && e.input == first.input;
            let (run, behind) = remaining.split_at(remaining.iter().take_while(same).count());
            remaining = behind;
            let Some(at) = self.state_index(first) else {
                self.beyond_devices += run.len() as u64;
                continue;
            };
            // Short parts, so that a chunk exceeds its size only slightly.
            for part in run.chunks(Chunk::ROWS / 4) {
                self.add_device_events(at, part);
                if self.states[at].chunk.is_full() {
                    send_chunk(self.states[at].renew_chunk());
                }
            }
        }
    }

    /// The number of events that a batch needs: of many devices, the more there are, the longer a device's state stays in
    /// the processor's cache.
    pub fn wanted_events(&self) -> usize {
        if self.states.len() >= MANY_DEVICES { SORTED } else { 1 }
    }

    /// The events in the order of their devices; `None` if the order of different devices' events matters: there are
    /// remaps, new devices or new processes among them.
    fn sorted(&self, events: &[Event]) -> Option<Vec<Event>> {
        let mut next = vec![0; self.states.len() + 1];
        for event in events {
            let has_process = matches!(event.action, Action::QUEUE | Action::DISPATCH);
            if event.action == Action::REMAP || (has_process && !self.recent.contains_key(&event.pid)) {
                return None;
            }
            next[self.index_by_device.get(&event.device)? + 1] += 1;
        }
        (1..next.len()).for_each(|at| next[at] += next[at - 1]);
        let mut sorted = vec![Event::default(); events.len()];
        for event in events {
            let place = &mut next[self.index_by_device[&event.device]];
            sorted[*place] = *event;
            *place += 1;
        }
        Some(sorted)
    }

    fn add_device_events(&mut self, at: usize, events: &[Event]) {
        if self.states[at].start.is_some() {
            return self.count_events(at, events);
        }
        self.states[at].held.extend_from_slice(events);
        self.decide_start(at, false);
    }

    /// Counts the held events of a device as soon as they show with which events its I/Os begin.
    fn decide_start(&mut self, at: usize, ended: bool) {
        let state = &mut self.states[at];
        let Some(start) = StartAction::of(&state.held, ended) else { return };
        state.start = Some(start);
        state.chunk.start = start;
        let held = std::mem::take(&mut state.held);
        self.count_events(at, &held);
    }

    fn count_events(&mut self, at: usize, events: &[Event]) {
        let (unfiltered, merged) = (self.unfiltered, self.merged);
        let state = &mut self.states[at];
        if state.wanted {
            for event in events.iter().filter(|e| unfiltered || self.filter.wants_time(e.time)) {
                state.summary.add(event, merged);
            }
        }
        for event in events {
            let state = &mut self.states[at];
            match event.action {
                Action::QUEUE if state.chunk.start == StartAction::D => {}
                Action::QUEUE => self.add_queued(at, event),
                Action::REMAP => {
                    self.states[at].add_remap(event);
                    self.remaps.remap(event);
                }
                Action::COMPLETE if state.chunk.start == StartAction::C => self.add_completed(at, event),
                Action::DISPATCH | Action::REQUEUE | Action::COMPLETE => self.add_request(at, event),
                _ => {
                    state.pairer.add_event(event, BioOrigin::default(), &mut state.chunk.ended);
                }
            }
        }
    }

    fn add_request(&mut self, at: usize, event: &Event) {
        let state = &self.states[at];
        let begins = event.action == Action::DISPATCH && state.chunk.start == StartAction::D;
        if begins && !event.rwbs.has(Rwbs::PASSTHROUGH) && !state.pairer.has_same_range(event) {
            self.add_queued(at, &Event { action: Action::QUEUE, ..*event });
        }
        let is_new = self.pair(at, event, BioOrigin::default());
        // The process of a request is not known here; no depth is better than a wrong one.
        if self.unfiltered || (self.filter.processes.is_empty() && self.filter.wants_request(event)) {
            self.states[at].count_dispatched(event, is_new);
        }
    }

    /// Counts an I/O of which only the completion was recorded; the process that was running then is not its own.
    fn add_completed(&mut self, at: usize, event: &Event) {
        // The second completion of a flush or FUA write ends nothing.
        if event.bytes == 0 && event.op() != Op::Flush {
            return;
        }
        let known = self.filter.processes.is_empty() && !self.deferred;
        let wanted = self.unfiltered || (known && self.wants(event));
        if wanted && self.states[at].wanted {
            self.states[at].chunk.queued.push(queued_io(event, DeviceId::default(), 0));
        }
    }

    fn add_queued(&mut self, at: usize, event: &Event) {
        let source = self.remaps.source_of(event);
        let KnownProcess { index: process, wanted, resyncs, thread } = self.look_up_process(event.pid);
        if !self.unfiltered && wanted && self.filter.wants_request(event) {
            let state = &mut self.states[at];
            state.in_flight.set(event.time, state.in_flight.now + 1);
        }
        let user = UserKey { pid: event.pid, process, source };
        let origin = self.states[at].origin(event, user, resyncs, thread);
        self.pair(at, event, origin);
        if !self.deferred && (self.unfiltered || (wanted && self.states[at].wanted && self.wants(event))) {
            self.states[at].chunk.queued.push(queued_io(event, source, process));
        }
    }

    fn wants(&self, event: &Event) -> bool {
        self.filter.wants_time(event.time) && self.filter.wants_request(event)
    }

    /// Gives the event to the device's pairer, which adds the I/Os that it ends to the chunk. Returns whether the event
    /// dispatched a request that was not with the driver before.
    fn pair(&mut self, at: usize, event: &Event, origin: BioOrigin) -> bool {
        let state = &mut self.states[at];
        let ended = state.chunk.ended.len();
        let before = state.pairer.in_flight();
        let is_new = state.pairer.add_event(event, origin, &mut state.chunk.ended);
        if event.action == Action::QUEUE
            && let Some(kind) = background(event.rwbs, event.bytes, origin.resyncs)
        {
            state.background[kind] += 1;
        }
        for io in state.chunk.ended[ended..].iter().filter(|io| io.t_queue != NEVER) {
            match io.background() {
                Some(kind) => state.background[kind] = state.background[kind].saturating_sub(1),
                None => state.users.end(io.user(), io.commits),
            }
            if let Some(took) = Io::between(io.t_queue, io.t_complete) {
                state.took.record(took);
                state.completed += 1;
                if state.completed.is_multiple_of(RENEWED) {
                    state.pairer.stale_after = state.stale_after();
                }
            } else if self.unfiltered {
                state.in_flight.forget(io.t_queue, event.time);
            }
        }
        let after = state.pairer.in_flight();
        if self.unfiltered && before != after {
            state.in_flight.set(event.time, after as u64);
        }
        if !self.unfiltered && state.chunk.ended.len() > ended {
            self.count_ended(at, ended, event.time);
            self.keep_wanted(at, ended);
        }
        is_new
    }

    /// Reduces the depth by the wanted I/Os that ended, from the chunk's `first` on.
    fn count_ended(&mut self, at: usize, first: usize, time: u64) {
        for index in first..self.states[at].chunk.ended.len() {
            let io = self.states[at].chunk.ended[index];
            if io.t_queue != NEVER
                && self.filter.wants_op(io.op())
                && self.filter.wants_range(io.sector, io.bytes)
                && self.look_up_process(io.pid).wanted
            {
                let state = &mut self.states[at];
                state.in_flight.set(time, state.in_flight.now.saturating_sub(1));
            }
        }
    }

    /// Removes ended I/Os that the filter does not want from a chunk, from `first` on.
    fn keep_wanted(&mut self, at: usize, first: usize) {
        let mut ended = std::mem::take(&mut self.states[at].chunk.ended);
        let mut kept = first;
        for index in first..ended.len() {
            let io = ended[index];
            if self.states[at].wanted && self.filter.wants_io(&io) && self.look_up_process(io.pid).wanted {
                ended[kept] = io;
                kept += 1;
                if self.deferred && io.t_queue != NEVER {
                    self.states[at].late.push(QueuedIo::of(&io));
                }
            }
        }
        ended.truncate(kept);
        self.states[at].chunk.ended = ended;
        if self.states[at].late.len() >= MOST_LATE {
            self.states[at].queue_late(MOST_LATE / 2);
        }
    }

    fn state_index(&mut self, event: &Event) -> Option<usize> {
        if let Some(state) = self.states.get(self.last_index)
            && state.device == event.device
        {
            return Some(self.last_index);
        }
        let at = match self.index_by_device.get(&event.device) {
            Some(&at) => at,
            None if self.has_room_for(event) => self.add_state(event),
            None => return None,
        };
        self.last_index = at;
        Some(at)
    }

    /// Devices that the user named are always accepted.
    fn has_room_for(&self, event: &Event) -> bool {
        let requested = !self.filter.devices.is_empty() && self.wants_device(event);
        self.states.len() < if requested { 2 * MAX_DEVICES } else { MAX_DEVICES }
    }

    fn wants_device(&self, event: &Event) -> bool {
        self.filter.wants_device(event.device, event.input, &self.info)
    }

    /// The number of a device's first block among those of all hosts' devices. They overlap only by an unlikely chance.
    fn first_block(&self, event: &Event) -> u64 {
        if self.host.is_empty() {
            return 0;
        }
        let name = self.info.device_name(event.device, event.input);
        let name = if name.is_empty() { event.device.to_string() } else { name.to_owned() };
        let place = [self.host.as_str(), "\0", &name].concat();
        let hash = place.bytes().fold(0, |hash, byte| hash64(hash ^ u64::from(byte)));
        // A quarter of the numbers at most, so that the last block of a disk cannot overflow. A multiple of 64, because
        // `Hotness` counts a large I/O by aligned ranges of 64 blocks.
        hash >> 2 & !63
    }

    fn add_state(&mut self, event: &Event) -> usize {
        let wanted = self.wants_device(event);
        self.index_by_device.insert(event.device, self.states.len());
        self.states.push(DeviceState {
            device: event.device,
            input: event.input,
            wanted,
            in_flight: QueueDepth::new(&self.filter, self.states.len()),
            dispatched: QueueDepth::new(&self.filter, self.states.len()),
            chunk: Chunk::new(self.states.len(), self.first_block(event)),
            ..DeviceState::default()
        });
        self.states.len() - 1
    }

    fn look_up_process(&mut self, pid: u32) -> KnownProcess {
        if let Some(&known) = self.recent.get(&pid) {
            return known;
        }
        let name = self.processes.name(pid).unwrap_or(UNKNOWN);
        let wanted = self.filter.wants_process(pid, name);
        let resyncs = name.starts_with("md") && name.ends_with("_resync");
        let thread = match name {
            name if name.starts_with("jbd2/") => KernelThread::Journal,
            name if name.starts_with("kworker/") => KernelThread::Worker,
            _ => KernelThread::None,
        };
        let index = index_of(name, &mut self.names, &mut self.name_index);
        let process = KnownProcess { index, wanted, resyncs, thread };
        if self.recent.len() >= RECENT {
            self.recent.clear();
        }
        self.recent.insert(pid, process);
        process
    }

    /// Sends all chunks, full or not.
    fn send_rest(&mut self, send_chunk: &mut dyn FnMut(Chunk)) {
        for state in self.states.iter_mut().filter(|state| !state.chunk.is_empty()) {
            send_chunk(state.renew_chunk());
        }
    }

    /// Ends the trace: sends the last chunks, and keeps only what its statistics need.
    pub fn end(&mut self, info: TraceInfo, send_chunk: &mut dyn FnMut(Chunk)) {
        self.send_rest(send_chunk); // Rows that come late are behind all others
        for at in 0..self.states.len() {
            if self.states[at].start.is_none() {
                self.decide_start(at, true);
            }
            let state = &mut self.states[at];
            let ended = state.chunk.ended.len();
            state.pairer.finish(&mut state.chunk.ended);
            if !self.unfiltered {
                self.keep_wanted(at, ended);
            }
            let state = &mut self.states[at];
            state.queue_late(MOST_LATE);
            state.in_flight.end(self.last_time);
            let limit = state.stale_after().filter(|_| self.unfiltered).unwrap_or(u64::MAX);
            for io in state.chunk.ended[ended.min(state.chunk.ended.len())..].iter().filter(|io| io.t_queue != NEVER) {
                if self.last_time.saturating_sub(io.t_queue) > limit {
                    state.in_flight.forget(io.t_queue, self.last_time);
                }
            }
            if state.summary.events > 0 {
                let (first_ns, last_ns) = (state.summary.first_ns, state.summary.last_ns);
                state.observed = ObservedTime::new(info.start_unix_ns, first_ns, last_ns);
            }
            state.dispatched.end(self.last_time);
        }
        self.send_rest(send_chunk);
        self.info = info;
        self.processes = ProcessTable::default();
        self.remaps = Remaps::default();
    }

    /// The counts of each wanted device: its index in chunks, and its flow.
    pub fn flows(&self) -> Vec<(usize, DeviceFlow)> {
        let flow = |state: &DeviceState| DeviceFlow {
            device: state.device.to_string(),
            name: self.name(state),
            first_ns: state.summary.first_ns,
            last_ns: state.summary.last_ns,
            observed_ns: state.observed.length_ns(),
            events: EventCounts(state.summary.by_action()),
            start: state.chunk.start,
            in_flight: state.in_flight.summary(if self.unfiltered { state.pairer.unmatched_completions } else { 0 }),
            lost: state.in_flight.lost,
            depth_over_time: state.in_flight.over_time(),
            dispatched: state.dispatched.summary(0),
            dispatches: state.dispatches.counts,
            unmatched_completions: state.pairer.unmatched_completions,
            given_up: state.pairer.given_up,
            begins: state.begins.iter().filter_map(DeviceBegin::of).collect(),
        };
        let wanted = self.states.iter().enumerate().filter(|(_, l)| l.wanted && l.summary.events > 0);
        wanted.map(|(at, state)| (at, flow(state))).collect()
    }

    fn input_name(&self, input: u16) -> Option<&String> {
        self.info.inputs.get(usize::from(input)).map(|input| &input.name)
    }

    /// The trace's own name of a device, otherwise that of its input; `None` if it has neither.
    fn name(&self, state: &DeviceState) -> Option<String> {
        let own = self.info.device_names.iter().find(|(number, _)| *number == state.device.0).map(|(_, name)| name);
        own.or(self.input_name(state.input)).filter(|name| !name.is_empty()).cloned()
    }

    /// The name of a process by its index.
    pub fn process_name(&self, index: u32) -> String {
        self.names.get(index as usize).cloned().unwrap_or_else(|| UNKNOWN.into())
    }

    /// The first names of processes, whether the filter wants them or not.
    pub fn process_names(&self) -> Vec<String> {
        self.names.iter().skip(1).take(SHOWN_NAMES).cloned().collect()
    }

    /// blkparse's summary of the events that the filter's devices and times let pass: by input, or by device if the
    /// inputs have no names.
    pub fn summary(&self) -> Vec<DeviceSummary> {
        let named = |state: &DeviceState| match self.input_name(state.input) {
            Some(name) if !self.merged => name.clone(),
            _ => state.device.to_string(),
        };
        let mut all: Vec<DeviceSummary> = Vec::new();
        for state in self.states.iter().filter(|state| state.summary.events > 0) {
            let name = named(state);
            match all.iter_mut().find(|summary| summary.name == name) {
                Some(summary) => summary.absorb(&state.summary),
                None => {
                    let mut summary = state.summary.clone();
                    summary.name = name;
                    all.push(summary);
                }
            }
        }
        let place = |summary: &DeviceSummary| self.info.inputs.iter().position(|input| input.name == summary.name);
        all.sort_by_key(place);
        all
    }

    /// Times of the first and the last event.
    pub fn span(&self) -> (u64, u64) {
        (self.first_time.unwrap_or(0), self.last_time)
    }

    /// Names of all named devices, by number.
    pub fn device_names(&self) -> BTreeMap<String, String> {
        let named = self.states.iter().filter_map(|state| Some((state.device.to_string(), self.name(state)?)));
        named.collect()
    }

    /// Events read, and those of devices beyond the limit.
    pub fn totals(&self) -> (u64, u64) {
        (self.total, self.beyond_devices)
    }
}

/// The index of a name among the names, to which it is added if there is room.
fn index_of(name: &str, names: &mut Vec<String>, indexes: &mut HashMap<String, u32>) -> u32 {
    if let Some(&index) = indexes.get(name) {
        return index;
    }
    if names.len() >= MAX_NAMES {
        return 0;
    }
    let index = names.len() as u32;
    names.push(name.to_owned());
    indexes.insert(name.to_owned(), index);
    index
}

fn queued_io(event: &Event, source: DeviceId, process: u32) -> QueuedIo {
    let Event { time, sector, bytes, rwbs, cpu, .. } = *event;
    QueuedIo { time, sector, bytes, process, source, rwbs, cpu }
}

const MOST_REMAPS: usize = 64; // Pairs of devices whose offset is followed

impl DeviceState {
    /// Counts a bio that is queued, and returns what its Q does not contain.
    fn origin(&mut self, event: &Event, user: UserKey, resyncs: bool, thread: KernelThread) -> BioOrigin {
        let flushes = event.rwbs.has(Rwbs::FLUSH.with(Rwbs::FUA));
        let commits = flushes || thread == KernelThread::Journal;
        let mut caller = user.process;
        if thread == KernelThread::None {
            if flushes || (event.rwbs.has(Rwbs::SYNC) && event.op() == Op::Write) {
                self.latest_sync = user.process;
            }
        } else if flushes && self.latest_sync > 0 {
            caller = self.latest_sync;
        }
        let [writeback, resync] = self.background;
        let mut origin =
            BioOrigin { source: user.source, process: user.process, resyncs, commits, caller, ..BioOrigin::default() };
        origin.behind = [writeback, resync, 0];
        if background(event.rwbs, event.bytes, resyncs).is_none() {
            (origin.behind[COMMITS], origin.rival) = self.users.queue(user, commits);
        }
        origin
    }

    /// Follows where a device begins on the one below it.
    fn add_remap(&mut self, event: &Event) {
        let lower = if event.target_device == DeviceId::default() { event.device } else { event.target_device };
        let begin = event.sector.checked_sub(event.arg_sector);
        let key = (event.arg_device.0, lower.0);
        if self.begins.len() < MOST_REMAPS || self.begins.contains_key(&key) {
            let known = self.begins.entry(key).or_insert(begin);
            *known = known.filter(|known| Some(*known) == begin);
        }
    }

    /// The time in flight after which a bio has probably lost its end: four times the 99th percentile of Q2C, so that
    /// hardly any bio is taken for lost that waits in a long queue. `None` before enough are complete.
    fn stale_after(&self) -> Option<u64> {
        let p99 = self.took.quantile(0.99).filter(|_| self.completed >= FEWEST);
        p99.map(|p99| p99.saturating_mul(4))
    }

    /// Queues the `most` earliest I/Os whose latency decided whether they are wanted.
    fn queue_late(&mut self, most: usize) {
        self.late.sort_by_key(|row| row.time);
        self.chunk.queued.extend(self.late.drain(..most.min(self.late.len())));
    }

    /// Counts a request in the driver. A recording without R shows a requeued request as dispatched twice.
    fn count_dispatched(&mut self, event: &Event, is_new: bool) {
        let now = self.dispatched.now;
        // Requests dispatched before the trace began complete without having been counted.
        let after = match event.action {
            Action::DISPATCH if is_new => {
                self.dispatches.add(event);
                now + 1
            }
            Action::DISPATCH => now,
            _ => now.saturating_sub(1),
        };
        if after != now {
            self.dispatched.set(event.time, after);
        }
    }

    fn renew_chunk(&mut self) -> Chunk {
        let next = Chunk { start: self.chunk.start, ..Chunk::new(self.chunk.device, self.chunk.first_block) };
        std::mem::replace(&mut self.chunk, next)
    }
}
