//! The records of blktrace binary files: `struct blk_io_trace` (include/uapi/linux/blktrace_api.h, 6.1), protocol 7:
//!
//! | offset | field | | offset | field |
//! | --- | --- | --- | --- | --- |
//! | 0 | u32 magic | | 28 | u32 action |
//! | 4 | u32 sequence | | 32 | u32 pid |
//! | 8 | u64 time, ns | | 36 | u32 device |
//! | 16 | u64 sector | | 40 | u32 cpu |
//! | 24 | u32 bytes | | 44, 46 | u16 error, u16 pdu_len |
//!
//! and `struct blk_io_trace2` (the same file, 6.19), protocol 8, with wider categories for zoned devices. It is as above
//! up to offset 28, then:
//!
//! | offset | field | | offset | field |
//! | --- | --- | --- | --- | --- |
//! | 28 | u32 pid | | 44 | u32 cpu |
//! | 32 | u64 action | | 48, 50 | u16 error, u16 pdu_len |
//! | 40 | u32 device | | 52 | 12 bytes of padding |
//!
//! Records are in the recording machine's byte order; the contents of remap, split and unplug payloads
//! are big-endian always.

use crate::event::{Action, DeviceId, Event, Rwbs};

pub const RECORD: usize = 48; // Size of the fixed part
pub const MAGIC: u32 = 0x6561_7407; // `BLK_IO_TRACE_MAGIC | version 7`
pub const WIDE_RECORD: usize = 64; // Size of the fixed part in protocol 8
pub const WIDE_MAGIC: u32 = 0x6561_7408; // `BLK_IO_TRACE_MAGIC | version 8`
pub const MAGIC_MASK: u32 = 0xffff_ff00; // The part of the magic that does not change with the version
pub const NOTE_PROCESS: u32 = 0; // `BLK_TN_*`: the kinds of notes
pub const NOTE_TIMESTAMP: u32 = 1; // `BLK_TN_TIMESTAMP`
pub const NOTE_MESSAGE: u32 = 2; // `BLK_TN_MESSAGE`
pub const CGROUP_BIT: u32 = 0x100; // `__BLK_TA_CGROUP` / `__BLK_TN_CGROUP`: a cgroup id precedes the payload

/// Byte order of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Little, // Least significant byte first (x86, ARM)
    Big,    // Most significant byte first (s390x, old POWER)
}

impl ByteOrder {
    /// Recognises the byte order from a file's first four bytes.
    pub fn of(bytes: &[u8]) -> Option<ByteOrder> {
        let first: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        if u32::from_le_bytes(first) & MAGIC_MASK == MAGIC & MAGIC_MASK {
            Some(ByteOrder::Little)
        } else if u32::from_be_bytes(first) & MAGIC_MASK == MAGIC & MAGIC_MASK {
            Some(ByteOrder::Big)
        } else {
            None
        }
    }
}

/// The fixed part, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    pub magic: u32,    // Magic and version
    pub sequence: u32, // Sequence number within the CPU
    pub time: u64,     // Nanoseconds, on the recording machine's monotonic clock
    pub sector: u64,   // First sector
    pub bytes: u32,    // Length in bytes
    pub action: u32,   // Category bits above, code below
    pub pid: u32,      // Process id
    pub device: u32,   // `major << 20 | minor`
    pub cpu: u32,      // Processor
    pub error: u16,    // Error of a completion
    pub pdu_len: u16,  // Bytes that follow the record
}

impl Record {
    /// Decodes a fixed part of [`RECORD`] or [`WIDE_RECORD`] bytes, in the byte order `BIG`.
    #[inline(always)]
    pub fn decode<const BIG: bool, const SIZE: usize>(b: &[u8; SIZE]) -> Record {
        let u16_at = |at: usize| {
            let v = [b[at], b[at + 1]];
            if BIG { u16::from_be_bytes(v) } else { u16::from_le_bytes(v) }
        };
        let u32_at = |at: usize| {
            let v = [b[at], b[at + 1], b[at + 2], b[at + 3]];
            if BIG { u32::from_be_bytes(v) } else { u32::from_le_bytes(v) }
        };
        let u64_at = |at: usize| {
            let (a, z) = (u64::from(u32_at(at)), u64::from(u32_at(at + 4)));
            if BIG { a << 32 | z } else { z << 32 | a }
        };
        let wide = SIZE == WIDE_RECORD;
        let (device, action) = match wide {
            // Above are the categories of zoned devices. Zone appends are also writes, and so are most commands to zones.
            true => (40, u64_at(32) as u32),
            false => (36, u32_at(28)),
        };
        Record {
            magic: u32_at(0),
            sequence: u32_at(4),
            time: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action,
            pid: u32_at(if wide { 28 } else { 32 }),
            device: u32_at(device),
            cpu: u32_at(device + 4),
            error: u16_at(device + 8),
            pdu_len: u16_at(device + 10),
        }
    }

    /// Decodes the fixed part at the front of `bytes`, and returns its size with it; `None` if more bytes are needed.
    pub fn first<const BIG: bool>(bytes: &[u8]) -> Option<(Record, usize)> {
        let record = Record::decode::<BIG, RECORD>(bytes.first_chunk()?);
        if record.magic != WIDE_MAGIC {
            return Some((record, RECORD));
        }
        Some((Record::decode::<BIG, WIDE_RECORD>(bytes.first_chunk()?), WIDE_RECORD))
    }

    /// Whether the magic is that of a protocol that can be read.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.magic == MAGIC || self.magic == WIDE_MAGIC
    }

    /// The record in little-endian bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.magic, self.sequence].map(u32::to_le_bytes).concat();
        bytes.extend([self.time, self.sector].map(u64::to_le_bytes).as_flattened());
        bytes.extend([self.bytes, self.action, self.pid, self.device, self.cpu].map(u32::to_le_bytes).as_flattened());
        bytes.extend([self.error, self.pdu_len].map(u16::to_le_bytes).as_flattened());
        bytes
    }

    /// The category bits.
    pub fn rwbs(&self) -> Rwbs {
        Rwbs((self.action >> 16) as u16)
    }

    /// True for notes (process names, time stamps, messages).
    pub fn is_note(&self) -> bool {
        self.rwbs().has(Rwbs::NOTIFY)
    }

    /// The record as an event, its payload decoded but not kept. Notes other than messages are not events.
    #[inline(always)]
    pub fn event(&self, pdu: &[u8]) -> Event {
        let code = (self.action & 0xffff & !CGROUP_BIT) as u8;
        let mut event = Event {
            time: self.time,
            sector: self.sector,
            bytes: self.bytes,
            device: DeviceId(self.device),
            sequence: self.sequence,
            pid: self.pid,
            cpu: self.cpu as u16,
            rwbs: self.rwbs(),
            error: self.error,
            action: if self.is_note() { Action::MESSAGE } else { Action(code) },
            ..Event::default()
        };
        if !pdu.is_empty() {
            event.read_payload(pdu);
        }
        event
    }
}

impl Event {
    fn read_payload(&mut self, pdu: &[u8]) {
        match self.action {
            // struct blk_io_trace_remap: device_from, device_to, sector_from.
            Action::REMAP if pdu.len() >= 16 => {
                self.arg_device = DeviceId(be32(&pdu[0..4]));
                self.target_device = DeviceId(be32(&pdu[4..8]));
                self.arg_sector = be64(&pdu[8..16]);
            }
            Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER if pdu.len() >= 8 => {
                self.arg_sector = be64(&pdu[0..8]);
            }
            _ => {}
        }
    }

    /// The payload of this event's blktrace record, if it can be derived from the event's fields.
    pub fn payload(&self) -> Vec<u8> {
        match self.action {
            Action::REMAP => {
                let mut pdu = self.arg_device.0.to_be_bytes().to_vec();
                pdu.extend(self.target_device.0.to_be_bytes());
                pdu.extend(self.arg_sector.to_be_bytes());
                pdu
            }
            Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER => self.arg_sector.to_be_bytes().to_vec(),
            _ => Vec::new(),
        }
    }
}

fn be32(b: &[u8]) -> u32 {
    u32::from_be_bytes([b[0], b[1], b[2], b[3]])
}

fn be64(b: &[u8]) -> u64 {
    u64::from(be32(b)) << 32 | u64::from(be32(&b[4..]))
}

/// The bytes in a fixed, NUL-padded field.
pub fn unpadded(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
pub mod tests;
