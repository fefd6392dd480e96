//! Per-CPU files, of one device or many, merged into one stream of events in time order.
//!
//! The order of events with equal times, the moment at which a process's name becomes known, and the
//! trace's time zero follow blkparse 1.2.0 (`ms_sort`, `ms_prime`, `do_file`), so that the same events come
//! out in the same order under the same names.

use super::stream::{Block, Ending, Stream};
use crate::error::{Result, TraceError};
use crate::event::{Event, EventBatch, ProcessName};
use crate::source::{Source, TraceInfo};

/// Events read ahead from each stream (blkparse's `RB_BATCH_DEFAULT`).
const READ_AHEAD: usize = 512;

struct Lane {
    stream: Stream,
    input: u16,
    block: Block,
    next: usize,
}

impl Lane {
    /// The next event's time; only called while there is one.
    fn time(&self) -> u64 {
        self.block.events.get(self.next).map_or(u64::MAX, |e| e.time)
    }
}

/// A set of blktrace streams as one source.
pub struct BlktraceSet {
    lanes: Vec<Lane>,
    /// Indices into `lanes`, the next to be read first.
    order: Vec<usize>,
    genesis: Option<u64>,
    /// A single stream that holds several CPUs' events, as `blkparse -d` writes and standard input gives.
    merged: bool,
    tie: Vec<Event>,
    info: TraceInfo,
}

impl BlktraceSet {
    /// A set of `info`'s inputs: in their order, the streams of each.
    pub fn new(info: TraceInfo, inputs: Vec<Vec<Stream>>) -> Result<BlktraceSet> {
        let merged = info.inputs.len() == 1 && info.inputs[0].name.is_empty();
        let mut set = BlktraceSet {
            lanes: Vec::new(),
            order: Vec::new(),
            genesis: None,
            merged,
            tie: Vec::new(),
            info,
        };
        for (number, streams) in inputs.into_iter().enumerate() {
            let input_index = u16::try_from(number).map_err(|_| {
                TraceError::Request(format!("{} inputs: at most 65,536 are read together", number + 1))
            })?;
            set.lanes.extend(streams.into_iter().map(|stream| Lane {
                stream,
                input: input_index,
                block: Block::default(),
                next: 0,
            }));
        }
        Ok(set)
    }

    /// Reads the first block of every lane and fixes time zero.
    fn start(&mut self, batch: &mut EventBatch) -> Result<u64> {
        for index in 0..self.lanes.len() {
            if self.prime(index, batch)? {
                self.place(index);
            }
        }
        let genesis = self.order.first().map_or(0, |&i| self.lanes[i].time());
        self.genesis = Some(genesis);
        self.info.start_unix_ns = self.lanes.iter().find_map(|lane| {
            let (at, unix) = lane.stream.timestamp?;
            unix.checked_add(genesis)?.checked_sub(at)
        });
        Ok(genesis)
    }

    /// Reads ahead on one lane; false when it has ended.
    fn prime(&mut self, index: usize, batch: &mut EventBatch) -> Result<bool> {
        let lane = &mut self.lanes[index];
        let before = lane.stream.offset();
        lane.next = 0;
        lane.stream.next_block(&mut lane.block, READ_AHEAD)?;
        self.info.bytes_read += lane.stream.offset() - before;
        for (pid, name) in lane.block.names.drain(..) {
            batch.names.push(ProcessName { before: batch.events.len(), pid, name });
        }
        if lane.block.events.is_empty() {
            self.close(index)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Reports how a lane ended.
    fn close(&mut self, index: usize) -> Result<()> {
        let stream = &self.lanes[index].stream;
        let path = stream.path.clone();
        self.info.out_of_order += stream.out_of_order;
        self.info.messages += stream.messages;
        self.info.sequence_gaps += stream.sequence_gaps;
        if stream.out_of_order > 0 {
            let count = stream.out_of_order;
            self.info.warn(
                &path,
                format!("{count} events lie before their predecessors in time; they are kept in file order"),
            );
        }
        let (leaps, gaps) = (self.lanes[index].stream.leaps, self.lanes[index].stream.sequence_gaps);
        if leaps > 0 {
            self.info.warn(
                &path,
                format!("{leaps} leaps of more than a day from one event to the next: times are doubtful"),
            );
        }
        if gaps > 0 {
            self.info.warn(&path, format!("{gaps} events are missing by their sequence numbers"));
        }
        match self.lanes[index].stream.ending {
            Some(Ending::Cut { offset, left }) => self.info.warn(
                &path,
                format!("cut off in mid-record at offset {offset}: {left} bytes left over, expected a whole record; read up to there"),
            ),
            Some(Ending::Damaged { offset: 0, found }) => {
                return Err(TraceError::Malformed {
                    path,
                    place: "offset 0".into(),
                    problem: format!("magic {found:#010x}, expected {:#010x}", super::record::MAGIC),
                });
            }
            Some(Ending::Damaged { offset, found }) => self.info.warn(
                &path,
                format!(
                    "damaged at offset {offset}: magic {found:#010x}, expected {:#010x}; read up to there",
                    super::record::MAGIC
                ),
            ),
            Some(Ending::Clean) | None => {}
        }
        Ok(())
    }

    /// Puts a lane into the order by its next time: before equals, but behind the first.
    fn place(&mut self, index: usize) {
        let time = self.lanes[index].time();
        let later = |&i: &usize| self.lanes[i].time() >= time;
        let at = match self.order.first() {
            None => 0,
            Some(&first) if time < self.lanes[first].time() => 0,
            Some(_) => 1 + self.order[1..].iter().position(later).unwrap_or(self.order.len() - 1),
        };
        self.order.insert(at, index);
    }

    /// Moves the first lane back to its place: behind the second, before those that are not earlier than it.
    #[inline]
    fn yield_first(&mut self) {
        let index = self.order[0];
        let time = self.lanes[index].time();
        let mut at = 0;
        while at + 1 < self.order.len() && (at == 0 || self.lanes[self.order[at + 1]].time() < time) {
            self.order[at] = self.order[at + 1];
            at += 1;
        }
        self.order[at] = index;
    }

    /// Moves the first lane's events to the batch for as long as it stays first.
    fn advance(&mut self, genesis: u64, batch: &mut EventBatch) -> Result<()> {
        let index = self.order[0];
        let until = self.order.get(1).map_or(u64::MAX, |&second| self.lanes[second].time());
        let lane = &mut self.lanes[index];
        let ready = &lane.block.events[lane.next..];
        // The first goes in any case; then all that are not later than the second lane's next.
        let run = 1 + ready[1..].iter().take_while(|e| e.time <= until).count();
        for event in &ready[..run] {
            let mut event = Event { time: event.time.saturating_sub(genesis), input: lane.input, ..*event };
            if event.pdu_len > 0 {
                let from = event.pdu_start as usize;
                let bytes = &lane.block.pdu[from..from + usize::from(event.pdu_len)];
                event.pdu_start = batch.pdu.len() as u32;
                batch.pdu.extend_from_slice(bytes);
            }
            batch.events.push(event);
        }
        lane.next += run;
        if lane.next == lane.block.events.len() && !self.prime(index, batch)? {
            self.order.remove(0);
        } else if self.lanes[index].time() > until {
            self.yield_first();
        }
        Ok(())
    }

    /// In a merged stream events of one instant may stand in any order: blkparse sorts them by device and
    /// sequence, but never across the end of what it has read.
    fn sort_ties(&mut self, batch: &mut EventBatch, first: usize) {
        let events = &mut batch.events[first..];
        let mut from = 0;
        while from < events.len() {
            let time = events[from].time;
            let len = events[from..].iter().take_while(|e| e.time == time).count();
            if len > 1 {
                self.tie.clear();
                self.tie.extend_from_slice(&events[from..from + len]);
                self.tie.sort_by_key(|e| (e.device, e.sequence));
                events[from..from + len].copy_from_slice(&self.tie);
            }
            from += len;
        }
    }
}

impl Source for BlktraceSet {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let genesis = match self.genesis {
            Some(genesis) => genesis,
            None => self.start(batch)?,
        };
        let first = batch.events.len();
        while !self.order.is_empty() && batch.events.len() - first < EventBatch::TARGET {
            self.advance(genesis, batch)?;
        }
        if self.merged {
            self.sort_ties(batch, first);
        }
        Ok(batch.events.len() > first || !self.order.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
