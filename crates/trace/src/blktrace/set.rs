//! Per-CPU files, of one device or many, merged into one stream of events in time order.
//!
//! The order of events with equal times, the moment at which a process's name becomes known, and the trace's time
//! zero follow blkparse 1.2.0 (`ms_sort`, `ms_prime`, `do_file`), so that the same events have the same order and the
//! same names.

use super::record::{MAGIC, WIDE_MAGIC};
use super::stream::{EventBlock, RecordStream, StreamEnding};
use crate::error::{Result, TraceError};
use crate::event::{Event, EventBatch, ProcessName};
use crate::source::{Source, TraceInfo};
use std::collections::HashMap;

const READ_AHEAD: usize = 512; // Events read ahead from each stream (blkparse's `RB_BATCH_DEFAULT`)
const SAME_BOOT: u64 = 60_000_000_000; // The wall clock is adjusted by less than this while a host runs, ns

struct StreamCursor {
    stream: RecordStream,
    input: u16,
    block: EventBlock,
    next: usize,
}

impl StreamCursor {
    /// The next event's time; only called while there is one.
    fn time(&self) -> u64 {
        self.block.events.get(self.next).map_or(u64::MAX, |e| e.time)
    }
}

/// A set of blktrace streams as one source.
pub struct BlktraceSet {
    cursors: Vec<StreamCursor>,
    order: Vec<usize>, // Indices into `cursors`, the next to be read first
    time_zero: Option<u64>,
    /// Whether a single stream holds the events of several CPUs, as `blkparse -d` writes it and standard input gives
    /// it.
    merged: bool,
    info: TraceInfo,
}

impl BlktraceSet {
    /// A set of `info`'s inputs, with the streams of each input in the same order.
    pub fn new(info: TraceInfo, inputs: Vec<Vec<RecordStream>>) -> Result<BlktraceSet> {
        let merged = info.inputs.len() == 1 && info.inputs[0].name.is_empty();
        let mut set = BlktraceSet { cursors: Vec::new(), order: Vec::new(), time_zero: None, merged, info };
        for (number, streams) in inputs.into_iter().enumerate() {
            let input_index = u16::try_from(number)
                .map_err(|_| TraceError::Request(format!("{} inputs: expected at most 65,536", number + 1)))?;
            set.cursors.extend(streams.into_iter().map(|stream| StreamCursor {
                stream,
                input: input_index,
                block: EventBlock::default(),
                next: 0,
            }));
        }
        Ok(set)
    }

    /// Reads the first block of every stream and sets time zero.
    fn start(&mut self, batch: &mut EventBatch) -> Result<u64> {
        for index in 0..self.cursors.len() {
            if self.read_block(index, batch)? {
                self.insert_in_order(index);
            }
        }
        self.check_clocks()?;
        self.check_copies()?;
        let time_zero = self.order.first().map_or(0, |&i| self.cursors[i].time());
        self.time_zero = Some(time_zero);
        self.info.start_unix_ns = self.cursors.iter().find_map(|cursor| {
            let (at, unix) = cursor.stream.timestamp?;
            unix.checked_add(time_zero)?.checked_sub(at)
        });
        Ok(time_zero)
    }

    /// Refuses inputs of different hosts or boots: between their clocks and the wall clock lie different times.
    fn check_clocks(&self) -> Result<()> {
        let mut clocks = self.cursors.iter().filter_map(|cursor| {
            let (at, unix) = cursor.stream.timestamp?;
            Some((cursor, unix.wrapping_sub(at)))
        });
        let Some((first, base)) = clocks.next() else { return Ok(()) };
        match clocks.find(|(_, other)| (other.wrapping_sub(base) as i64).unsigned_abs() > SAME_BOOT) {
            Some((other, _)) => Err(TraceError::Request(format!(
                "{} and {} are recordings of different hosts or boots: give one at a time, or compare them with \
                 `blklab trace diff`",
                first.stream.input.path, other.stream.input.path
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a recording that was given twice: its first events have the same times and sequence numbers.
    fn check_copies(&self) -> Result<()> {
        let mut seen = HashMap::new();
        for cursor in &self.cursors {
            let Some(first) = cursor.block.events.first() else { continue };
            let path = &cursor.stream.input.path;
            if let Some(other) = seen.insert((first.time, first.device, first.cpu, first.sequence), path) {
                let problem = format!("{other} and {path} begin with the same event: give this recording once");
                return Err(TraceError::Request(problem));
            }
        }
        Ok(())
    }

    /// Reads the next block of one stream; false if it has ended.
    fn read_block(&mut self, index: usize, batch: &mut EventBatch) -> Result<bool> {
        let cursor = &mut self.cursors[index];
        let before = cursor.stream.input.offset;
        cursor.next = 0;
        cursor.stream.next_block(&mut cursor.block, READ_AHEAD)?;
        self.info.bytes_read += cursor.stream.input.offset - before;
        for (pid, name) in cursor.block.names.drain(..) {
            batch.names.push(ProcessName { before: batch.events.len(), pid, name });
        }
        if cursor.block.events.is_empty() {
            self.report_ending(index)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds a stream's counts and warnings to the trace's.
    fn report_ending(&mut self, index: usize) -> Result<()> {
        let stream = &self.cursors[index].stream;
        let (path, irregularities, skipped) = (stream.input.path.clone(), stream.irregularities, stream.skipped);
        self.info.out_of_order += irregularities.backwards;
        self.info.messages += stream.messages;
        self.info.sequence_gaps += irregularities.missing;
        let warnings = [
            (irregularities.backwards, "events are earlier than their predecessors; they stay in file order"),
            (irregularities.leaps, "gaps of more than a day between events: the times are not reliable"),
            (irregularities.missing, "events are missing according to their sequence numbers"),
        ];
        for (count, problem) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            self.info.warn(&path, format!("{count} {problem}"));
        }
        if skipped.places > 0 {
            let places = if skipped.places == 1 { "" } else { " and later" };
            self.info.warn(
                &path,
                format!(
                    "damaged at offset {}{places}: {} bytes that are no record were skipped",
                    skipped.offset, skipped.bytes
                ),
            );
        }
        match self.cursors[index].stream.ending {
            Some(StreamEnding::Cut { offset, left }) => self.info.warn(
                &path,
                format!("cut off at offset {offset}: {left} bytes left, expected a complete record; read up to there"),
            ),
            Some(StreamEnding::Damaged { offset: 0, magic }) => {
                let problem = format!("magic {magic:#010x}, expected {MAGIC:#010x} or {WIDE_MAGIC:#010x}");
                return Err(TraceError::malformed(&path, "offset 0", problem));
            }
            Some(StreamEnding::Damaged { offset, magic }) => self.info.warn(
                &path,
                format!(
                    "damaged at offset {offset}: magic {magic:#010x}, expected {MAGIC:#010x} or {WIDE_MAGIC:#010x}; \
                     read up to there"
                ),
            ),
            Some(StreamEnding::Clean) | None => {}
        }
        Ok(())
    }

    /// Inserts a stream into the order by its next time: before equal times, but never before the first of them.
    fn insert_in_order(&mut self, index: usize) {
        let time = self.cursors[index].time();
        let later = |&i: &usize| self.cursors[i].time() >= time;
        let at = match self.order.first() {
            None => 0,
            Some(&first) if time < self.cursors[first].time() => 0,
            Some(_) => 1 + self.order[1..].iter().position(later).unwrap_or(self.order.len() - 1),
        };
        self.order.insert(at, index);
    }

    /// Moves the first stream's events to the batch as long as it is first.
    fn advance(&mut self, time_zero: u64, batch: &mut EventBatch) -> Result<()> {
        let index = self.order[0];
        let until = self.order.get(1).map_or(u64::MAX, |&second| self.cursors[second].time());
        let cursor = &mut self.cursors[index];
        let ready = &cursor.block.events[cursor.next..];
        // The first event always; then all that are not later than the second stream's next event.
        let run = 1 + ready[1..].iter().take_while(|e| e.time <= until).count();
        for event in &ready[..run] {
            let mut event = Event { time: event.time.saturating_sub(time_zero), input: cursor.input, ..*event };
            if event.pdu_len > 0 {
                let from = event.pdu_start as usize;
                let bytes = &cursor.block.pdu[from..from + usize::from(event.pdu_len)];
                event.pdu_start = batch.pdu.len() as u32;
                batch.pdu.extend_from_slice(bytes);
            }
            batch.events.push(event);
        }
        cursor.next += run;
        if cursor.next == cursor.block.events.len() && !self.read_block(index, batch)? {
            self.order.remove(0);
        } else if self.cursors[index].time() > until {
            self.order.remove(0);
            self.insert_in_order(index);
        }
        Ok(())
    }
}

impl Source for BlktraceSet {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let time_zero = match self.time_zero {
            Some(time_zero) => time_zero,
            None => self.start(batch)?,
        };
        let first = batch.events.len();
        while !self.order.is_empty() && batch.events.len() - first < EventBatch::TARGET {
            self.advance(time_zero, batch)?;
        }
        if self.merged {
            // Events with equal times can have any order: blkparse sorts them by device and sequence, but never across
            // the end of what it has read.
            for tie in batch.events[first..].chunk_by_mut(|a, b| a.time == b.time) {
                tie.sort_by_key(|event| (event.device, event.sequence));
            }
        }
        Ok(batch.events.len() > first || !self.order.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
