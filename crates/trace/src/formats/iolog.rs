//! fio iolog, versions 2 and 3 (fio's iolog.c, `read_iolog`; HOWTO, "Trace file format").
//!
//! Version 3 puts a time before each line: microseconds since the job began (fio 3.33 and later; documented as
//! milliseconds before). Version 2 has no times, but `wait` lines: fio's code sleeps until that many **milliseconds**
//! after its start, in contrast to its documentation. Measured with fio 3.33.

use super::Format;
use super::fields::{Fields, whole_number};
use super::row_source::{ReadContext, RequestRow};
use super::text::{Expected, ParsedEntry, RowParser, open};
use crate::event::{Rwbs, SECTOR};
use crate::source::Capabilities;

/// Fio iolog, version 2 or 3 (what write_iolog writes and read_iolog takes).
pub const FORMAT: Format = Format {
    name: "iolog",
    capabilities: Capabilities::requests(1_000),
    sniff: |head| version_of(head.split(|&b| b == b'\n').next().unwrap_or(head)).is_some(),
    reader: open::<IoLog>,
};

/// A log that is being read.
#[derive(Default)]
struct IoLog {
    version: u8,
    waited: u64, // Version 2: the time after all waits, ns
}

fn version_of(line: &[u8]) -> Option<u8> {
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

impl RowParser for IoLog {
    const COLUMNS: &'static str = "filename action offset length, after the line \"fio version 2 iolog\"";
    const EPOCH: Option<u64> = None;

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        if self.version == 0 {
            self.version = version_of(line).ok_or("\"fio version 2 iolog\" or \"fio version 3 iolog\"")?;
            if self.version == 2 {
                context.info.capabilities.clock_ns = None;
            }
            return Ok(ParsedEntry::Other);
        }
        let mut fields = Fields::new(line);
        fields.spaces();
        let mut time = self.waited;
        if self.version == 3 {
            let micros = fields.number().zip(fields.byte(b' '));
            time = micros.and_then(|(t, ())| t.checked_mul(1000)).ok_or("a time in microseconds, then a space")?;
        }
        let name = fields.word();
        let action = fields.word();
        if name.is_empty() {
            return Err("a file name and an action");
        }
        let rwbs = match action {
            b"read" => Rwbs::READ,
            b"write" => Rwbs::WRITE,
            b"trim" => Rwbs::DISCARD.with(Rwbs::WRITE),
            b"sync" | b"datasync" => Rwbs::FLUSH.with(Rwbs::WRITE).with(Rwbs::SYNC),
            b"wait" if self.version == 3 => return Ok(ParsedEntry::Other), // fio ignores it
            b"wait" => {
                let until = whole_number(fields.word()).and_then(|ms| ms.checked_mul(1_000_000));
                self.waited = self.waited.max(until.ok_or("a time to wait for, in ms")?);
                return Ok(ParsedEntry::Other);
            }
            b"add" | b"open" | b"close" if fields.is_done() => {
                context.devices.number(name, str::to_owned);
                return Ok(ParsedEntry::Other);
            }
            _ => return Err("an action: read, write, sync, datasync, trim, wait, add, open or close"),
        };
        let device = context.devices.number(name, str::to_owned);
        let is_sync = rwbs.has(Rwbs::FLUSH);
        let offset = whole_number(fields.word()).ok_or("an offset in bytes after the action")?;
        let bytes = whole_number(fields.word()).and_then(|bytes| u32::try_from(bytes).ok());
        let bytes = bytes.ok_or("a length in bytes, below 4 GiB, after the offset")?;
        if !fields.is_done() {
            return Err("the end of the line after the length");
        }
        let (sector, bytes) = if is_sync { (0, 0) } else { (offset / SECTOR, bytes) };
        Ok(ParsedEntry::Row(RequestRow { time, sector, bytes, device, rwbs, ..RequestRow::default() }))
    }
}
