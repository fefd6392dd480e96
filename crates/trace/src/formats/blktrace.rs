//! blktrace binary as a registered format.

use super::Format;
use crate::blktrace::record::ByteOrder;
use crate::blktrace::set::BlktraceSet;
use crate::blktrace::stream::RecordStream;
use crate::error::Result;
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};

/// Blktrace binary, protocols 7 and 8: per-CPU files of one or more devices, or a dump of blkparse -d.
pub const FORMAT: Format = Format {
    name: "blktrace",
    capabilities: Capabilities::BLKTRACE,
    sniff: |head| ByteOrder::of(head).is_some(),
    reader: open,
};

fn open(info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let streams = |input: OpenInput| input.files.into_iter().map(|f| RecordStream::new(f.path, f.reader)).collect();
    Ok(Box::new(BlktraceSet::new(info, inputs.into_iter().map(streams).collect())?))
}
