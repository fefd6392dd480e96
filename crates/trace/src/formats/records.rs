//! Files of binary records of one size, without a header.

use super::row_source::{ReadContext, RequestRow, RowFeed};
use crate::error::{Result, TraceError};
use crate::event::DeviceId;
use crate::interrupt;
use std::io::{ErrorKind, Read};

const BUFFER: usize = 256 << 10;

pub enum DecodedRecord {
    Row(RequestRow), // A request
    Other,           // Another command: not a read, write, discard or flush
    Nonsense,        // Not a record of this format
}

/// Decodes one record; gets exactly the record's bytes and the device of the row.
pub type DecodeRecord = fn(&[u8], DeviceId) -> DecodedRecord;

/// A binary file's rows.
pub struct RecordFeed {
    path: String,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    bytes: u64,
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
        RecordFeed {
            path,
            source,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            bytes: 0,
            size,
            decode,
            device: None,
            rows: 0,
            other: 0,
            nonsense: 0,
        }
    }

    /// Reads until the buffer has a complete record; false at the end of the file.
    fn fill_record(&mut self) -> Result<bool> {
        while self.end - self.start < self.size {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(e) if e.kind() == ErrorKind::Interrupted && !interrupt::requested() => {}
                Err(e) => return Err(TraceError::io(&self.path, e)),
            }
        }
        Ok(true)
    }

    fn finish(&self, context: &mut ReadContext) -> Result<()> {
        if self.rows + self.other == 0 {
            return Err(TraceError::Malformed {
                path: self.path.clone(),
                place: "offset 0".into(),
                problem: format!(
                    "no valid record in {} bytes: expected records of {} bytes",
                    self.bytes + (self.end - self.start) as u64,
                    self.size
                ),
            });
        }
        let mut warn = |message: String| context.info.warn(&self.path, message);
        if self.other > 0 {
            warn(format!("{} commands are not reads, writes, discards or flushes; skipped", self.other));
        }
        if self.nonsense > 0 {
            warn(format!("{} records are not valid; skipped", self.nonsense));
        }
        let left = self.end - self.start;
        if left > 0 {
            warn(format!(
                "cut off at offset {}: {left} bytes left, expected {}; read up to there",
                self.bytes, self.size
            ));
        }
        Ok(())
    }
}

impl RowFeed for RecordFeed {
    fn read(&mut self, rows: &mut Vec<RequestRow>, limit: usize, context: &mut ReadContext) -> Result<()> {
        let device = match self.device {
            Some(device) => device,
            None => *self.device.insert(device_of_file(&self.path, context)),
        };
        while rows.len() < limit {
            if self.end - self.start < self.size && !self.fill_record()? {
                return self.finish(context);
            }
            let record = &self.buffer[self.start..self.start + self.size];
            self.start += self.size;
            self.bytes += self.size as u64;
            match (self.decode)(record, device) {
                DecodedRecord::Row(row) => {
                    self.rows += 1;
                    rows.push(row);
                }
                DecodedRecord::Other => self.other += 1,
                DecodedRecord::Nonsense => self.nonsense += 1,
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
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
