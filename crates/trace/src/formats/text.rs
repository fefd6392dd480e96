//! Tables in text files: what the CSV formats share.

use super::fields::Fields;
use super::lines::Lines;
use super::table::{Context, Feed, Row, Table};
use crate::error::{Result, TraceError};
use crate::source::{Input, OpenFile, OpenInput, Source, TraceInfo};

/// Problems shown with their line; further ones are only counted.
const SHOWN: u64 = 3;
/// As much of a file as recognition gets ([`crate::open`]).
const HEAD: usize = 64 << 10;

/// What a line is.
pub enum Parsed {
    /// A request.
    Row(Row),
    /// Something known that is no request.
    Other,
}

/// What was expected where the line cannot be read.
pub type Expected = &'static str;

/// The rows of one format.
pub trait Rows: Default + Send {
    /// Columns, as a header line names them.
    const COLUMNS: &'static str;
    /// What the trace's clock showed at the start of 1970, ns, when it is a wall clock.
    const EPOCH: Option<u64>;

    /// Reads one line.
    fn parse(&mut self, line: &[u8], context: &mut Context) -> std::result::Result<Parsed, Expected>;
}

/// A text file's rows.
pub struct Text<R> {
    lines: Lines,
    rows: R,
    understood: u64,
    bad: u64,
    first_bad: Option<(u64, String)>,
}

impl<R: Rows> Feed for Text<R> {
    fn read(&mut self, rows: &mut Vec<Row>, limit: usize, context: &mut Context) -> Result<()> {
        while rows.len() < limit {
            let Some(line) = self.lines.next()? else {
                return self.finish(context);
            };
            match self.rows.parse(line, context) {
                Ok(Parsed::Row(row)) => {
                    self.understood += 1;
                    rows.push(row);
                }
                Ok(Parsed::Other) => self.understood += 1,
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(_) if is_header(line, R::COLUMNS) => {}
                Err(expected) => {
                    let problem = format!("found {}, expected {expected}", shown(line));
                    self.note(problem, context);
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes
    }
}

impl<R: Rows> Text<R> {
    fn note(&mut self, problem: String, context: &mut Context) {
        self.bad += 1;
        let number = self.lines.number;
        if self.bad <= SHOWN {
            let message = format!("line {number}: {problem}; left out");
            context.info.warn(&self.lines.path, message);
        }
        self.first_bad.get_or_insert((number, problem));
    }

    fn finish(&mut self, context: &mut Context) -> Result<()> {
        if self.understood == 0 {
            let (line, problem) = self
                .first_bad
                .take()
                .unwrap_or((1, format!("no row in the whole file, expected {}", R::COLUMNS)));
            return Err(TraceError::Malformed {
                path: self.lines.path.clone(),
                place: format!("line {line}"),
                problem,
            });
        }
        if self.bad > SHOWN {
            let message = format!("{} lines in all could not be read; left out", self.bad);
            context.info.warn(&self.lines.path, message);
        }
        Ok(())
    }
}

/// Opens text files of one format as one trace.
pub fn open<R: Rows + 'static>(info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let files = one_by_one(inputs)
        .into_iter()
        .map(|(described, file)| {
            let feed = Text {
                lines: Lines::new(file.path, file.reader),
                rows: R::default(),
                understood: 0,
                bad: 0,
                first_bad: None,
            };
            (described, feed)
        })
        .collect();
    Ok(Box::new(Table::new(info, R::EPOCH, files)))
}

/// Every file as an input of its own.
pub fn one_by_one(inputs: Vec<OpenInput>) -> Vec<(Input, OpenFile)> {
    let mut all = Vec::new();
    for input in inputs {
        for file in input.files {
            let described = Input { name: input.name.clone(), files: vec![file.path.clone()] };
            all.push((described, file));
        }
    }
    all
}

/// True when a file's first lines are rows of this format: every one of them but a header.
pub fn sniff<R: Rows>(head: &[u8]) -> bool {
    let mut rows = R::default();
    let mut context = Context::default();
    let mut found = 0;
    for line in first_lines(head).take(20) {
        match rows.parse(line, &mut context) {
            Ok(Parsed::Row(_)) => found += 1,
            Ok(Parsed::Other) => {}
            Err(_) if is_header(line, R::COLUMNS) => {}
            Err(_) => return false,
        }
    }
    found > 0
}

/// The whole, non-empty lines of a file's beginning.
pub fn first_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = match head.iter().rposition(|&b| b == b'\n') {
        // The last line may have been cut by the length of the head, or by whoever cut the file.
        Some(at) => &head[..at],
        None if head.len() < HEAD => head,
        None => &[],
    };
    whole
        .split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.trim_ascii().is_empty())
}

fn is_header(line: &[u8], columns: &str) -> bool {
    // A cheap test first: it is asked for every line that is no row.
    line.len() < 200
        && String::from_utf8_lossy(line)
            .trim_start_matches('\u{feff}')
            .replace([' ', '"'], "")
            .eq_ignore_ascii_case(columns)
}

/// A line for a message: quoted, at most 60 characters.
pub fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&line[..line.len().min(300)]).chars().take(60).collect();
    format!("{text:?}")
}

/// Takes `wanted` or says what was expected.
#[inline]
pub fn need<T>(value: Option<T>, expected: Expected) -> std::result::Result<T, Expected> {
    value.ok_or(expected)
}

/// The end of a line.
#[inline]
pub fn end(fields: &Fields) -> std::result::Result<(), Expected> {
    if fields.is_done() { Ok(()) } else { Err("the end of the line after the last column") }
}
