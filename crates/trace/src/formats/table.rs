//! Any table of I/Os in a text file: the user says which column holds what (`--columns time=ts,op=rw,…`).
//!
//! Columns are named by the header line or numbered from 1. They are separated by tabs, semicolons, commas, or by
//! spaces. Lines before the header are skipped, as programs such as bpftrace print some.

use super::Format;
use super::fields::{Fields, whole_number};
use super::records::device_of_file;
use super::requests::read_or_write;
use super::row_source::{NO_RESPONSE, ReadContext, RequestRow, RowSource};
use super::text::{Expected, ParsedEntry, RowParser, TextFeed, first_lines};
use crate::error::{Result, TraceError};
use crate::event::{Action, Rwbs, SECTOR};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};
use std::collections::HashMap;

/// What a column can hold, in the order of [`Role`].
const ROLES: [&str; 13] = [
    "time", "end", "op", "sector", "offset", "size", "sectors", "latency", "service", "wait", "device", "process",
    "pid",
];

/// A position in [`ROLES`].
#[derive(Clone, Copy)]
enum Role {
    Time,
    End,
    Op,
    Sector,
    Offset,
    Size,
    Sectors,
    Latency,
    Service,
    Wait,
    Device,
    Process,
    Pid,
}

/// Units of times, and the ns in one.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// The columns of biosnoop (bcc-tools): its time is that of the completion; LAT is D2C, and QUE is Q2D.
const BIOSNOOP: &str =
    "end=TIME(s):s,process=COMM,pid=PID,device=DISK,op=T,sector=SECTOR,size=BYTES,service=LAT(ms):ms";
const BIOSNOOP_QUEUE: &str = "wait=QUE(ms):ms"; // A further column with option -Q

/// The output of biosnoop (bcc-tools): TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms).
pub const FORMAT: Format = Format {
    name: "biosnoop",
    capabilities: Capabilities { completions: true, processes: true, ..Capabilities::requests(1_000) },
    sniff: |head| first_lines(head).next().is_some_and(|line| line.starts_with(b"TIME(s)")),
    reader: |info, inputs| {
        let head = inputs.first().and_then(|input| input.files.first()).map_or(&[][..], |file| &file.head);
        let waits = first_lines(head).next().is_some_and(|line| line.windows(4).any(|part| part == b"QUE("));
        open(info, inputs, &if waits { format!("{BIOSNOOP},{BIOSNOOP_QUEUE}") } else { BIOSNOOP.into() })
    },
};

/// A column that the user named: its header or number, and the ns of its unit if given.
#[derive(Clone)]
struct NamedColumn {
    name: String,
    unit: Option<u64>,
}

type Columns = [Option<NamedColumn>; ROLES.len()];

fn parse_columns(text: &str) -> std::result::Result<Columns, String> {
    let mut columns = Columns::default();
    for part in text.split(',') {
        let (role, name) = part.split_once('=').ok_or_else(|| format!("{part:?}: expected ROLE=COLUMN"))?;
        let role = role.trim();
        let index = ROLES.iter().position(|&known| known == role);
        let index = index.ok_or_else(|| format!("{role:?}: expected one of {}", ROLES.join(", ")))?;
        let unit = name.rsplit_once(':').and_then(|(name, unit)| Some((name, unit_ns(unit)?)));
        let (name, unit) = unit.map_or((name, None), |(name, unit)| (name, Some(unit)));
        columns[index] = Some(NamedColumn { name: name.trim().into(), unit });
    }
    let given = |role: Role| columns[role as usize].is_some();
    for (one, other) in [(Role::Time, Role::End), (Role::Sector, Role::Offset), (Role::Size, Role::Sectors)] {
        if given(one) == given(other) {
            return Err(format!("expected either {}= or {}=", ROLES[one as usize], ROLES[other as usize]));
        }
    }
    if given(Role::Latency) && (given(Role::Service) || given(Role::Wait)) {
        return Err("expected either latency= (Q2C), or service= (D2C) and perhaps wait= (Q2D)".into());
    }
    if given(Role::Wait) && !given(Role::Service) {
        return Err("wait= needs service=".into());
    }
    if given(Role::End) && !given(Role::Latency) && !given(Role::Service) {
        return Err("end= needs latency= or service=".into());
    }
    Ok(columns)
}

fn unit_ns(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, ns)| ns)
}

/// A column in the file: its position, and the ns of its unit.
#[derive(Clone, Copy)]
struct FoundColumn {
    at: usize,
    unit: u64,
}

/// Parses the rows of one file.
#[derive(Clone)]
struct TableRows {
    columns: [Option<FoundColumn>; ROLES.len()],
    separator: u8,
    width: usize, // Words of the header: more of them in a row separated by spaces belong to the process's name
    skipped: usize, // Lines up to and including the header
    pids: HashMap<Vec<u8>, u32>,
    path: String,
}

impl TableRows {
    /// Finds the columns in the first lines of a file.
    fn find(columns: &Columns, head: &[u8], path: &str) -> Result<TableRows> {
        let by_number = columns.iter().flatten().all(|column| whole_number(column.name.as_bytes()).is_some());
        let mut seen = String::new();
        for (index, line) in first_lines(head).enumerate() {
            let separator = [b'\t', b';', b','].into_iter().find(|separator| line.contains(separator)).unwrap_or(b' ');
            let cells = split_cells(line, separator);
            let find = |column: &NamedColumn| {
                let name = column.name.as_bytes();
                let at = match whole_number(name) {
                    Some(number) => (number as usize).checked_sub(1).filter(|&at| at < cells.len())?,
                    None => cells.iter().position(|cell| cell.eq_ignore_ascii_case(name))?,
                };
                Some(FoundColumn { at, unit: column.unit.or_else(|| unit_in_header(cells[at])).unwrap_or(UNITS[0].1) })
            };
            let positions = columns.each_ref().map(|column| column.as_ref().map(find));
            if positions.iter().flatten().all(Option::is_some) {
                let columns = positions.map(Option::flatten);
                let skipped = if by_number { 0 } else { index + 1 };
                let (width, path) = (cells.len(), path.to_owned());
                return Ok(TableRows { columns, separator, width, skipped, pids: HashMap::new(), path });
            }
            if seen.is_empty() {
                let listed: Vec<_> = cells.iter().take(20).map(|cell| String::from_utf8_lossy(cell)).collect();
                seen = listed.join(", ");
            }
        }
        let wanted: Vec<_> = columns.iter().flatten().map(|column| column.name.as_str()).collect();
        let problem = format!("no line has the columns {}; the first line has {seen}", wanted.join(", "));
        Err(TraceError::malformed(path, "header", problem))
    }

    fn number<'a>(&self, cells: &[&'a [u8]], role: Role) -> Option<Option<&'a [u8]>> {
        match self.columns[role as usize] {
            Some(column) => cells.get(column.at).map(|cell| Some(*cell)),
            None => Some(None),
        }
    }

    /// The cell of a column in ns; `Some(None)` without the column.
    fn time(&self, cells: &[&[u8]], role: Role) -> Option<Option<u64>> {
        let Some(text) = self.number(cells, role)? else { return Some(None) };
        let unit = self.columns[role as usize].map_or(1, |column| column.unit);
        Some(Some(parse_time(text, unit)?))
    }

    /// The number in one of two columns, the second in sectors.
    fn bytes(&self, cells: &[&[u8]], bytes: Role, sectors: Role) -> Option<u64> {
        match self.number(cells, bytes)? {
            Some(text) => whole_number(text),
            None => whole_number(self.number(cells, sectors)??)?.checked_mul(SECTOR),
        }
    }

    fn process(&mut self, cells: &[&[u8]], context: &mut ReadContext) -> Option<u32> {
        let name = self.number(cells, Role::Process)?;
        let pid = match (self.number(cells, Role::Pid)?, name) {
            (Some(pid), _) => u32::try_from(whole_number(pid)?).ok()?,
            (None, Some(name)) if self.pids.len() < 1 << 20 => {
                let next = self.pids.len() as u32 + 1;
                *self.pids.entry(name.to_vec()).or_insert(next)
            }
            _ => 0,
        };
        if let Some(name) = name {
            context.processes.learn(pid, name);
        }
        Some(pid)
    }
}

impl RowParser for TableRows {
    const COLUMNS: &'static str = "a row with the columns of --columns";

    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> std::result::Result<ParsedEntry, Expected> {
        if self.skipped > 0 {
            self.skipped -= usize::from(!line.trim_ascii().is_empty());
            return Ok(ParsedEntry::Other);
        }
        let cells = split_cells(line, self.separator);
        let joined;
        let cells = match self.columns[Role::Process as usize] {
            Some(process) if self.separator == b' ' && cells.len() > self.width => {
                let surplus = cells.len() - self.width;
                joined = cells[process.at..=process.at + surplus].join(&b' ');
                let mut cells = cells;
                cells.splice(process.at..=process.at + surplus, [joined.as_slice()]);
                cells
            }
            _ => cells,
        };
        let latency = self.time(&cells, Role::Latency).ok_or("a latency in the column of latency=")?;
        let service = self.time(&cells, Role::Service).ok_or("a latency in the column of service=")?;
        let wait = self.time(&cells, Role::Wait).ok_or("a time in the column of wait=")?;
        let latency = latency.or(service.map(|service| service.saturating_add(wait.unwrap_or(0))));
        let time = self.time(&cells, Role::Time).ok_or("a time in the column of time=")?;
        let end = self.time(&cells, Role::End).ok_or("a time in the column of end=")?;
        let time = time.or(end.map(|end| end.saturating_sub(latency.unwrap_or(0)))).ok_or("a time")?;
        let offset = self.bytes(&cells, Role::Offset, Role::Sector);
        let bytes = self.bytes(&cells, Role::Size, Role::Sectors).and_then(|bytes| u32::try_from(bytes).ok());
        let op = self.number(&cells, Role::Op).ok_or("an operation in the column of op=")?;
        let device = match self.number(&cells, Role::Device).ok_or("a device in the column of device=")? {
            Some(name) => context.devices.number(name, str::to_owned),
            None => device_of_file(&self.path, context),
        };
        Ok(ParsedEntry::Row(RequestRow {
            time,
            first: if service.is_some() && wait.is_none() { Action::DISPATCH } else { Action::QUEUE },
            wait,
            response: latency.map_or(NO_RESPONSE, |latency| latency.min(NO_RESPONSE - 1)),
            sector: offset.ok_or("a whole number in the column of sector= or offset=")? / SECTOR,
            bytes: bytes.ok_or("a whole number below 4 GiB in the column of size= or sectors=")?,
            device,
            pid: self.process(&cells, context).ok_or("a process id in the column of pid=")?,
            rwbs: op.map_or(Some(Rwbs::READ), operation).ok_or("R, W, D, F, read, write … in the column of op=")?,
        }))
    }
}

/// `LAT(ms)`, `latency_us`: the unit at the end of a header.
fn unit_in_header(header: &[u8]) -> Option<u64> {
    let header = String::from_utf8_lossy(header).trim_end_matches([')', ']']).to_ascii_lowercase();
    let (_, unit) = header.rsplit_once(['(', '[', '_', ' '])?;
    unit_ns(unit)
}

/// `12.345` in a unit, or a time of day `21:21:30.5`, in ns.
fn parse_time(text: &[u8], unit: u64) -> Option<u64> {
    let mut fields = Fields::new(text);
    let mut value = fields.decimal(unit.ilog10())?;
    if fields.byte(b':').is_some() {
        let hours = value / unit;
        let minutes = fields.number()?;
        fields.byte(b':')?;
        value = (hours * 60 + minutes).checked_mul(60 * UNITS[0].1)?.checked_add(fields.decimal(9)?)?;
    }
    fields.is_done().then_some(value)
}

fn operation(text: &[u8]) -> Option<Rwbs> {
    if let Some(rwbs) = read_or_write(text) {
        return Some(rwbs);
    }
    match text.to_ascii_lowercase().as_slice() {
        b"discard" | b"trim" => Some(Rwbs::DISCARD),
        b"flush" => Some(Rwbs::FLUSH),
        _ => Rwbs::from_letters(std::str::from_utf8(text).ok()?),
    }
}

/// The cells of a line. Cells in double quotes can contain the separator.
fn split_cells(line: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut quoted = false;
    let cells = line.split(|&byte| {
        quoted ^= byte == b'"';
        byte == separator && !quoted
    });
    let trimmed = cells.map(|cell| {
        let cell = cell.trim_ascii();
        cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell)
    });
    trimmed.filter(|cell| separator != b' ' || !cell.is_empty()).collect()
}

/// Opens tables whose columns `spec` names. Raises a request error for a bad `spec`.
pub fn open(mut info: TraceInfo, inputs: Vec<OpenInput>, spec: &str) -> Result<Box<dyn Source>> {
    let columns = parse_columns(spec).map_err(|problem| TraceError::Request(format!("columns {spec:?}: {problem}")))?;
    let given = |role: Role| columns[role as usize].is_some();
    info.capabilities = Capabilities {
        directions: given(Role::Op),
        completions: given(Role::Latency) || given(Role::Service),
        processes: given(Role::Process) || given(Role::Pid),
        layers: false,
        clock_ns: None,
    };
    RowSource::open(info, TableRows::EPOCH, inputs, |info, file| {
        let rows = TableRows::find(&columns, &file.head, &file.path)?;
        info.capabilities.clock_ns = info.capabilities.clock_ns.max(clock(&rows, &file.head));
        Ok(TextFeed::new(file, rows))
    })
}

/// The step of the clock, ns, from the decimals of the times in the first rows.
fn clock(rows: &TableRows, head: &[u8]) -> Option<u64> {
    let column = rows.columns[Role::Time as usize].or(rows.columns[Role::End as usize])?;
    let times = first_lines(head).skip(rows.skipped).filter_map(|line| {
        let cells = split_cells(line, rows.separator);
        let text = cells.get(column.at)?;
        let decimals = text.iter().rposition(|&byte| byte == b'.').map_or(0, |at| text.len() - at - 1);
        Some((column.unit / 10u64.checked_pow(decimals as u32)?).max(1))
    });
    times.take(100).min()
}

#[cfg(test)]
mod tests;
