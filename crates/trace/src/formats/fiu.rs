//! FIU traces (SNIA, 2008): one line for each request, separated by spaces, times in ns, sectors of 512 bytes.

use super::Format;
use super::fields::{Fields, whole_number};
use super::msr::read_or_write;
use super::row_source::{ReadContext, RequestRow};
use super::text::{Expected, ParsedLine, RowParser, open, require, sniff};
use crate::event::{DeviceId, SECTOR};
use crate::source::Capabilities;

pub const FORMAT: Format = Format {
    name: "fiu",
    about: "FIU: time, pid, process, lba, size, W|R, major, minor, md5, separated by spaces",
    capabilities: Capabilities { processes: true, ..Capabilities::requests(1) },
    sniff: sniff::<Fiu>,
    reader: open::<Fiu>,
};

#[derive(Default)]
struct Fiu;

const AFTER_NAME: usize = 6; // Columns after the process's name, which can itself contain spaces

impl RowParser for Fiu {
    const COLUMNS: &'static str = "time pid process lba size W|R major minor md5";
    const EPOCH: Option<u64> = Some(0);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedLine, Expected> {
        let mut fields = Fields::new(line);
        fields.spaces();
        let time = require(fields.number(), "column 1: time in ns")?;
        require(fields.byte(b' '), "a space after column 1")?;
        let pid = whole_number(fields.word()).and_then(|pid| u32::try_from(pid).ok());
        let pid = require(pid, "column 2: process id")?;
        fields.spaces();
        let (name, after) = require(split_name(fields.remaining()), Self::COLUMNS)?;
        let [lba, size, kind, major, minor, _md5] = after;
        let sector = require(whole_number(lba), "column 4: lba in sectors")?;
        let bytes = whole_number(size).and_then(|sectors| u32::try_from(sectors.checked_mul(SECTOR)?).ok());
        let bytes = require(bytes, "column 5: size in sectors, below 4 GiB")?;
        let rwbs = require(read_or_write(kind), "column 6: W or R")?;
        let major = whole_number(major).filter(|&major| major < 4096);
        let major = require(major, "column 7: major device number")?;
        let minor = whole_number(minor).filter(|&minor| minor < 1 << 20);
        let minor = require(minor, "column 8: minor device number")?;
        context.processes.learn(pid, name);
        let device = DeviceId::new(major as u32, minor as u32);
        Ok(ParsedLine::Row(RequestRow { time, sector, bytes, device, pid, rwbs, ..RequestRow::default() }))
    }
}

/// Splits the remaining line into the name and the columns after it, counted from the end.
fn split_name(rest: &[u8]) -> Option<(&[u8], [&[u8]; AFTER_NAME])> {
    let mut rest = rest.trim_ascii_end();
    let mut columns: [&[u8]; AFTER_NAME] = [&[]; AFTER_NAME];
    for column in columns.iter_mut().rev() {
        let at = rest.iter().rposition(|&b| b == b' ' || b == b'\t')?;
        *column = &rest[at + 1..];
        rest = rest[..at].trim_ascii_end();
    }
    (!rest.is_empty()).then_some((rest, columns))
}
