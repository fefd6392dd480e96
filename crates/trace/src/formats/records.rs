//! Files of binary records of one size, without a header.

use super::Format;
use super::row_source::{NO_RESPONSE, ReadContext, RequestRow, RowFeed, RowSource};
use super::text::ParsedEntry;
use crate::error::{Result, TraceError};
use crate::event::{DeviceId, Rwbs};
use crate::input_buffer::InputBuffer;
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};
use std::io::Read;

const BUFFER: usize = 256 << 10;

/// A binary file's rows. `decode` gets exactly a record's bytes and the device of the row. A command that is no read, write,
/// discard or flush is `ParsedEntry::Other`; `None` is not a record of this format.
pub struct RecordFeed<D> {
    input: InputBuffer,
    size: usize,
    decode: D,
    device: Option<DeviceId>,
    rows: u64,
    other: u64,
    nonsense: u64,
}

impl<D> RecordFeed<D> {
    /// Records of `size` bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>, size: usize, decode: D) -> RecordFeed<D> {
        let input = InputBuffer::new(path, source, BUFFER);
        RecordFeed { input, size, decode, device: None, rows: 0, other: 0, nonsense: 0 }
    }

    fn finish(&self, context: &mut ReadContext) -> Result<()> {
        let left = self.input.bytes().len();
        if self.rows + self.other == 0 {
            let (bytes, size) = (self.input.offset + left as u64, self.size);
            let problem = format!("no valid record in {bytes} bytes: expected records of {size} bytes");
            return Err(TraceError::malformed(&self.input.path, "offset 0", problem));
        }
        let mut warn = |message: String| context.info.warn(&self.input.path, message);
        if self.other > 0 {
            warn(format!("{} commands are not reads, writes, discards or flushes; skipped", self.other));
        }
        if self.nonsense > 0 {
            warn(format!("{} records are not valid; skipped", self.nonsense));
        }
        if left > 0 {
            warn(format!(
                "cut off at offset {}: {left} bytes left, expected {}; read up to there",
                self.input.offset, self.size
            ));
        }
        Ok(())
    }
}

impl<D: Fn(&[u8], DeviceId) -> Option<ParsedEntry> + Send + 'static> RowFeed for RecordFeed<D> {
    fn read(&mut self, rows: &mut Vec<RequestRow>, limit: usize, context: &mut ReadContext) -> Result<()> {
        let device = *self.device.get_or_insert_with(|| device_of_file(&self.input.path, context));
        while rows.len() < limit {
            if !self.input.require(self.size)? {
                return self.finish(context);
            }
            let count = (self.input.bytes().len() / self.size).min(limit - rows.len());
            for record in self.input.take(count * self.size).chunks_exact(self.size) {
                match (self.decode)(record, device) {
                    Some(ParsedEntry::Row(row)) => {
                        self.rows += 1;
                        rows.push(row);
                    }
                    Some(ParsedEntry::Other) => self.other += 1,
                    None => self.nonsense += 1,
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.input.offset
    }
}

/// The device of a file, named after the file without directories and suffix.
pub fn device_of_file(path: &str, context: &mut ReadContext) -> DeviceId {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file).to_owned();
    context.devices.number(path.as_bytes(), |_| stem)
}

/// A little-endian number of a record; `at` must be within it.
pub fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// See [`u16_at`].
pub fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from(u16_at(record, at)) | u32::from(u16_at(record, at + 2)) << 16
}

/// See [`u16_at`].
pub fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32
}

// CloudPhysics vSCSI traces (2015), versions 1 and 2, little-endian.
//
// | version | bytes | record |
// | --- | --- | --- |
// | 1 | 32 | u32 sn, u32 len, u32 nSG, u16 cmd, u16 ver, u64 lbn, u64 ts |
// | 2 | 40 | u16 cmd, u16 ver, u32 sn, u32 len, u32 nSG, u64 lbn, u64 ts, u64 rt |
//
// `len` is in bytes, `lbn` in sectors of 512 bytes, `ts` and `rt` (response time) in microseconds; the
// high byte of `ver` is the version (libCacheSim, `traceReader/customizedReader/vscsi.h`).

/// CloudPhysics vSCSI binary, version 1 (32-byte records) or 2 (40-byte records).
pub const VSCSI: Format = Format {
    name: "vscsi",
    capabilities: Capabilities { completions: true, ..Capabilities::requests(1_000) },
    sniff: |head| version_of(head).is_some(),
    reader: open_vscsi,
};

struct VscsiVersion {
    number: u16,
    size: usize,
    len: usize,
    cmd: usize,
}

static VERSIONS: [VscsiVersion; 2] =
    [VscsiVersion { number: 1, size: 32, len: 4, cmd: 12 }, VscsiVersion { number: 2, size: 40, len: 8, cmd: 0 }];

impl VscsiVersion {
    fn decode(&self, record: &[u8], device: DeviceId) -> Option<ParsedEntry> {
        if u16_at(record, self.cmd + 2) >> 8 != self.number {
            return None;
        }
        let time = u64_at(record, 24).checked_mul(1000)?;
        let Some(rwbs) = rwbs_of(u16_at(record, self.cmd)) else { return Some(ParsedEntry::Other) };
        // The response time of a request that never completed is not valid.
        let response = if self.number == 2 { u64_at(record, 32).checked_mul(1000) } else { None };
        let response = response.unwrap_or(NO_RESPONSE);
        let is_flush = rwbs.has(Rwbs::FLUSH);
        let bytes = if is_flush { 0 } else { u32_at(record, self.len) };
        let sector = u64_at(record, 16);
        Some(ParsedEntry::Row(RequestRow { time, response, sector, bytes, device, rwbs, ..RequestRow::default() }))
    }

    /// Whether the first records are of this version, with known commands, plausible lengths and rising times.
    fn fits(&self, head: &[u8]) -> bool {
        let mut last = 0;
        let mut known = 0;
        let mut count = 0;
        for record in head.chunks_exact(self.size).take(64) {
            let (len, ts) = (u32_at(record, self.len), u64_at(record, 24));
            let sane = u16_at(record, self.cmd + 2) >> 8 == self.number
                && u16_at(record, self.cmd) < 256
                && len <= 1 << 28
                && ts < 1 << 56
                && ts.saturating_add(1_000_000) >= last;
            if !sane {
                return false;
            }
            last = ts;
            count += 1;
            known += usize::from(rwbs_of(u16_at(record, self.cmd)).is_some());
        }
        count >= 2 && known * 2 > count
    }
}

fn version_of(head: &[u8]) -> Option<&'static VscsiVersion> {
    VERSIONS.iter().find(|version| version.fits(head))
}

/// SCSI operation codes (SPC-4, SBC-3).
fn rwbs_of(cmd: u16) -> Option<Rwbs> {
    match cmd {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Rwbs::READ),
        // Also write-and-verify and write-same.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Rwbs::WRITE),
        0x42 => Some(Rwbs::DISCARD.with(Rwbs::WRITE)),
        0x35 | 0x91 => Some(Rwbs::FLUSH.with(Rwbs::WRITE)),
        _ => None,
    }
}

fn open_vscsi(mut info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    info.capabilities.completions = false;
    RowSource::open(info, Some(0), inputs, |info, file| {
        let version = version_of(&file.head).ok_or_else(|| {
            let expected =
                "expected vSCSI records: two or more of 32 bytes with version 1 or of 40 bytes with version 2";
            TraceError::malformed(&file.path, "offset 0", expected)
        })?;
        // Only version 2 has response times.
        info.capabilities.completions |= version.number == 2;
        let decode = |record: &[u8], device| version.decode(record, device);
        Ok(RecordFeed::new(file.path, file.reader, version.size, decode))
    })
}

// libCacheSim's oracleGeneral: little-endian records of 24 bytes, u32 time (s), u64 object, u32 size (bytes),
// i64 next access (number of the request that next touches the object, -1 or the largest number for none).
//
// In a block trace converted to it, the object is the block's number, which is read as the first sector. The format
// does not distinguish reads from writes: every request is a read.

/// LibCacheSim oracleGeneral binary (24-byte records); every request is taken for a read.
pub const ORACLE: Format = Format {
    name: "oracle-general",
    capabilities: Capabilities { directions: false, ..Capabilities::requests(1_000_000_000) },
    sniff: sniff_oracle,
    reader: |info, inputs| {
        RowSource::open(info, Some(0), inputs, |_, file| {
            Ok(RecordFeed::new(file.path, file.reader, ORACLE_SIZE, decode_oracle))
        })
    },
};

const ORACLE_SIZE: usize = 24;

fn decode_oracle(record: &[u8], device: DeviceId) -> Option<ParsedEntry> {
    let record: &[u8; ORACLE_SIZE] = record.try_into().ok()?;
    let time = u64::from(u32_at(record, 0)) * 1_000_000_000;
    let (sector, bytes) = (u64_at(record, 4), u32_at(record, 12));
    Some(ParsedEntry::Row(RequestRow { time, sector, bytes, device, ..RequestRow::default() }))
}

/// Whether times never fall, sizes are plausible, and every next access is later than its record.
fn sniff_oracle(head: &[u8]) -> bool {
    let mut last = 0;
    let mut count = 0;
    for (number, record) in head.chunks_exact(ORACLE_SIZE).enumerate() {
        let (time, size) = (u32_at(record, 0), u32_at(record, 12));
        let next = u64_at(record, 16) as i64;
        let ahead = next == -1 || next == i64::MAX || (next > number as i64 && next < 1 << 40);
        if time < last || size == 0 || size > 1 << 30 || !ahead {
            return false;
        }
        last = time;
        count += 1;
    }
    count >= 3
}
