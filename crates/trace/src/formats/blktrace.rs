//! blktrace binary as a registered format.

use super::Format;
use crate::blktrace::record::Order;
use crate::blktrace::set::BlktraceSet;
use crate::blktrace::stream::Stream;
use crate::error::Result;
use crate::open::{OpenInput, describe};
use crate::source::Source;

pub const FORMAT: Format = Format {
    name: "blktrace",
    about: "blktrace binary: per-CPU files of one or more devices, or a dump of blkparse -d",
    sniff: |head| Order::of(head).is_some(),
    open,
};

fn open(inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let inputs = inputs
        .into_iter()
        .map(|input| {
            let described = describe(&input);
            let streams = input.files.into_iter().map(|f| Stream::new(f.path, f.reader)).collect();
            (described, streams)
        })
        .collect();
    Ok(Box::new(BlktraceSet::new(inputs)?))
}
