//! Alibaba Cloud block traces (2020): one line a request, times in microseconds since 1970.

use super::Format;
use super::fields::Fields;
use super::msr::read_or_write;
use super::table::{Context, NO_RESPONSE, Row};
use super::text::{Expected, Parsed, Rows, end, need, open, sniff};
use crate::event::SECTOR;

pub const FORMAT: Format = Format {
    name: Alibaba::NAME,
    about: "Alibaba Cloud CSV: device_id,opcode,offset,length,timestamp",
    sniff: sniff::<Alibaba>,
    open: open::<Alibaba>,
};

#[derive(Default)]
struct Alibaba;

impl Rows for Alibaba {
    const NAME: &'static str = "alibaba";
    const COLUMNS: &'static str = "device_id,opcode,offset,length,timestamp";
    const EPOCH: Option<u64> = Some(0);

    fn parse(&mut self, line: &[u8], context: &mut Context) -> Result<Parsed, Expected> {
        let mut fields = Fields::new(line);
        need(fields.number(), "column 1: device_id, a whole number")?;
        let volume = &line[..line.len() - fields.rest().len()];
        need(fields.byte(b','), "column 1: device_id, a whole number")?;
        let rwbs = need(read_or_write(fields.until(b',')), "column 2: opcode, R or W")?;
        let offset = need(fields.number().zip(fields.byte(b',')), "column 3: offset in bytes")?.0;
        let bytes = fields.number32().zip(fields.byte(b','));
        let bytes = need(bytes, "column 4: length in bytes, below 4 GiB")?.0;
        let time = fields.number().and_then(|t| t.checked_mul(1000));
        let time = need(time, "column 5: timestamp in microseconds")?;
        end(&fields)?;
        Ok(Parsed::Row(Row {
            time,
            response: NO_RESPONSE,
            sector: offset / SECTOR,
            bytes,
            device: context.devices.number(volume, |name| format!("vol{name}")),
            pid: 0,
            rwbs,
        }))
    }
}
