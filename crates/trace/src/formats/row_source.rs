//! Traces that are tables of requests, one row for each: sorts the rows and makes events of them.
//!
//! A row with a response time becomes a queueing (Q) and a completion (C), one without only a Q; a row can also say when
//! it was dispatched (D), and begin with that. Rows can be out of order by up to [`WINDOW`] rows; rows that are later are counted and stay where they are.

use super::names::{NamedDevices, NewProcessNames};
use crate::error::Result;
use crate::event::{Action, DeviceId, Event, EventBatch, Rwbs};
use crate::source::{Input, OpenFile, OpenInput, Source, TraceInfo};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const WINDOW: usize = 64 << 10; // The number of rows by which a row can be late
/// The largest number of requests in flight; beyond it the earliest completion is given before its time.
const MOST_IN_FLIGHT: usize = 256 << 10;
pub const NO_RESPONSE: u64 = u64::MAX; // No response time recorded

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestRow {
    pub time: u64,         // Its first event, ns on the trace's own clock
    pub first: Action,     // Q, or D if its queueing was not recorded
    pub wait: Option<u64>, // Time from Q to D, ns, if it was recorded
    pub response: u64,     // Time from `time` to its completion, ns, or [`NO_RESPONSE`]
    pub sector: u64,       // First sector
    pub bytes: u32,        // Length in bytes
    pub device: DeviceId,
    pub pid: u32,   // Its process, 0 if not recorded
    pub rwbs: Rwbs, // Its category bits: the operation
}

impl Default for RequestRow {
    /// A read without a response time.
    fn default() -> RequestRow {
        let device = DeviceId::default();
        let (time, first, wait, response) = (0, Action::QUEUE, None, NO_RESPONSE);
        RequestRow { time, first, wait, response, sector: 0, bytes: 0, device, pid: 0, rwbs: Rwbs::READ }
    }
}

/// What readers collect in addition to rows.
#[derive(Default)]
pub struct ReadContext {
    pub devices: NamedDevices,      // Named devices
    pub processes: NewProcessNames, // Named processes
    pub info: TraceInfo,            // Information about the trace
}

/// One file's rows, in file order.
pub trait RowFeed: Send + 'static {
    /// Appends rows until `rows` has `limit`; fewer mean that the file has ended.
    fn read(&mut self, rows: &mut Vec<RequestRow>, limit: usize, context: &mut ReadContext) -> Result<()>;

    /// Bytes consumed.
    fn bytes(&self) -> u64;
}

struct RowCursor<F> {
    feed: F,
    input: u16,
    ready: Vec<RequestRow>, // Sorted rows that no later row can precede
    next: usize,
    held: Vec<RequestRow>, // Sorted rows that later rows can still precede
    ended: bool,
    reached: u64, // Time of the last ready row
}

impl<F: RowFeed> RowCursor<F> {
    fn time(&self) -> u64 {
        self.ready[self.next].time
    }

    /// Makes rows ready; false if there are no more.
    fn refill(&mut self, context: &mut ReadContext) -> Result<bool> {
        self.next = 0;
        self.ready.clear();
        std::mem::swap(&mut self.ready, &mut self.held);
        if !self.ended {
            let limit = 2 * WINDOW - self.ready.len();
            let before = self.feed.bytes();
            self.feed.read(&mut self.held, limit, context)?;
            context.info.bytes_read += self.feed.bytes() - before;
            self.ended = self.held.len() < limit;
        }
        context.info.out_of_order += self.held.iter().filter(|r| r.time < self.reached).count() as u64;
        let count = if self.ended { self.ready.len() + self.held.len() } else { WINDOW };
        let in_order = self.ready.last().into_iter().chain(&self.held).is_sorted_by_key(|row| row.time);
        if !in_order || count != self.ready.len() {
            self.ready.append(&mut self.held);
            self.ready.sort_by_key(|row| row.time);
            self.held.extend(self.ready.drain(count..));
        }
        self.reached = self.ready.last().map_or(self.reached, |last| last.time.max(self.reached));
        Ok(!self.ready.is_empty())
    }
}

/// The dispatch or completion of a request that is still to come; ordered by time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PendingEvent {
    at: u64,
    order: u64,
    row: RequestRow,
    action: Action,
    input: u16,
}

/// Files of rows as one source of events.
pub struct RowSource<F> {
    cursors: Vec<RowCursor<F>>,
    in_flight: BinaryHeap<Reverse<PendingEvent>>,
    context: ReadContext,
    time_zero: Option<u64>, // Time on the trace's clock of its first event
    epoch: Option<u64>,     // The trace's clock at the start of 1970, if it is a wall clock
    rows: u64,
    events: u64,
    early_completions: u64,
    finished: bool,
}

/// The smallest plausible wall-clock time: September 2001, in ns since 1970.
const PLAUSIBLE_UNIX: u64 = 1_000_000_000_000_000_000;

impl<F: RowFeed> RowSource<F> {
    /// Makes every file a separate input, which `feed` opens; it can change what is known about the trace. `epoch` is
    /// the trace's clock at the start of 1970, if it is a wall clock.
    pub fn open(
        mut info: TraceInfo, epoch: Option<u64>, inputs: Vec<OpenInput>,
        mut feed: impl FnMut(&mut TraceInfo, OpenFile) -> Result<F>,
    ) -> Result<Box<dyn Source>> {
        info.inputs.clear();
        let mut cursors = Vec::new();
        let files = inputs
            .into_iter()
            .flat_map(|OpenInput { name, files }| files.into_iter().map(move |file| (name.clone(), file)));
        for (name, file) in files {
            info.inputs.push(Input { name, files: vec![file.path.clone()] });
            cursors.push(RowCursor {
                feed: feed(&mut info, file)?,
                input: cursors.len().min(usize::from(u16::MAX)) as u16,
                ready: Vec::new(),
                next: 0,
                held: Vec::new(),
                ended: false,
                reached: 0,
            });
        }
        Ok(Box::new(RowSource {
            cursors,
            in_flight: BinaryHeap::new(),
            context: ReadContext { info, ..ReadContext::default() },
            time_zero: None,
            epoch,
            rows: 0,
            events: 0,
            early_completions: 0,
            finished: false,
        }))
    }

    /// Sets time zero.
    fn start(&mut self) -> Result<u64> {
        let mut filled = Vec::new();
        for mut cursor in std::mem::take(&mut self.cursors) {
            if cursor.refill(&mut self.context)? {
                filled.push(cursor);
            }
        }
        self.cursors = filled;
        let time_zero = self.cursors.iter().map(RowCursor::time).min().unwrap_or(0);
        self.time_zero = Some(time_zero);
        self.context.info.start_unix_ns =
            self.epoch.and_then(|epoch| time_zero.checked_sub(epoch)).filter(|&unix| unix >= PLAUSIBLE_UNIX);
        Ok(time_zero)
    }

    /// Adds events of the file whose next row is first, as long as it is.
    fn advance(&mut self, time_zero: u64, batch: &mut EventBatch, full: usize) -> Result<()> {
        let mut index = 0;
        let mut until = u64::MAX;
        for i in 1..self.cursors.len() {
            if self.cursors[i].time() < self.cursors[index].time() {
                until = self.cursors[index].time();
                index = i;
            } else {
                until = until.min(self.cursors[i].time());
            }
        }
        while batch.events.len() < full {
            let cursor = &mut self.cursors[index];
            let row = cursor.ready[cursor.next];
            if row.time > until {
                break;
            }
            let input = cursor.input;
            cursor.next += 1;
            let exhausted = cursor.next == cursor.ready.len();
            self.push_completions(row.time, time_zero, batch, usize::MAX);
            self.push_event(batch, time_zero, row.time, &row, row.first, input);
            let dispatch = row.wait.map(|wait| (wait, Action::DISPATCH));
            let completion = (row.response != NO_RESPONSE).then_some((row.response, Action::COMPLETE));
            for (after, action) in dispatch.into_iter().chain(completion) {
                self.rows += 1;
                let (at, order) = (row.time.saturating_add(after), self.rows);
                self.in_flight.push(Reverse(PendingEvent { at, order, row, action, input }));
                if self.in_flight.len() > MOST_IN_FLIGHT {
                    self.early_completions += 1;
                    self.push_completion(time_zero, batch);
                }
            }
            if exhausted {
                if !self.cursors[index].refill(&mut self.context)? {
                    self.cursors.remove(index);
                }
                break;
            }
        }
        Ok(())
    }

    /// Adds the completions up to `time`, while the batch has fewer than `full` events.
    fn push_completions(&mut self, time: u64, time_zero: u64, batch: &mut EventBatch, full: usize) {
        while self.in_flight.peek().is_some_and(|next| next.0.at <= time) && batch.events.len() < full {
            self.push_completion(time_zero, batch);
        }
    }

    fn push_completion(&mut self, time_zero: u64, batch: &mut EventBatch) {
        if let Some(Reverse(done)) = self.in_flight.pop() {
            self.push_event(batch, time_zero, done.at, &done.row, done.action, done.input);
        }
    }

    fn push_event(
        &mut self, batch: &mut EventBatch, time_zero: u64, time: u64, row: &RequestRow, action: Action, input: u16,
    ) {
        self.events += 1;
        batch.events.push(Event {
            time: time.saturating_sub(time_zero),
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

    /// Adds the names of devices and processes that readers have found since.
    fn add_new_names(&mut self, batch: &mut EventBatch) {
        let ReadContext { devices, processes, info } = &mut self.context;
        info.device_names.extend_from_slice(&devices.names[info.device_names.len()..]);
        processes.report(batch);
    }

    fn finish(&mut self) {
        self.finished = true;
        let path = (self.context.info.inputs.first()).and_then(|i| i.files.first().cloned()).unwrap_or_default();
        let ReadContext { devices, info, .. } = &mut self.context;
        let warnings = [
            (info.out_of_order, format!("rows are more than {WINDOW} rows too late; they stay where they are")),
            (
                self.early_completions,
                format!("completions are given too early: more than {MOST_IN_FLIGHT} requests were in flight"),
            ),
            (
                devices.unnumbered,
                format!("rows are on devices beyond the first {}; those devices share a number", NamedDevices::MAX),
            ),
        ];
        for (count, problem) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            info.warn(&path, format!("{count} {problem}"));
        }
        info.out_of_order += self.early_completions;
    }
}

impl<F: RowFeed> Source for RowSource<F> {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let first = batch.events.len();
        let full = first + EventBatch::TARGET;
        let time_zero = match self.time_zero {
            Some(time_zero) => time_zero,
            None => self.start()?,
        };
        self.add_new_names(batch);
        while batch.events.len() < full && !self.cursors.is_empty() {
            self.advance(time_zero, batch, full)?;
            self.add_new_names(batch);
        }
        if self.cursors.is_empty() {
            self.push_completions(u64::MAX, time_zero, batch, full);
        }
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
