//! Traces that are tables of requests, one row each: sorts the rows, makes events of them.
//!
//! A row with a response time becomes a queueing (Q) and a completion (C), one without only a Q. Rows may be
//! out of order by up to [`WINDOW`] rows; what lies further back is counted and left where it is.

use super::known::{Devices, Processes};
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch, ProcessName, Rwbs};
use crate::source::{Input, Source, TraceInfo};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// How many rows a row may come late by.
pub const WINDOW: usize = 64 << 10;
/// Most requests in flight; the earliest completion beyond is let go before its time.
const MOST_IN_FLIGHT: usize = 256 << 10;
/// No response time recorded.
pub const NO_RESPONSE: u64 = u64::MAX;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it was issued, ns on the trace's own clock.
    pub time: u64,
    /// How long it took, ns, or [`NO_RESPONSE`].
    pub response: u64,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// On which device.
    pub device: DeviceId,
    /// By which process, 0 when not recorded.
    pub pid: u32,
    /// What it asked for.
    pub rwbs: Rwbs,
}

/// What reading adds besides rows.
#[derive(Default)]
pub struct Context {
    /// Devices known by name.
    pub devices: Devices,
    /// Processes named.
    pub processes: Processes,
    /// What is known of the trace.
    pub info: TraceInfo,
}

/// One file's rows, in file order.
pub trait Feed: Send {
    /// Appends rows until there are `limit`; fewer means that the file has ended.
    fn read(&mut self, rows: &mut Vec<Row>, limit: usize, context: &mut Context) -> Result<()>;

    /// Bytes consumed.
    fn bytes(&self) -> u64;
}

struct Lane<F> {
    feed: F,
    input: u16,
    /// Rows in order of time, which nothing later can precede.
    ready: Vec<Row>,
    next: usize,
    /// Rows among which later ones may still have to go.
    held: Vec<Row>,
    ended: bool,
    /// Time of the last row given.
    reached: u64,
}

impl<F: Feed> Lane<F> {
    fn time(&self) -> u64 {
        self.ready[self.next].time
    }

    /// Makes rows ready; false when there are no more.
    fn refill(&mut self, context: &mut Context) -> Result<bool> {
        let old = self.held.len();
        if !self.ended {
            let limit = 2 * WINDOW;
            let before = self.feed.bytes();
            self.feed.read(&mut self.held, limit, context)?;
            context.info.bytes_read += self.feed.bytes() - before;
            self.ended = self.held.len() < limit;
        }
        let new = &self.held[old..];
        let late = new.iter().filter(|r| r.time < self.reached).count();
        context.info.out_of_order += late as u64;
        if !self.held.is_sorted_by_key(|r| r.time) {
            self.held.sort_by_key(|r| r.time);
        }
        let count = if self.ended { self.held.len() } else { WINDOW };
        self.ready.clear();
        self.ready.extend(self.held.drain(..count));
        self.next = 0;
        if let Some(last) = self.ready.last() {
            self.reached = self.reached.max(last.time);
        }
        Ok(!self.ready.is_empty())
    }
}

/// A request that will complete.
struct InFlight {
    at: u64,
    order: u64,
    row: Row,
    input: u16,
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for InFlight {}

/// Files of rows as one source of events.
pub struct Table<F> {
    lanes: Vec<Lane<F>>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    context: Context,
    /// Time on the trace's clock of its first event.
    genesis: Option<u64>,
    /// What the trace's clock showed at the start of 1970, when it is a wall clock.
    epoch: Option<u64>,
    rows: u64,
    events: u64,
    let_go: u64,
    finished: bool,
}

/// A wall clock shows at least this: September 2001, in ns since 1970.
const PLAUSIBLE_UNIX: u64 = 1_000_000_000_000_000_000;

impl<F: Feed> Table<F> {
    /// A source over files that belong to one trace.
    pub fn new(info: TraceInfo, epoch: Option<u64>, files: Vec<(Input, F)>) -> Table<F> {
        let mut context = Context { info: TraceInfo { inputs: Vec::new(), ..info }, ..Context::default() };
        let mut lanes = Vec::new();
        for (input, feed) in files {
            context.info.inputs.push(input);
            lanes.push(Lane {
                feed,
                input: lanes.len().min(usize::from(u16::MAX)) as u16,
                ready: Vec::new(),
                next: 0,
                held: Vec::new(),
                ended: false,
                reached: 0,
            });
        }
        Table {
            lanes,
            in_flight: BinaryHeap::new(),
            context,
            genesis: None,
            epoch,
            rows: 0,
            events: 0,
            let_go: 0,
            finished: false,
        }
    }

    /// Fixes time zero.
    fn start(&mut self) -> Result<u64> {
        let mut filled = Vec::new();
        for mut lane in std::mem::take(&mut self.lanes) {
            if lane.refill(&mut self.context)? {
                filled.push(lane);
            }
        }
        self.lanes = filled;
        let genesis = self.lanes.iter().map(Lane::time).min().unwrap_or(0);
        self.genesis = Some(genesis);
        self.context.info.start_unix_ns =
            self.epoch.and_then(|epoch| genesis.checked_sub(epoch)).filter(|&unix| unix >= PLAUSIBLE_UNIX);
        Ok(genesis)
    }

    /// Gives rows of the lane that is first in time for as long as it is.
    fn advance(&mut self, genesis: u64, batch: &mut EventBatch, full: usize) -> Result<()> {
        let mut index = 0;
        let mut until = u64::MAX;
        for i in 1..self.lanes.len() {
            if self.lanes[i].time() < self.lanes[index].time() {
                until = self.lanes[index].time();
                index = i;
            } else {
                until = until.min(self.lanes[i].time());
            }
        }
        while batch.events.len() < full {
            let lane = &mut self.lanes[index];
            let row = lane.ready[lane.next];
            if row.time > until {
                break;
            }
            let input = lane.input;
            lane.next += 1;
            let exhausted = lane.next == lane.ready.len();
            self.complete(row.time, genesis, batch, usize::MAX);
            self.push(batch, genesis, row.time, &row, Action::QUEUE, input);
            if row.response != NO_RESPONSE {
                self.rows += 1;
                self.in_flight.push(Reverse(InFlight {
                    at: row.time.saturating_add(row.response),
                    order: self.rows,
                    row,
                    input,
                }));
                if self.in_flight.len() > MOST_IN_FLIGHT {
                    self.let_go += 1;
                    self.complete_one(genesis, batch);
                }
            }
            if exhausted {
                if !self.lanes[index].refill(&mut self.context)? {
                    self.lanes.remove(index);
                }
                break;
            }
        }
        Ok(())
    }

    /// Gives the completions up to `time`, while the batch holds less than `full`.
    fn complete(&mut self, time: u64, genesis: u64, batch: &mut EventBatch, full: usize) {
        while self.in_flight.peek().is_some_and(|next| next.0.at <= time) && batch.events.len() < full {
            self.complete_one(genesis, batch);
        }
    }

    fn complete_one(&mut self, genesis: u64, batch: &mut EventBatch) {
        if let Some(Reverse(done)) = self.in_flight.pop() {
            self.push(batch, genesis, done.at, &done.row, Action::COMPLETE, done.input);
        }
    }

    #[inline]
    fn push(
        &mut self,
        batch: &mut EventBatch,
        genesis: u64,
        time: u64,
        row: &Row,
        action: Action,
        input: u16,
    ) {
        self.events += 1;
        batch.events.push(Event {
            time: time.saturating_sub(genesis),
            sector: row.sector,
            bytes: row.bytes,
            device: row.device,
            sequence: self.events as u32,
            pid: row.pid,
            rwbs: row.rwbs.with(category_of(action)),
            input,
            action,
            ..Event::default()
        });
    }

    /// Passes on what reading has found out.
    fn tell(&mut self, batch: &mut EventBatch, at: usize) {
        let Context { devices, processes, info } = &mut self.context;
        let known = info.device_names.len();
        info.device_names.extend_from_slice(&devices.names[known..]);
        let names = processes.fresh.drain(..).map(|(pid, name)| ProcessName { before: at, pid, name });
        batch.names.extend(names);
    }

    fn finish(&mut self) {
        self.finished = true;
        let path =
            (self.context.info.inputs.first()).and_then(|i| i.files.first().cloned()).unwrap_or_default();
        let info = &mut self.context.info;
        if info.out_of_order > 0 {
            info.warn(
                &path,
                format!(
                    "{} rows come more than {WINDOW} rows too late; they are kept where they stand",
                    info.out_of_order
                ),
            );
        }
        if self.let_go > 0 {
            info.warn(&path, format!(
                "{} completions are given before their time: more than {MOST_IN_FLIGHT} requests were in flight",
                self.let_go
            ));
            info.out_of_order += self.let_go;
        }
        if self.context.devices.unnumbered > 0 {
            info.warn(
                &path,
                format!(
                    "{} rows are on further devices than the first {}; those share one number",
                    self.context.devices.unnumbered,
                    Devices::MAX
                ),
            );
        }
    }
}

impl<F: Feed> Source for Table<F> {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let first = batch.events.len();
        let full = first + EventBatch::TARGET;
        let genesis = match self.genesis {
            Some(genesis) => genesis,
            None => self.start()?,
        };
        self.tell(batch, first);
        while batch.events.len() < full && !self.lanes.is_empty() {
            self.advance(genesis, batch, full)?;
            if !self.context.processes.fresh.is_empty() {
                self.tell(batch, batch.events.len());
            }
        }
        if self.lanes.is_empty() {
            self.complete(u64::MAX, genesis, batch, full);
        }
        self.tell(batch, batch.events.len());
        let more = batch.events.len() > first;
        if !more && !self.finished {
            self.finish();
        }
        Ok(more)
    }

    fn info(&self) -> &TraceInfo {
        &self.context.info
    }
}

/// The category bits that the kernel gives a bio's event of this kind (`BLK_TA_*` in blktrace_api.h).
pub fn category_of(action: Action) -> Rwbs {
    match action {
        Action::REQUEUE => Rwbs::REQUEUE,
        Action::DISPATCH => Rwbs::ISSUE,
        Action::COMPLETE => Rwbs::COMPLETE,
        Action::SPLIT | Action::BOUNCE => Rwbs(0),
        Action::MESSAGE => Rwbs::NOTIFY,
        _ => Rwbs::QUEUE,
    }
}
