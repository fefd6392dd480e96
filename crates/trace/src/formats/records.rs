//! Files of binary records of one size, without a header.

use super::row_source::{ReadContext, RequestRow, RowFeed};
use super::text::ParsedEntry;
use crate::error::{Result, TraceError};
use crate::event::DeviceId;
use crate::input_buffer::InputBuffer;
use std::io::Read;

const BUFFER: usize = 256 << 10;

/// Decodes one record; gets exactly the record's bytes and the device of the row. A command that is no read, write,
/// discard or flush is `ParsedEntry::Other`; `None` is not a record of this format.
pub type DecodeRecord = fn(&[u8], DeviceId) -> Option<ParsedEntry>;

/// A binary file's rows.
pub struct RecordFeed {
    input: InputBuffer,
    size: usize,
    decode: DecodeRecord,
    device: Option<DeviceId>,
    rows: u64,
    other: u64,
    nonsense: u64,
}

impl RecordFeed {
    /// Records of `size` bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>, size: usize, decode: DecodeRecord) -> RecordFeed {
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

impl RowFeed for RecordFeed {
    fn read(&mut self, rows: &mut Vec<RequestRow>, limit: usize, context: &mut ReadContext) -> Result<()> {
        let device = *self.device.get_or_insert_with(|| device_of_file(&self.input.path, context));
        while rows.len() < limit {
            if !self.input.require(self.size)? {
                return self.finish(context);
            }
            match (self.decode)(self.input.take(self.size), device) {
                Some(ParsedEntry::Row(row)) => {
                    self.rows += 1;
                    rows.push(row);
                }
                Some(ParsedEntry::Other) => self.other += 1,
                None => self.nonsense += 1,
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
