//! One blktrace file, read block by block.

use super::record::*;
use crate::error::{Result, TraceError};
use crate::event::{Event, Rwbs};
use crate::interrupt;
use std::io::{ErrorKind, Read};

/// How much is read at once; fits the L2 cache together with what is decoded from it.
const BUFFER: usize = 128 << 10;

/// Some decoded events of one stream, in file order.
#[derive(Default)]
pub struct Block {
    /// The events; `time` is still the recording machine's.
    pub events: Vec<Event>,
    /// Payloads kept, pointed to by the events.
    pub pdu: Vec<u8>,
    /// Process names noted among them: (pid, name).
    pub names: Vec<(u32, String)>,
}

impl Block {
    fn clear(&mut self) {
        self.events.clear();
        self.pdu.clear();
        self.names.clear();
    }
}

/// What a stream met that the user should know.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// A clean end of file.
    Clean,
    /// The file was cut off in mid-record; so many bytes are left over.
    Cut {
        /// Where the record began.
        offset: u64,
        /// Bytes there are of it.
        left: usize,
    },
    /// Something that is not a record.
    Damaged {
        /// Where it stands.
        offset: u64,
        /// What stands where the magic should.
        found: u32,
    },
}

/// What is compared with the next event.
#[derive(Clone, Copy, Default)]
struct Last {
    time: u64,
    sequence: u32,
    cpu: u32,
    device: u32,
}

/// What is wrong with some events.
#[derive(Clone, Copy, Default)]
struct Odd {
    backwards: u64,
    leaps: u64,
    missing: u64,
}

impl Odd {
    fn add(&mut self, other: Odd) {
        self.backwards += other.backwards;
        self.leaps += other.leaps;
        self.missing += other.missing;
    }
}

/// No disk is idle that long while it is traced.
const DAY: u64 = 86_400_000_000_000;

impl Last {
    fn of(record: &Record) -> Last {
        Last { time: record.time, sequence: record.sequence, cpu: record.cpu, device: record.device }
    }

    /// Whether the next event needs a closer look: nearly never within one CPU's file.
    #[inline]
    fn is_odd(&self, record: &Record) -> bool {
        record.time.wrapping_sub(self.time) > DAY || record.sequence != self.sequence.wrapping_add(1)
    }

    /// Goes on to the next event, and says what is odd about it.
    #[cold]
    fn step(&mut self, record: &Record) -> Odd {
        let last = std::mem::replace(self, Last::of(record));
        let same_source = (last.cpu, last.device) == (record.cpu, record.device) && last.sequence != 0;
        let missing = record.sequence.wrapping_sub(last.sequence).wrapping_sub(1);
        Odd {
            backwards: u64::from(record.time < last.time),
            leaps: u64::from(last.time != 0 && record.time.saturating_sub(last.time) > DAY),
            missing: if same_source && missing < 1 << 31 { u64::from(missing) } else { 0 },
        }
    }
}

/// A reader of blktrace records.
pub struct Stream {
    /// Shown in messages.
    pub path: String,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    at_eof: bool,
    order: Option<Order>,
    last: Last,
    /// How the stream ended, once it has.
    pub ending: Option<Ending>,
    /// (record time, unix ns) of the first time stamp note.
    pub timestamp: Option<(u64, u64)>,
    /// Events whose time lay before their predecessor's.
    pub out_of_order: u64,
    /// Events more than a day after their predecessor.
    pub leaps: u64,
    /// Sequence numbers missing between neighbours of one device and CPU.
    pub sequence_gaps: u64,
    /// Cgroup-tagged messages, which are not kept.
    pub messages: u64,
}

impl Stream {
    /// A stream over decompressed bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>) -> Stream {
        Stream {
            path,
            source,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset: 0,
            at_eof: false,
            order: None,
            last: Last::default(),
            ending: None,
            timestamp: None,
            out_of_order: 0,
            leaps: 0,
            sequence_gaps: 0,
            messages: 0,
        }
    }

    /// Bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Replaces `block` by the next `limit` events or fewer at the end; notes are taken in on the way.
    /// An empty block means the stream has ended; `ending` says how.
    pub fn next_block(&mut self, block: &mut Block, limit: usize) -> Result<()> {
        block.clear();
        if self.ending.is_some() {
            return Ok(());
        }
        if self.order.is_none() {
            self.require(4)?;
            self.order = Order::of(&self.buffer[self.start..self.end]);
        }
        match self.order {
            Some(Order::Big) => self.decode::<true>(block, limit),
            // An unknown order fails on the first magic, with its value in the message.
            _ => self.decode::<false>(block, limit),
        }
    }

    fn decode<const BIG: bool>(&mut self, block: &mut Block, limit: usize) -> Result<()> {
        while block.events.len() < limit {
            self.take_plain::<BIG>(block, limit);
            if block.events.len() == limit {
                break;
            }
            // What is not a plain event in the buffer: a payload, a note, a magic that is none, the buffer's end.
            if self.end - self.start < RECORD && !self.require(RECORD)? {
                return self.finish();
            }
            let Some(raw) = self.buffer[self.start..self.end].first_chunk::<RECORD>() else {
                return self.finish();
            };
            let record = Record::decode::<BIG>(raw);
            if record.magic != MAGIC {
                self.ending = Some(Ending::Damaged { offset: self.offset, found: record.magic });
                return Ok(());
            }
            let whole = RECORD + usize::from(record.pdu_len);
            if self.end - self.start < whole && !self.require(whole)? {
                return self.finish();
            }
            let (from, to) = (self.start + RECORD, self.start + whole);
            self.start = to;
            self.offset += whole as u64;
            if record.is_note() {
                self.take_note::<BIG>(&record, from..to, block);
                continue;
            }
            let last = self.last.step(&record);
            self.note(last);
            let pdu = &self.buffer[from..to];
            let mut event = record.event(pdu);
            if event.rwbs.has(Rwbs::PASSTHROUGH) && !pdu.is_empty() {
                keep(&mut event, pdu, &mut block.pdu);
            }
            block.events.push(event);
        }
        Ok(())
    }

    /// Takes the events at the front of the buffer that have no payload, which most have not.
    fn take_plain<const BIG: bool>(&mut self, block: &mut Block, limit: usize) {
        let buffered = &self.buffer[self.start..self.end];
        let mut rest = buffered;
        let mut last = self.last;
        let mut odd = Odd::default();
        let room = limit - block.events.len();
        block.events.extend(
            std::iter::from_fn(|| {
                let (raw, behind) = rest.split_first_chunk::<RECORD>()?;
                let record = Record::decode::<BIG>(raw);
                if record.magic != MAGIC || record.pdu_len != 0 || record.is_note() {
                    return None;
                }
                rest = behind;
                if last.is_odd(&record) {
                    odd.add(last.step(&record));
                } else {
                    last = Last::of(&record);
                }
                Some(record.event(&[]))
            })
            .take(room),
        );
        let taken = buffered.len() - rest.len();
        self.start += taken;
        self.offset += taken as u64;
        self.last = last;
        self.note(odd);
    }

    fn note(&mut self, odd: Odd) {
        self.out_of_order += odd.backwards;
        self.leaps += odd.leaps;
        self.sequence_gaps += odd.missing;
    }

    fn take_note<const BIG: bool>(
        &mut self,
        record: &Record,
        pdu: std::ops::Range<usize>,
        block: &mut Block,
    ) {
        let pdu = &self.buffer[pdu];
        match record.action & 0xffff {
            NOTE_PROCESS => block.names.push((record.pid, text_of(&pdu[..pdu.len().min(16)]))),
            NOTE_TIMESTAMP if pdu.len() == 8 && self.timestamp.is_none() => {
                let word = |at: usize| {
                    let v = [pdu[at], pdu[at + 1], pdu[at + 2], pdu[at + 3]];
                    u64::from(if BIG { u32::from_be_bytes(v) } else { u32::from_le_bytes(v) })
                };
                self.timestamp = Some((record.time, word(0) * 1_000_000_000 + word(4)));
            }
            NOTE_MESSAGE => {
                let mut event = record.event(&[]);
                keep(&mut event, pdu, &mut block.pdu);
                block.events.push(event);
            }
            _ => self.messages += 1,
        }
    }

    fn finish(&mut self) -> Result<()> {
        let left = self.end - self.start;
        self.ending = Some(if left == 0 { Ending::Clean } else { Ending::Cut { offset: self.offset, left } });
        Ok(())
    }

    /// Reads until `wanted` bytes are in the buffer; false at the end of the file.
    fn require(&mut self, wanted: usize) -> Result<bool> {
        while self.end - self.start < wanted {
            if self.at_eof {
                return Ok(false);
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_eof = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted && !interrupt::requested() => {}
                Err(e) => return Err(TraceError::io(&self.path, e)),
            }
        }
        Ok(true)
    }
}

fn keep(event: &mut Event, pdu: &[u8], all: &mut Vec<u8>) {
    event.pdu_start = all.len() as u32;
    event.pdu_len = pdu.len() as u16;
    all.extend_from_slice(pdu);
}
