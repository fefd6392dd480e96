//! The registry of trace formats: one line for each, and a file for each or for several that are alike.

mod blkparse;
mod blktrace;
mod fields;
mod iolog;
mod names;
mod parquet;
mod records;
mod requests;
mod row_source;
mod table;
#[cfg(test)]
mod tests;
mod text;

use crate::error::Result;
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};

/// A format that can be read.
pub struct Format {
    pub name: &'static str,         // Name for `--format`
    pub capabilities: Capabilities, // What its records contain; a reader removes what its file does not
    pub sniff: fn(&[u8]) -> bool,   // Recognises the format from a decompressed file's first bytes (up to 64 KiB)
    /// Makes a source from opened files and their information: [`Format::open`].
    reader: fn(TraceInfo, Vec<OpenInput>) -> Result<Box<dyn Source>>,
}

/// Makes a source from tables in text files; `columns` says which column holds what: `time=ts,op=rw,…`.
pub fn open_table(inputs: Vec<OpenInput>, columns: &str) -> Result<Box<dyn Source>> {
    let format = Format { name: "table", ..table::FORMAT };
    table::open(format.info(&inputs), inputs, columns)
}

impl Format {
    /// Makes a source from opened files.
    pub fn open(&self, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
        (self.reader)(self.info(&inputs), inputs)
    }

    fn info(&self, inputs: &[OpenInput]) -> TraceInfo {
        TraceInfo {
            format: self.name.into(),
            capabilities: self.capabilities,
            inputs: inputs.iter().map(OpenInput::describe).collect(),
            ..TraceInfo::default()
        }
    }
}

/// Every format, in the order in which recognition tries them: unmistakable ones first.
pub static FORMATS: &[Format] = &[
    blktrace::FORMAT,
    parquet::FORMAT,
    iolog::FORMAT,
    blkparse::FORMAT,
    requests::MSR,
    requests::SYSTOR,
    requests::ALIBABA,
    requests::TENCENT,
    requests::FIU,
    table::FORMAT,
    records::VSCSI,
    records::ORACLE,
];
