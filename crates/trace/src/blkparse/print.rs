//! A whole trace as text: every event that a filter wants, and blkparse's closing summary; or as lines of JSON.

use super::line;
use super::summary::Summary;
use crate::error::Result;
use crate::event::{Action, Event, EventBatch};
use crate::filter::Filter;
use crate::process::{ProcessTable, UNNAMED};
use crate::source::Source;
use serde::Serialize;
use std::io::{self, Write};

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrintStyle {
    Blkparse, // As blkparse does, with its summary at the end
    Quiet,    // As blkparse does, without the summary
    Json,     // One JSON object a line
}

/// Prints a source to its end. The outer error is a failure to read, the inner one a failure to write.
///
/// `tick` is called after every batch with the bytes read so far; when it returns false printing stops there.
pub fn print(
    source: &mut dyn Source, filter: &Filter, style: PrintStyle, out: &mut impl Write,
    tick: &mut dyn FnMut(u64) -> bool,
) -> Result<io::Result<()>> {
    filter.check_for_events()?;
    let mut processes = ProcessTable::default();
    let mut summary = Summary::new(source.info().inputs.iter().map(|input| input.name.as_str()));
    let mut batch = EventBatch::default();
    while source.fill(&mut batch)? {
        let info = source.info();
        let printed = processes.for_each_event(&batch, |event, processes| {
            let name = processes.name(event.pid).unwrap_or(UNNAMED);
            if !filter.wants_event(event, name, info) {
                return Ok(());
            }
            summary.add(event);
            match style {
                PrintStyle::Json => write_json(out, event, batch.pdu_of(event), processes),
                _ => line::write_line(out, event, batch.pdu_of(event), processes),
            }
        });
        if printed.is_err() || !tick(info.bytes_read) {
            return Ok(printed);
        }
        batch.clear();
    }
    let mut end = || {
        if style == PrintStyle::Blkparse {
            summary.write(out)?;
            for input in source.info().inputs.iter().filter(|input| !input.name.is_empty()) {
                for file in &input.files {
                    writeln!(out, "Input file {file} added")?;
                }
            }
        }
        out.flush()
    };
    Ok(end())
}

/// One event as a line of JSON, for programs.
#[derive(Serialize)]
struct JsonEvent<'a> {
    time_ns: u64,
    device: String,
    cpu: u16,
    sequence: u32,
    pid: u32,
    process: Option<&'a str>,
    action: &'static str,
    rwbs: &'a str,
    sector: u64,
    bytes: u32,
    error: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    remap_device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remap_sector: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split_sector: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unplugged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Writes the event as one JSON object and a newline. `pdu` is the event's extra bytes.
fn write_json(out: &mut impl Write, event: &Event, pdu: &[u8], processes: &ProcessTable) -> io::Result<()> {
    let is = |action| event.action == action;
    let letters = event.rwbs.letters(event.bytes);
    let unplug = is(Action::UNPLUG) || is(Action::UNPLUG_TIMER);
    let line = JsonEvent {
        time_ns: event.time,
        device: event.device.to_string(),
        cpu: event.cpu,
        sequence: event.sequence,
        pid: event.pid,
        process: processes.name(event.pid),
        action: event.action.letters(),
        rwbs: letters.as_str(),
        sector: event.sector,
        bytes: event.bytes,
        error: event.error as i16,
        remap_device: is(Action::REMAP).then(|| event.arg_device.to_string()),
        remap_sector: is(Action::REMAP).then_some(event.arg_sector),
        split_sector: is(Action::SPLIT).then_some(event.arg_sector),
        unplugged: unplug.then_some(event.arg_sector),
        message: is(Action::MESSAGE).then(|| String::from_utf8_lossy(pdu).into_owned()),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

// Text from a trace on a terminal: names and messages must not send commands to it.

/// Passes lines on to a terminal; escapes control and formatting characters and bytes that are not UTF-8, as
/// `blklab.text.printing.printable` does. A character must not be split between two calls.
pub struct TerminalOutput<W>(pub W);

impl<W: Write> Write for TerminalOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Every line ends with a write; a line break before that is part of a name.
        let (text, end) = bytes.strip_suffix(b"\n").map_or((bytes, &b""[..]), |text| (text, b"\n"));
        if text.iter().all(|&byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        for part in text.utf8_chunks() {
            for character in part.valid().chars() {
                match character as u32 {
                    0x09 => self.0.write_all(b"\t")?,
                    code @ 0..0x20 => write!(self.0, "\\x{code:02x}")?,
                    code if is_unsafe(code) => write!(self.0, "\\u{code:04x}")?,
                    _ => write!(self.0, "{character}")?,
                }
            }
            part.invalid().iter().try_for_each(|byte| write!(self.0, "\\x{byte:02x}"))?;
        }
        self.0.write_all(end)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Control characters above ASCII's first, and characters that reorder, hide or end text.
fn is_unsafe(code: u32) -> bool {
    matches!(code, 0x7f..=0x9f | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
        | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xe0000..=0xe0fff | 0xf0000..)
}

#[cfg(test)]
mod tests;
