//! Files of binary records of one size, without a header.

use super::table::{Context, Feed, Row};
use crate::error::{Result, TraceError};
use crate::event::DeviceId;
use crate::interrupt;
use std::io::{ErrorKind, Read};

const BUFFER: usize = 256 << 10;

/// What a record is.
pub enum Decoded {
    /// A request.
    Row(Row),
    /// A command that is neither read, write, discard nor flush.
    Other,
    /// Not a record of this format.
    Nonsense,
}

/// Decodes one record; gets exactly the record's bytes and the device to put it on.
pub type Decode = fn(&[u8], DeviceId) -> Decoded;

/// A binary file's rows.
pub struct Records {
    path: String,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    bytes: u64,
    size: usize,
    decode: Decode,
    device: Option<DeviceId>,
    rows: u64,
    other: u64,
    nonsense: u64,
}

impl Records {
    /// Records of `size` bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>, size: usize, decode: Decode) -> Records {
        Records {
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

    /// Reads until a record is whole; false at the end of the file.
    fn require(&mut self) -> Result<bool> {
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

    fn finish(&self, context: &mut Context) -> Result<()> {
        if self.rows + self.other == 0 {
            return Err(TraceError::Malformed {
                path: self.path.clone(),
                place: "offset 0".into(),
                problem: format!(
                    "no record that makes sense among {} bytes, expected records of {} bytes",
                    self.bytes + (self.end - self.start) as u64,
                    self.size
                ),
            });
        }
        let mut warn = |message: String| context.info.warn(&self.path, message);
        if self.other > 0 {
            warn(format!("{} commands are neither read, write, discard nor flush; left out", self.other));
        }
        if self.nonsense > 0 {
            warn(format!("{} records make no sense; left out", self.nonsense));
        }
        let left = self.end - self.start;
        if left > 0 {
            warn(format!(
                "cut off in mid-record at offset {}: {left} bytes left over, expected {}; read up to there",
                self.bytes, self.size
            ));
        }
        Ok(())
    }
}

impl Feed for Records {
    fn read(&mut self, rows: &mut Vec<Row>, limit: usize, context: &mut Context) -> Result<()> {
        let device = match self.device {
            Some(device) => device,
            None => *self.device.insert(device_of_file(&self.path, context)),
        };
        while rows.len() < limit {
            if self.end - self.start < self.size && !self.require()? {
                return self.finish(context);
            }
            let record = &self.buffer[self.start..self.start + self.size];
            self.start += self.size;
            self.bytes += self.size as u64;
            match (self.decode)(record, device) {
                Decoded::Row(row) => {
                    self.rows += 1;
                    rows.push(row);
                }
                Decoded::Other => self.other += 1,
                Decoded::Nonsense => self.nonsense += 1,
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The device that a whole file stands for, under the file's name without directories and suffix.
fn device_of_file(path: &str, context: &mut Context) -> DeviceId {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file).to_owned();
    context.devices.number(path.as_bytes(), |_| stem)
}

/// Little-endian numbers of a record; `at` is within it.
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
