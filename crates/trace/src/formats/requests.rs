//! Published traces with one line for each request: MSR Cambridge, Systor '17, Alibaba, Tencent and FIU.

use super::Format;
use super::fields::{Fields, whole_number};
use super::row_source::{NO_RESPONSE, ReadContext, RequestRow};
use super::text::{Expected, ParsedEntry, RowParser, end, open, sniff};
use crate::event::{DeviceId, Rwbs, SECTOR};
use crate::source::Capabilities;

const fn format<P: RowParser + Default>(name: &'static str, capabilities: Capabilities) -> Format {
    Format { name, capabilities, sniff: sniff::<P>, reader: open::<P> }
}

/// The text of a whole number.
fn whole<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let from = fields.remaining;
    fields.number()?;
    Some(&from[..from.len() - fields.remaining.len()])
}

/// A column's value, which a comma follows.
fn before_comma<T>(value: Option<T>, fields: &mut Fields<'_>, expected: Expected) -> Result<T, Expected> {
    value.filter(|_| fields.byte(b',').is_some()).ok_or(expected)
}

/// MSR Cambridge (SNIA, 2008): one line for each request, times in 100 ns since 1601 (Windows file time).
#[derive(Default)]
struct Msr;

pub const MSR: Format = format::<Msr>("msr", Capabilities { completions: true, ..Capabilities::requests(100) });

impl RowParser for Msr {
    const COLUMNS: &'static str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    const EPOCH: Option<u64> = Some(11_644_473_600 * 1_000_000_000);

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        let mut fields = Fields::new(line);
        let time = fields.number().and_then(|t| t.checked_mul(100));
        let time = before_comma(time, &mut fields, "column 1: Timestamp in 100 ns since 1601")?;
        let from = fields.remaining;
        let host = fields.until(b',').len();
        fields.number().ok_or("column 3: DiskNumber, a whole number")?;
        let disk = &from[..from.len() - fields.remaining.len()];
        if host == 0 || host > 255 {
            return Err("column 2: Hostname");
        }
        fields.byte(b',').ok_or("column 3: DiskNumber, a whole number")?;
        let rwbs = read_or_write(fields.until(b',')).ok_or("column 4: Type, Read or Write")?;
        let offset = before_comma(fields.number(), &mut fields, "column 5: Offset in bytes")?;
        let bytes = before_comma(fields.number32(), &mut fields, "column 6: Size in bytes, below 4 GiB")?;
        let response = fields.number().and_then(|t| t.checked_mul(100)).ok_or("column 7: ResponseTime in 100 ns")?;
        end(&fields)?;
        let (response, sector) = (response.min(NO_RESPONSE - 1), offset / SECTOR);
        let device = context.devices.number(disk, |name| name.replace(',', "_"));
        Ok(ParsedEntry::Row(RequestRow { time, response, sector, bytes, device, rwbs, ..RequestRow::default() }))
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

/// Systor '17 traces (SNIA; enterprise VDI, 2016): one line for each request, times in seconds since 1970.
#[derive(Default)]
struct Systor;

pub const SYSTOR: Format =
    format::<Systor>("systor17", Capabilities { completions: true, ..Capabilities::requests(100) });

impl RowParser for Systor {
    const COLUMNS: &'static str = "Timestamp,Response,IOType,LUN,Offset,Size";

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        let mut fields = Fields::new(line);
        let time = before_comma(fields.decimal(9), &mut fields, "column 1: Timestamp in seconds")?;
        let response = if fields.remaining.first() == Some(&b',') {
            Some(NO_RESPONSE) // not recorded
        } else {
            fields.decimal(9)
        };
        let response = before_comma(response, &mut fields, "column 2: Response in seconds")?;
        let kind = fields.until(b',');
        let lun = before_comma(whole(&mut fields), &mut fields, "column 4: LUN, a whole number")?;
        if kind.is_empty() {
            return Ok(ParsedEntry::Other); // neither read nor write
        }
        let rwbs = read_or_write(kind).ok_or("column 3: IOType, R or W")?;
        let offset = before_comma(fields.number(), &mut fields, "column 5: Offset in bytes")?;
        let bytes = fields.number32().ok_or("column 6: Size in bytes, below 4 GiB")?;
        end(&fields)?;
        let device = context.devices.number(lun, |name| format!("lun{name}"));
        Ok(ParsedEntry::Row(RequestRow {
            time,
            response,
            sector: offset / SECTOR,
            bytes,
            device,
            rwbs,
            ..RequestRow::default()
        }))
    }
}

/// Alibaba Cloud block traces (2020): one line for each request, times in microseconds since 1970.
#[derive(Default)]
struct Alibaba;

pub const ALIBABA: Format = format::<Alibaba>("alibaba", Capabilities::requests(1_000));

impl RowParser for Alibaba {
    const COLUMNS: &'static str = "device_id,opcode,offset,length,timestamp";

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        let mut fields = Fields::new(line);
        let volume = before_comma(whole(&mut fields), &mut fields, "column 1: device_id, a whole number")?;
        let rwbs = read_or_write(fields.until(b',')).ok_or("column 2: opcode, R or W")?;
        let offset = before_comma(fields.number(), &mut fields, "column 3: offset in bytes")?;
        let bytes = before_comma(fields.number32(), &mut fields, "column 4: length in bytes, below 4 GiB")?;
        let time = fields.number().and_then(|t| t.checked_mul(1000)).ok_or("column 5: timestamp in microseconds")?;
        end(&fields)?;
        let device = context.devices.number(volume, |name| format!("vol{name}"));
        Ok(ParsedEntry::Row(RequestRow { time, sector: offset / SECTOR, bytes, device, rwbs, ..RequestRow::default() }))
    }
}

/// Tencent CBS block traces (2018): one line for each request, times in seconds since 1970, sectors of 512 bytes.
#[derive(Default)]
struct Tencent;

pub const TENCENT: Format = format::<Tencent>("tencent", Capabilities::requests(1_000_000_000));

impl RowParser for Tencent {
    const COLUMNS: &'static str = "Timestamp,Offset,Size,IOType,VolumeID";

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        let mut fields = Fields::new(line);
        let time = before_comma(fields.decimal(9), &mut fields, "column 1: Timestamp in seconds")?;
        let sector = before_comma(fields.number(), &mut fields, "column 2: Offset in sectors")?;
        let bytes = fields.number().and_then(|sectors| u32::try_from(sectors.checked_mul(SECTOR)?).ok());
        let bytes = before_comma(bytes, &mut fields, "column 3: Size in sectors, below 4 GiB")?;
        let rwbs = match fields.until(b',') {
            b"0" => Rwbs::READ,
            b"1" => Rwbs::WRITE,
            _ => return Err("column 4: IOType, 0 (read) or 1 (write)"),
        };
        let volume = whole(&mut fields).ok_or("column 5: VolumeID, a whole number")?;
        end(&fields)?;
        let device = context.devices.number(volume, |name| format!("vol{name}"));
        Ok(ParsedEntry::Row(RequestRow { time, sector, bytes, device, rwbs, ..RequestRow::default() }))
    }
}

/// FIU traces (SNIA, 2008): one line for each request, separated by spaces, times in ns, sectors of 512 bytes.
#[derive(Default)]
struct Fiu;

pub const FIU: Format = format::<Fiu>("fiu", Capabilities { processes: true, ..Capabilities::requests(1) });

const AFTER_NAME: usize = 6; // Columns after the process's name, which can itself contain spaces

impl RowParser for Fiu {
    const COLUMNS: &'static str = "time pid process lba size W|R major minor md5";

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> Result<ParsedEntry, Expected> {
        let mut fields = Fields::new(line);
        fields.spaces();
        let time = fields.number().ok_or("column 1: time in ns")?;
        fields.byte(b' ').ok_or("a space after column 1")?;
        let pid = whole_number(fields.word()).and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.ok_or("column 2: process id")?;
        fields.spaces();
        let (name, after) = split_name(fields.remaining).ok_or(Self::COLUMNS)?;
        let [lba, size, kind, major, minor, _md5] = after;
        let sector = whole_number(lba).ok_or("column 4: lba in sectors")?;
        let bytes = whole_number(size).and_then(|sectors| u32::try_from(sectors.checked_mul(SECTOR)?).ok());
        let bytes = bytes.ok_or("column 5: size in sectors, below 4 GiB")?;
        let rwbs = read_or_write(kind).ok_or("column 6: W or R")?;
        let major = whole_number(major).filter(|&major| major < 4096).ok_or("column 7: major device number")?;
        let minor = whole_number(minor).filter(|&minor| minor < 1 << 20).ok_or("column 8: minor device number")?;
        context.processes.learn(pid, name);
        let device = DeviceId::new(major as u32, minor as u32);
        Ok(ParsedEntry::Row(RequestRow { time, sector, bytes, device, pid, rwbs, ..RequestRow::default() }))
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
