//! blkparse's default text, as a registered format.
//!
//! Times and order stay as in the text. Its closing summary is skipped; other lines that are not events are counted
//! and reported.

use super::Format;
use super::names::NewProcessNames;
use super::text::Lines;
use super::text::{first_lines, quote_line};
use crate::error::{Result, TraceError};
use crate::event::{Action, DeviceId, Event, EventBatch, Rwbs, SECTOR};
use crate::formats::fields::{Fields, whole_number};
use crate::formats::row_source::category_of;
use crate::process::UNNAMED;
use crate::source::{Capabilities, OpenInput, Source, TraceInfo, single_file};
use std::collections::VecDeque;

/// Text as blkparse prints it by default.
pub const FORMAT: Format = Format { name: "blkparse", capabilities: Capabilities::BLKTRACE, sniff, reader: open };

const EXPECTED: &str = "an event as blkparse prints it: maj,min cpu sequence time pid action RWBS …";
const SHOWN: u64 = 3; // Problems shown with their line
const COMMANDS: usize = 64; // Passthrough commands that are kept between dispatch and completion
const LONGEST_MESSAGE: usize = 8 << 10; // The largest size of a message; further lines are dropped

/// Whether more than half of the first lines are events.
fn sniff(head: &[u8]) -> bool {
    let mut pdu = Vec::new();
    let (mut events, mut lines) = (0, 0);
    for line in first_lines(head).take(20) {
        lines += 1;
        events += usize::from(parse_line(line, &mut pdu).is_some());
    }
    events * 2 > lines
}

fn open(info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let file = single_file(inputs, &info.format)?;
    Ok(Box::new(BlkparseSource {
        lines: Lines::new(file.path, file.reader),
        info,
        processes: NewProcessNames::default(),
        commands: VecDeque::new(),
        message: None,
        pdu: Vec::new(),
        events: 0,
        other_lines: 0,
        first_other_line: None,
        last_time: 0,
        in_summary: false,
        ended: false,
    }))
}

struct BlkparseSource {
    lines: Lines,
    info: TraceInfo,
    processes: NewProcessNames,
    commands: VecDeque<(DeviceId, u32, Vec<u8>)>,
    message: Option<(Event, Vec<u8>)>, // A message that can continue: empty lines belong to it
    pdu: Vec<u8>,
    events: u64,
    other_lines: u64,
    first_other_line: Option<String>,
    last_time: u64,
    in_summary: bool,
    ended: bool,
}

impl BlkparseSource {
    /// Reads the next line; false at the end of the file.
    fn read_line(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let Some(line) = self.lines.next()? else {
            return Ok(false);
        };
        if line.is_empty() {
            match &mut self.message {
                Some((_, text)) if text.len() < LONGEST_MESSAGE => text.push(b'\n'),
                _ => {}
            }
            return Ok(true);
        }
        if let Some(message) = self.message.take() {
            push_message(batch, message);
        }
        let Some((mut event, details)) = parse_line(line, &mut self.pdu) else {
            // `CPU0 (sda):`
            self.in_summary |= line.strip_prefix(b"CPU").is_some_and(|rest| {
                rest.first().is_some_and(u8::is_ascii_digit) && rest.ends_with(b"):") && rest.contains(&b'(')
            });
            // `Input file sda.blktrace.0 added`
            let names_input = line.starts_with(b"Input file ") && line.ends_with(b" added");
            if !self.in_summary && !names_input {
                self.other_lines += 1;
                let shown_line = quote_line(line);
                let shown_line = format!("line {}: found {shown_line}", self.lines.number);
                if self.other_lines <= SHOWN {
                    let message = format!("{shown_line}, expected {EXPECTED}; skipped");
                    self.info.warn(&self.lines.input.path, message);
                }
                self.first_other_line.get_or_insert(shown_line);
            }
            return Ok(true);
        };
        self.events += 1;
        self.info.out_of_order += u64::from(event.time < self.last_time);
        self.last_time = event.time;
        if let Some(name) = details.name {
            self.processes.learn(event.pid, name);
            self.processes.report(batch);
        }
        if let Some(text) = details.text {
            self.message = Some((event, text.to_vec()));
            return Ok(true);
        }
        if event.rwbs.has(Rwbs::PASSTHROUGH) {
            restore_command_length(&mut self.commands, &mut event, &self.pdu);
            if !self.pdu.is_empty() {
                batch.attach(&mut event, &self.pdu);
            }
        }
        batch.events.push(event);
        Ok(true)
    }

    fn finish(&mut self, batch: &mut EventBatch) -> Result<()> {
        self.ended = true;
        if let Some(message) = self.message.take() {
            push_message(batch, message);
        }
        self.info.bytes_read = self.lines.input.offset;
        let path = self.lines.input.path.clone();
        if self.events == 0 {
            let found = self.first_other_line.take().unwrap_or_else(|| "only empty lines or a summary".into());
            let problem = format!("no event in the whole file ({found}), expected {EXPECTED}");
            return Err(TraceError::malformed(&path, "line 1", problem));
        }
        if self.other_lines > SHOWN {
            let message = format!("{} lines in total are not events; skipped", self.other_lines);
            self.info.warn(&path, message);
        }
        if self.info.out_of_order > 0 {
            let count = self.info.out_of_order;
            let message = format!("{count} events are earlier than their predecessors; they stay in file order");
            self.info.warn(&path, message);
        }
        Ok(())
    }
}

impl Source for BlkparseSource {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let first = batch.events.len();
        while !self.ended && batch.events.len() - first < EventBatch::TARGET {
            if !self.read_line(batch)? {
                self.finish(batch)?;
            }
        }
        Ok(batch.events.len() > first)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

fn push_message(batch: &mut EventBatch, (mut event, text): (Event, Vec<u8>)) {
    // An empty text needs one byte to be printed as a message.
    batch.attach(&mut event, if text.is_empty() { &[0] } else { &text });
    batch.events.push(event);
}

/// Completions show no length: takes it from the dispatch of the same command.
fn restore_command_length(commands: &mut VecDeque<(DeviceId, u32, Vec<u8>)>, event: &mut Event, pdu: &[u8]) {
    match event.action {
        Action::DISPATCH => {
            if commands.len() == COMMANDS {
                commands.pop_front();
            }
            let kept = &pdu[..pdu.len().min(64)];
            commands.push_back((event.device, event.bytes, kept.to_vec()));
        }
        Action::COMPLETE if event.bytes != 0 => {
            let at = commands.iter().position(|(device, bytes, known)| {
                *device == event.device && *bytes != 0 && known[..] == pdu[..pdu.len().min(64)]
            });
            if let Some((_, bytes, _)) = at.and_then(|at| commands.remove(at)) {
                event.bytes = bytes;
            }
        }
        _ => {}
    }
}

// One line of blkparse's default output: the inverse of [`crate::blkparse::line`].

/// What a line contains in addition to its event.
#[derive(Default)]
pub struct LineDetails<'a> {
    pub name: Option<&'a [u8]>, // The process's name, when the line has one
    pub text: Option<&'a [u8]>, // A message's text
}

/// Parses a line; `pdu` gets a passthrough command's bytes. `None` if it is not an event.
pub fn parse_line<'a>(line: &'a [u8], pdu: &mut Vec<u8>) -> Option<(Event, LineDetails<'a>)> {
    pdu.clear();
    let mut fields = Fields::new(line);
    let mut event = Event::default();
    let mut details = LineDetails::default();
    fields.spaces();
    let major = fields.number32().filter(|&m| m < 4096)?;
    fields.byte(b',')?;
    event.device = DeviceId::new(major, fields.number32().filter(|&m| m < 1 << 20)?);
    fields.byte(b' ')?;
    fields.spaces();
    event.cpu = fields.number()?.try_into().ok()?;
    fields.spaces();
    let negative = fields.byte(b'-').is_some();
    let sequence = fields.number32()?;
    event.sequence = if negative { sequence.wrapping_neg() } else { sequence };
    fields.spaces();
    event.time = fields.decimal(9)?;
    fields.spaces();
    event.pid = fields.number32()?;
    fields.byte(b' ')?;
    event.action = Action::from_letters(std::str::from_utf8(fields.word()).ok()?)?;
    let letters = fields.word();
    fields.byte(b' ')?;
    event.rwbs = rwbs_of(letters)?.with(category_of(event.action));
    if event.action == Action::MESSAGE {
        event.rwbs = Rwbs::NOTIFY;
        details.text = Some(fields.remaining);
        return Some((event, details));
    }
    match event.action {
        Action::COMPLETE | Action::REQUEUE => parse_end(&mut event, fields, pdu)?,
        Action::REMAP => parse_remap(&mut event, fields)?,
        Action::UNPLUG | Action::UNPLUG_TIMER => {
            fields.byte(b'[')?;
            let rest = fields.remaining;
            let at = rest.iter().rposition(|&b| b == b']')?;
            details.name = Some(&rest[..at]);
            event.arg_sector = whole_number(rest[at + 1..].strip_prefix(b" ")?)?;
        }
        _ => details.name = Some(parse_start(&mut event, fields, pdu)?),
    }
    // The line does not show the length, but the letter does: N is none, R is some.
    if letters.contains(&b'R') && event.bytes == 0 {
        event.bytes = 1;
    }
    if letters.contains(&b'N') {
        event.bytes = 0;
    }
    details.name = details.name.filter(|&name| name != UNNAMED.as_bytes());
    Some((event, details))
}

/// `sector + sectors [error]`, `sector [error]`, or of a passthrough command `(bytes) [error]`.
fn parse_end(event: &mut Event, mut fields: Fields, pdu: &mut Vec<u8>) -> Option<()> {
    match fields.remaining.first()? {
        b'(' | b'[' => {
            event.rwbs = event.rwbs.with(Rwbs::PASSTHROUGH);
            parse_hex(&mut fields, pdu)?;
        }
        _ => {
            event.sector = fields.number()?;
            fields.byte(b' ')?;
            if fields.byte(b'+').is_some() {
                fields.byte(b' ')?;
                event.bytes = bytes_of(fields.number()?)?;
                fields.byte(b' ')?;
            }
        }
    }
    fields.byte(b'[')?;
    event.error = fields.number()?.try_into().ok()?;
    fields.byte(b']')?;
    fields.is_done().then_some(())
}

/// `sector + sectors <- (major,minor) sector`.
fn parse_remap(event: &mut Event, mut fields: Fields) -> Option<()> {
    event.sector = fields.number()?;
    take_text(&mut fields, b" + ")?;
    event.bytes = bytes_of(fields.number()?)?;
    take_text(&mut fields, b" <- (")?;
    let major = fields.number32().filter(|&m| m < 4096)?;
    fields.byte(b',')?;
    event.arg_device = DeviceId::new(major, fields.number32().filter(|&m| m < 1 << 20)?);
    // blkparse shows the remap's target where other lines show the device itself.
    event.target_device = event.device;
    take_text(&mut fields, b") ")?;
    event.arg_sector = fields.number()?;
    fields.is_done().then_some(())
}

/// `sector + sectors [name]`, `sector / sector [name]`, `[name]`, or of a passthrough command
/// `bytes (bytes) [name]`. Returns the name.
fn parse_start<'a>(event: &mut Event, mut fields: Fields<'a>, pdu: &mut Vec<u8>) -> Option<&'a [u8]> {
    if fields.remaining.first() != Some(&b'[') {
        let number = fields.number()?;
        fields.byte(b' ')?;
        match fields.remaining.first()? {
            b'+' => {
                event.sector = number;
                take_text(&mut fields, b"+ ")?;
                event.bytes = bytes_of(fields.number()?)?;
                fields.byte(b' ')?;
            }
            b'/' if event.action == Action::SPLIT => {
                event.sector = number;
                take_text(&mut fields, b"/ ")?;
                event.arg_sector = u64::from(fields.number32()?);
                // The event's length is that of the first part.
                let sectors = (event.arg_sector as u32).wrapping_sub(number as u32);
                event.bytes = bytes_of(u64::from(sectors)).unwrap_or(0);
                fields.byte(b' ')?;
            }
            _ => {
                event.rwbs = event.rwbs.with(Rwbs::PASSTHROUGH);
                event.bytes = number.try_into().ok()?;
                parse_hex(&mut fields, pdu)?;
            }
        }
    }
    fields.byte(b'[')?;
    let rest = fields.remaining;
    let end = rest.iter().rposition(|&b| b == b']')?;
    rest[end + 1..].trim_ascii().is_empty().then_some(&rest[..end])
}

/// `(2a 00 ..) `, or nothing.
fn parse_hex(fields: &mut Fields, pdu: &mut Vec<u8>) -> Option<()> {
    if fields.byte(b'(').is_none() {
        return Some(());
    }
    let inside = fields.until(b')');
    for word in inside.split(|&b| b == b' ') {
        match word {
            b".." => {}
            [high, low] if pdu.len() < usize::from(u16::MAX) => {
                let digit = |b: u8| char::from(b).to_digit(16);
                pdu.push((digit(*high)? << 4 | digit(*low)?) as u8);
            }
            _ => return None,
        }
    }
    fields.byte(b' ')
}

fn take_text(fields: &mut Fields, text: &[u8]) -> Option<()> {
    text.iter().try_for_each(|&byte| fields.byte(byte))
}

fn bytes_of(sectors: u64) -> Option<u32> {
    u32::try_from(sectors.checked_mul(SECTOR)?).ok()
}

fn rwbs_of(letters: &[u8]) -> Option<Rwbs> {
    if letters.len() > 6 {
        return None;
    }
    Rwbs::from_letters(std::str::from_utf8(letters).ok()?)
}
