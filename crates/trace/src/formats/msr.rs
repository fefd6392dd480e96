//! MSR Cambridge (SNIA, 2008): one line for each request, times in 100 ns since 1601 (Windows file time).

use super::fields::Fields;
use super::row_source::{ReadContext, RequestRow};
use super::text::{Expected, ParsedLine, RowParser, end, open, require, sniff};
use super::{Format, row_source::NO_RESPONSE};
use crate::event::{Rwbs, SECTOR};
use crate::source::Capabilities;

pub const FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    capabilities: Capabilities { completions: true, ..Capabilities::requests(100) },
    sniff: sniff::<Msr>,
    reader: open::<Msr>,
};

#[derive(Default)]
struct Msr;

impl RowParser for Msr {
    const COLUMNS: &'static str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    const EPOCH: Option<u64> = Some(11_644_473_600 * 1_000_000_000);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedLine, Expected> {
        let mut fields = Fields::new(line);
        let time = fields.number().and_then(|t| t.checked_mul(100)).zip(fields.byte(b','));
        let (time, ()) = require(time, "column 1: Timestamp in 100 ns since 1601")?;
        let from = fields.remaining();
        let host = fields.until(b',').len();
        require(fields.number(), "column 3: DiskNumber, a whole number")?;
        let disk = &from[..from.len() - fields.remaining().len()];
        if host == 0 || host > 255 {
            return Err("column 2: Hostname");
        }
        require(fields.byte(b','), "column 3: DiskNumber, a whole number")?;
        let rwbs = read_or_write(fields.until(b',')).ok_or("column 4: Type, Read or Write")?;
        let offset = require(fields.number().zip(fields.byte(b',')), "column 5: Offset in bytes")?.0;
        let bytes = require(fields.number32().zip(fields.byte(b',')), "column 6: Size in bytes, below 4 GiB")?.0;
        let response = require(fields.number().and_then(|t| t.checked_mul(100)), "column 7: ResponseTime in 100 ns")?;
        end(&fields)?;
        let (response, sector) = (response.min(NO_RESPONSE - 1), offset / SECTOR);
        let device = context.devices.number(disk, |name| name.replace(',', "_"));
        Ok(ParsedLine::Row(RequestRow { time, response, sector, bytes, device, pid: 0, rwbs }))
    }
}

/// `Read`, `W`, … in upper or lower case.
pub fn read_or_write(word: &[u8]) -> Option<Rwbs> {
    match word {
        b"R" | b"r" => Some(Rwbs::READ),
        b"W" | b"w" => Some(Rwbs::WRITE),
        _ if word.eq_ignore_ascii_case(b"read") => Some(Rwbs::READ),
        _ if word.eq_ignore_ascii_case(b"write") => Some(Rwbs::WRITE),
        _ => None,
    }
}
