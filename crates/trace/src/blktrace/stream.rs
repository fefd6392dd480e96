//! One blktrace file, read block by block.

use super::record::*;
use crate::error::Result;
use crate::event::{Event, Rwbs};
use crate::input_buffer::InputBuffer;
use blklab_stats::{Merge, merge_fields};
use std::io::Read;

/// Bytes that are read at once; they fit into the L2 cache together with the events decoded from them.
const BUFFER: usize = 128 << 10;

/// Some decoded events of one stream, in file order.
#[derive(Default)]
pub struct EventBlock {
    pub events: Vec<Event>,         // The events; `time` is that of the recording machine
    pub pdu: Vec<u8>,               // Payloads kept, pointed to by the events
    pub names: Vec<(u32, Vec<u8>)>, // Process names in notes among them: (pid, name)
}

impl EventBlock {
    fn clear(&mut self) {
        self.events.clear();
        self.pdu.clear();
        self.names.clear();
    }
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamEnding {
    Clean,                               // A clean end of file
    Cut { offset: u64, left: usize },    // Within a record that began at `offset`, with `left` bytes of it in the file
    Damaged { offset: u64, magic: u32 }, // Something that is not a record, with these bytes in place of the magic
}

/// Bytes among the records that are no records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedBytes {
    pub offset: u64, // Offset of the first
    pub bytes: u64,  // How many
    pub places: u64, // In how many places
}

/// The previous record, for comparison with the next one.
#[derive(Clone, Copy, Default)]
struct PreviousRecord {
    time: u64,
    sequence: u32,
    cpu: u32,
    device: u32,
}

/// Counts of irregular records.
#[derive(Clone, Copy, Default)]
pub struct Irregularities {
    pub backwards: u64, // Events earlier than their predecessors
    pub leaps: u64,     // Events more than a day later than their predecessors
    pub missing: u64,   // Missing sequence numbers between neighbours of one device and CPU
}

merge_fields!(Irregularities: backwards, leaps, missing);

const DAY: u64 = 86_400_000_000_000; // No traced disk is idle for this long

impl PreviousRecord {
    fn of(record: &Record) -> PreviousRecord {
        PreviousRecord { time: record.time, sequence: record.sequence, cpu: record.cpu, device: record.device }
    }

    /// Whether the next record must be checked: nearly never within one CPU's file.
    fn needs_check(&self, record: &Record) -> bool {
        record.time.wrapping_sub(self.time) > DAY || record.sequence != self.sequence.wrapping_add(1)
    }

    /// Replaces the previous record and returns the irregularities between the two.
    fn check(&mut self, record: &Record) -> Irregularities {
        let previous = std::mem::replace(self, PreviousRecord::of(record));
        let same_source = (previous.cpu, previous.device) == (record.cpu, record.device) && previous.sequence != 0;
        let missing = record.sequence.wrapping_sub(previous.sequence).wrapping_sub(1);
        Irregularities {
            backwards: u64::from(record.time < previous.time),
            leaps: u64::from(previous.time != 0 && record.time.saturating_sub(previous.time) > DAY),
            missing: if same_source && missing < 1 << 31 { u64::from(missing) } else { 0 },
        }
    }
}

/// A reader of blktrace records.
pub struct RecordStream {
    pub input: InputBuffer,
    order: Option<ByteOrder>,
    previous: PreviousRecord,
    pub ending: Option<StreamEnding>,  // How the stream ended, once it has
    pub skipped: SkippedBytes,         // Bytes skipped because they are no records
    pub timestamp: Option<(u64, u64)>, // (record time, unix ns) of the first time stamp note
    pub irregularities: Irregularities,
    pub messages: u64, // Cgroup-tagged messages, which are not kept
}

impl RecordStream {
    /// A stream over decompressed bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>) -> RecordStream {
        RecordStream {
            input: InputBuffer::new(path, source, BUFFER),
            order: None,
            previous: PreviousRecord::default(),
            ending: None,
            skipped: SkippedBytes::default(),
            timestamp: None,
            irregularities: Irregularities::default(),
            messages: 0,
        }
    }

    /// Replaces `block` by the next `limit` events, or fewer at the end; handles notes among them. An empty block
    /// means that the stream has ended; `ending` says how.
    pub fn next_block(&mut self, block: &mut EventBlock, limit: usize) -> Result<()> {
        block.clear();
        if self.ending.is_some() {
            return Ok(());
        }
        if self.order.is_none() {
            self.input.require(4)?;
            self.order = ByteOrder::of(self.input.bytes());
        }
        match self.order {
            Some(ByteOrder::Big) => self.decode::<true>(block, limit),
            // An unknown byte order fails at the first magic, which the message then shows.
            _ => self.decode::<false>(block, limit),
        }
    }

    fn decode<const BIG: bool>(&mut self, block: &mut EventBlock, limit: usize) -> Result<()> {
        while block.events.len() < limit {
            match self.next_is_wide::<BIG>() {
                true => self.decode_plain::<BIG, WIDE_RECORD>(WIDE_MAGIC, block, limit),
                false => self.decode_plain::<BIG, RECORD>(MAGIC, block, limit),
            }
            if block.events.len() == limit {
                break;
            }
            // Here the buffer has a payload, a note, a wrong magic, or too few bytes.
            if !self.input.require(RECORD)? {
                return self.finish();
            }
            let Some((record, fixed)) = Record::first::<BIG>(self.input.bytes()) else {
                if self.input.require(WIDE_RECORD)? {
                    continue;
                }
                return self.finish();
            };
            if !record.is_known() {
                let offset = self.input.offset;
                if offset == 0 || !self.skip_to_record::<BIG>()? {
                    self.ending = Some(StreamEnding::Damaged { offset, magic: record.magic });
                    return Ok(());
                }
                continue;
            }
            let record_bytes = fixed + usize::from(record.pdu_len);
            if !self.input.require(record_bytes)? {
                return self.finish();
            }
            let pdu = &self.input.take(record_bytes)[fixed..];
            if !record.is_note() {
                self.irregularities.merge(&self.previous.check(&record));
                let mut event = record.event(pdu);
                if event.rwbs.has(Rwbs::PASSTHROUGH) && !pdu.is_empty() {
                    keep_payload(&mut event, pdu, &mut block.pdu);
                }
                block.events.push(event);
                continue;
            }
            match record.action & 0xffff {
                NOTE_PROCESS => block.names.push((record.pid, unpadded(&pdu[..pdu.len().min(16)]).to_vec())),
                NOTE_TIMESTAMP if pdu.len() == 8 && self.timestamp.is_none() => {
                    self.timestamp = Some((record.time, unix_ns::<BIG>(pdu)));
                }
                NOTE_MESSAGE => {
                    let mut event = record.event(&[]);
                    keep_payload(&mut event, pdu, &mut block.pdu);
                    block.events.push(event);
                }
                _ => self.messages += 1,
            }
        }
        Ok(())
    }

    /// Skips bytes up to the next plausible record; false if there is none.
    fn skip_to_record<const BIG: bool>(&mut self) -> Result<bool> {
        let from = self.input.offset;
        let magics = [MAGIC, WIDE_MAGIC].map(|magic| if BIG { magic.to_be_bytes() } else { magic.to_le_bytes() });
        loop {
            self.input.take(1);
            let buffered = self.input.bytes();
            let position = buffered.windows(4).position(|bytes| magics.iter().any(|magic| bytes == magic));
            let skipped = position.unwrap_or((buffered.len() + 1).saturating_sub(4));
            self.input.take(skipped);
            if !self.input.require(RECORD)? {
                return Ok(false);
            }
            if position.is_some() && self.is_plausible::<BIG>()? {
                break;
            }
        }
        if self.skipped.places == 0 {
            self.skipped.offset = from;
        }
        self.skipped.bytes += self.input.offset - from;
        self.skipped.places += 1;
        Ok(true)
    }

    /// Whether the buffer begins with a record of about the previous one's time, with another record or nothing behind.
    fn is_plausible<const BIG: bool>(&mut self) -> Result<bool> {
        self.input.require(WIDE_RECORD)?;
        let Some((record, fixed)) = Record::first::<BIG>(self.input.bytes()) else { return Ok(false) };
        if !record.is_note() && record.time.abs_diff(self.previous.time) > DAY {
            return Ok(false);
        }
        let record_bytes = fixed + usize::from(record.pdu_len);
        if !self.input.require(record_bytes + RECORD)? {
            return Ok(self.input.bytes().len() == record_bytes);
        }
        let next = self.input.bytes()[record_bytes..].first_chunk().map(Record::decode::<BIG, RECORD>);
        Ok(next.is_some_and(|next| next.is_known()))
    }

    /// Whether the buffer begins with a record of protocol 8.
    fn next_is_wide<const BIG: bool>(&self) -> bool {
        let magic = self.input.bytes().first_chunk().copied().unwrap_or_default();
        WIDE_MAGIC == if BIG { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) }
    }

    /// Decodes events of one protocol without payloads at the front of the buffer; most events have none.
    fn decode_plain<const BIG: bool, const SIZE: usize>(&mut self, magic: u32, block: &mut EventBlock, limit: usize) {
        let buffered = self.input.bytes();
        let mut remaining = buffered;
        let mut previous = self.previous;
        let mut irregularities = Irregularities::default();
        let room = limit - block.events.len();
        block.events.extend(
            std::iter::from_fn(|| {
                let (raw, behind) = remaining.split_first_chunk::<SIZE>()?;
                let record = Record::decode::<BIG, SIZE>(raw);
                if record.magic != magic || record.pdu_len != 0 || record.is_note() {
                    return None;
                }
                remaining = behind;
                if previous.needs_check(&record) {
                    irregularities.merge(&previous.check(&record));
                } else {
                    previous = PreviousRecord::of(&record);
                }
                Some(record.event(&[]))
            })
            .take(room),
        );
        self.input.take(buffered.len() - remaining.len());
        self.previous = previous;
        self.irregularities.merge(&irregularities);
    }

    fn finish(&mut self) -> Result<()> {
        let (offset, left) = (self.input.offset, self.input.bytes().len());
        self.ending = Some(if left == 0 { StreamEnding::Clean } else { StreamEnding::Cut { offset, left } });
        Ok(())
    }
}

/// The time of a time stamp note: seconds, then ns.
fn unix_ns<const BIG: bool>(pdu: &[u8]) -> u64 {
    let word = |at: usize| {
        let v = [pdu[at], pdu[at + 1], pdu[at + 2], pdu[at + 3]];
        u64::from(if BIG { u32::from_be_bytes(v) } else { u32::from_le_bytes(v) })
    };
    word(0) * 1_000_000_000 + word(4)
}

fn keep_payload(event: &mut Event, pdu: &[u8], all: &mut Vec<u8>) {
    event.pdu_start = all.len() as u32;
    event.pdu_len = pdu.len() as u16;
    all.extend_from_slice(pdu);
}
