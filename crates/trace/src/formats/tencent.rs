//! Tencent CBS block traces (2018): one line for each request, times in seconds since 1970, sectors of 512 bytes.

use super::Format;
use super::fields::Fields;
use super::row_source::{ReadContext, RequestRow};
use super::text::{Expected, ParsedLine, RowParser, end, open, require, sniff};
use crate::event::{Rwbs, SECTOR};
use crate::source::Capabilities;

pub const FORMAT: Format = Format {
    name: "tencent",
    about: "Tencent CBS CSV: Timestamp,Offset,Size,IOType,VolumeID",
    capabilities: Capabilities::requests(1_000_000_000),
    sniff: sniff::<Tencent>,
    reader: open::<Tencent>,
};

#[derive(Default)]
struct Tencent;

impl RowParser for Tencent {
    const COLUMNS: &'static str = "Timestamp,Offset,Size,IOType,VolumeID";
    const EPOCH: Option<u64> = Some(0);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedLine, Expected> {
        let mut fields = Fields::new(line);
        let time = fields.decimal(9).zip(fields.byte(b','));
        let time = require(time, "column 1: Timestamp in seconds")?.0;
        let sector = fields.number().zip(fields.byte(b','));
        let sector = require(sector, "column 2: Offset in sectors")?.0;
        let bytes =
            fields.number().and_then(|sectors| u32::try_from(sectors.checked_mul(SECTOR)?).ok()).zip(fields.byte(b','));
        let bytes = require(bytes, "column 3: Size in sectors, below 4 GiB")?.0;
        let rwbs = match fields.until(b',') {
            b"0" => Rwbs::READ,
            b"1" => Rwbs::WRITE,
            _ => return Err("column 4: IOType, 0 (read) or 1 (write)"),
        };
        let from = fields.remaining();
        require(fields.number(), "column 5: VolumeID, a whole number")?;
        let volume = &from[..from.len() - fields.remaining().len()];
        end(&fields)?;
        let device = context.devices.number(volume, |name| format!("vol{name}"));
        Ok(ParsedLine::Row(RequestRow { time, sector, bytes, device, rwbs, ..RequestRow::default() }))
    }
}
