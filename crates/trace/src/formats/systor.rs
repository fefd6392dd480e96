//! Systor '17 traces (SNIA; enterprise VDI, 2016): one line for each request, times in seconds since 1970.

use super::Format;
use super::fields::Fields;
use super::msr::read_or_write;
use super::row_source::{NO_RESPONSE, ReadContext, RequestRow};
use super::text::{Expected, ParsedLine, RowParser, end, open, require, sniff};
use crate::event::SECTOR;
use crate::source::Capabilities;

pub const FORMAT: Format = Format {
    name: "systor17",
    about: "Systor '17 CSV: Timestamp,Response,IOType,LUN,Offset,Size",
    capabilities: Capabilities { completions: true, ..Capabilities::requests(100) },
    sniff: sniff::<Systor>,
    reader: open::<Systor>,
};

#[derive(Default)]
struct Systor;

impl RowParser for Systor {
    const COLUMNS: &'static str = "Timestamp,Response,IOType,LUN,Offset,Size";
    const EPOCH: Option<u64> = Some(0);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedLine, Expected> {
        let mut fields = Fields::new(line);
        let time = fields.decimal(9).zip(fields.byte(b','));
        let time = require(time, "column 1: Timestamp in seconds")?.0;
        let response = if fields.remaining().first() == Some(&b',') {
            Some(NO_RESPONSE) // not recorded
        } else {
            fields.decimal(9)
        };
        let response = response.zip(fields.byte(b','));
        let response = require(response, "column 2: Response in seconds")?.0;
        let kind = fields.until(b',');
        let from = fields.remaining();
        require(fields.number(), "column 4: LUN, a whole number")?;
        let lun = &from[..from.len() - fields.remaining().len()];
        require(fields.byte(b','), "column 4: LUN, a whole number")?;
        if kind.is_empty() {
            return Ok(ParsedLine::Other); // neither read nor write
        }
        let rwbs = require(read_or_write(kind), "column 3: IOType, R or W")?;
        let offset = require(fields.number().zip(fields.byte(b',')), "column 5: Offset in bytes")?.0;
        let bytes = require(fields.number32(), "column 6: Size in bytes, below 4 GiB")?;
        end(&fields)?;
        let device = context.devices.number(lun, |name| format!("lun{name}"));
        Ok(ParsedLine::Row(RequestRow { time, response, sector: offset / SECTOR, bytes, device, pid: 0, rwbs }))
    }
}
