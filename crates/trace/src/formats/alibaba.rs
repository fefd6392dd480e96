//! Alibaba Cloud block traces (2020): one line for each request, times in microseconds since 1970.

use super::Format;
use super::fields::Fields;
use super::msr::read_or_write;
use super::row_source::{ReadContext, RequestRow};
use super::text::{Expected, ParsedLine, RowParser, end, open, require, sniff};
use crate::event::SECTOR;
use crate::source::Capabilities;

pub const FORMAT: Format = Format {
    name: "alibaba",
    about: "Alibaba Cloud CSV: device_id,opcode,offset,length,timestamp",
    capabilities: Capabilities::requests(1_000),
    sniff: sniff::<Alibaba>,
    reader: open::<Alibaba>,
};

#[derive(Default)]
struct Alibaba;

impl RowParser for Alibaba {
    const COLUMNS: &'static str = "device_id,opcode,offset,length,timestamp";
    const EPOCH: Option<u64> = Some(0);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedLine, Expected> {
        let mut fields = Fields::new(line);
        require(fields.number(), "column 1: device_id, a whole number")?;
        let volume = &line[..line.len() - fields.remaining().len()];
        require(fields.byte(b','), "column 1: device_id, a whole number")?;
        let rwbs = require(read_or_write(fields.until(b',')), "column 2: opcode, R or W")?;
        let offset = require(fields.number().zip(fields.byte(b',')), "column 3: offset in bytes")?.0;
        let bytes = fields.number32().zip(fields.byte(b','));
        let bytes = require(bytes, "column 4: length in bytes, below 4 GiB")?.0;
        let time = fields.number().and_then(|t| t.checked_mul(1000));
        let time = require(time, "column 5: timestamp in microseconds")?;
        end(&fields)?;
        let device = context.devices.number(volume, |name| format!("vol{name}"));
        Ok(ParsedLine::Row(RequestRow { time, sector: offset / SECTOR, bytes, device, rwbs, ..RequestRow::default() }))
    }
}
