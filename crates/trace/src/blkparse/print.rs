//! A whole trace as text: every event that a filter wants, and blkparse's closing summary.

use super::summary::Summary;
use super::{json, line};
use crate::error::Result;
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::process::{ProcessTable, UNNAMED};
use crate::source::Source;
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
                PrintStyle::Json => json::write_line(out, event, batch.pdu_of(event), processes),
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
