//! blkparse's default text, as a registered format.
//!
//! Times and order stay as in the text. Its closing summary is skipped; other lines that are not events are counted
//! and reported.

mod parse;

use super::Format;
use super::lines::Lines;
use super::names::NewProcessNames;
use super::text::{first_lines, quote_line};
use crate::error::{Result, TraceError};
use crate::event::{Action, DeviceId, Event, EventBatch, Rwbs};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo, single_file};
use parse::parse_line;
use std::collections::VecDeque;

pub const FORMAT: Format = Format {
    name: "blkparse",
    about: "text as blkparse prints it by default",
    capabilities: Capabilities::BLKTRACE,
    sniff,
    reader: open,
};

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
