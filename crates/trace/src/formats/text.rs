//! Tables in text files: the common part of the CSV formats.

use super::fields::Fields;
use super::row_source::{ReadContext, RequestRow, RowFeed, RowSource};
use crate::error::{Result, TraceError};
use crate::input_buffer::InputBuffer;
use crate::source::{OpenFile, OpenInput, Source, TraceInfo};
use std::io::Read;

const SHOWN: u64 = 3; // Problems that are shown with their line; further ones are only counted
const HEAD: usize = 64 << 10; // The bytes of a file that recognition gets ([`crate::open`])

/// What a line or a record is.
pub enum ParsedEntry {
    Row(RequestRow), // A request
    Other,           // A known line or record that is not a request
}

pub type Expected = &'static str; // What was expected in an unreadable line

/// A parser of one format's rows.
pub trait RowParser: Send + 'static {
    const COLUMNS: &'static str; // The columns as in a header line
    const EPOCH: Option<u64> = Some(0); // The trace's clock at the start of 1970, ns, if it is a wall clock

    /// Reads one line.
    fn parse(&mut self, line: &[u8], context: &mut ReadContext) -> std::result::Result<ParsedEntry, Expected>;
}

/// A text file's rows.
pub struct TextFeed<R> {
    lines: Lines,
    rows: R,
    known_lines: u64,
    unreadable: u64,
    first_unreadable: Option<(u64, String)>,
}

impl<R: RowParser> RowFeed for TextFeed<R> {
    fn read(&mut self, rows: &mut Vec<RequestRow>, limit: usize, context: &mut ReadContext) -> Result<()> {
        while rows.len() < limit {
            let Some(line) = self.lines.next()? else {
                return self.finish(context);
            };
            match self.rows.parse(line, context) {
                Ok(ParsedEntry::Row(row)) => {
                    self.known_lines += 1;
                    rows.push(row);
                }
                Ok(ParsedEntry::Other) => self.known_lines += 1,
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(_) if is_header(line, R::COLUMNS) => {}
                Err(expected) => {
                    let problem = format!("found {}, expected {expected}", quote_line(line));
                    self.count_unreadable(problem, context);
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.lines.input.offset
    }
}

impl<R: RowParser> TextFeed<R> {
    /// The rows of one file.
    pub fn new(file: OpenFile, rows: R) -> TextFeed<R> {
        let lines = Lines::new(file.path, file.reader);
        TextFeed { lines, rows, known_lines: 0, unreadable: 0, first_unreadable: None }
    }

    fn count_unreadable(&mut self, problem: String, context: &mut ReadContext) {
        self.unreadable += 1;
        let number = self.lines.number;
        if self.unreadable <= SHOWN {
            context.info.warn(&self.lines.input.path, format!("line {number}: {problem}; skipped"));
        }
        self.first_unreadable.get_or_insert((number, problem));
    }

    fn finish(&mut self, context: &mut ReadContext) -> Result<()> {
        if self.known_lines == 0 {
            let (line, problem) =
                self.first_unreadable.take().unwrap_or((1, format!("no row in the file, expected {}", R::COLUMNS)));
            return Err(TraceError::malformed(&self.lines.input.path, &format!("line {line}"), problem));
        }
        if self.unreadable > SHOWN {
            let message = format!("{} lines in total could not be read; skipped", self.unreadable);
            context.info.warn(&self.lines.input.path, message);
        }
        Ok(())
    }
}

/// Opens text files of one format as one trace.
pub fn open<R: RowParser + Default>(info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    RowSource::open(info, R::EPOCH, inputs, |_, file| Ok(TextFeed::new(file, R::default())))
}

/// True if all first lines of a file are rows of this format, except for a header.
pub fn sniff<R: RowParser + Default>(head: &[u8]) -> bool {
    let mut rows = R::default();
    let mut context = ReadContext::default();
    let mut recognised = 0;
    for line in first_lines(head).take(20) {
        match rows.parse(line, &mut context) {
            Ok(ParsedEntry::Row(_)) => recognised += 1,
            Ok(ParsedEntry::Other) => {}
            Err(_) if is_header(line, R::COLUMNS) => {}
            Err(_) => return false,
        }
    }
    recognised > 0
}

/// The complete, non-empty lines at a file's beginning.
pub fn first_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let complete_lines = match head.iter().rposition(|&b| b == b'\n') {
        // The last line can be incomplete because the head or the file was cut.
        Some(at) => &head[..at],
        None if head.len() < HEAD => head,
        None => &[],
    };
    complete_lines
        .split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.trim_ascii().is_empty())
}

fn is_header(line: &[u8], columns: &str) -> bool {
    // A cheap test first: this runs for every line that is not a row.
    line.len() < 200
        && String::from_utf8_lossy(line)
            .trim_start_matches('\u{feff}')
            .replace([' ', '"'], "")
            .eq_ignore_ascii_case(columns)
}

/// A line for messages: quoted, at most 60 characters.
pub fn quote_line(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&line[..line.len().min(300)]).chars().take(60).collect();
    format!("{text:?}")
}

/// Requires the end of the line.
pub fn end(fields: &Fields) -> std::result::Result<(), Expected> {
    if fields.is_done() { Ok(()) } else { Err("the end of the line after the last column") }
}

// A text file, line by line, in a buffer of fixed size.

const BUFFER: usize = 256 << 10;
const LONGEST: usize = 64 << 10; // Longer lines are cut: no format has them, and damaged files must not fill the memory

/// Lines of a file.
pub struct Lines {
    pub input: InputBuffer,
    pub number: u64, // Number of the last returned line, from 1
    is_cut: bool,    // Whether the rest of that line must be skipped
}

impl Lines {
    /// A reader of lines of decompressed bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>) -> Lines {
        Lines { input: InputBuffer::new(path, source, BUFFER), number: 0, is_cut: false }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        while self.is_cut {
            let bytes = self.input.bytes();
            let line_end = memchr::memchr(b'\n', bytes);
            self.input.take(line_end.map_or(bytes.len(), |at| at + 1));
            self.is_cut = line_end.is_none() && self.input.require(1)?;
        }
        let mut searched = 0;
        let (len, end) = loop {
            let bytes = self.input.bytes();
            if let Some(at) = memchr::memchr(b'\n', &bytes[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = bytes.len();
            if searched > LONGEST || !self.input.require(searched + 1)? {
                break (searched, searched);
            }
        };
        if end == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.is_cut = len == end;
        let line = &self.input.take(end)[..len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(&line[..line.len().min(LONGEST)]))
    }
}

#[cfg(test)]
mod tests;
