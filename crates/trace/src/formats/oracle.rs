//! libCacheSim's oracleGeneral: little-endian records of 24 bytes, u32 time (s), u64 object, u32 size (bytes),
//! i64 next access (number of the request that next touches the object, -1 or the largest number for none).
//!
//! In a block trace converted to it, the object is the block's number, which is read as the first sector. The format
//! does not distinguish reads from writes: every request is a read.

use super::Format;
use super::records::{RecordFeed, u32_at, u64_at};
use super::row_source::{RequestRow, RowSource};
use super::text::{ParsedEntry, one_input_per_file};
use crate::error::Result;
use crate::event::DeviceId;
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};

pub const FORMAT: Format = Format {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral binary (24-byte records); every request is taken for a read",
    capabilities: Capabilities { directions: false, ..Capabilities::requests(1_000_000_000) },
    sniff,
    reader: open,
};

const SIZE: usize = 24;

fn decode(record: &[u8], device: DeviceId) -> Option<ParsedEntry> {
    let time = u64::from(u32_at(record, 0)) * 1_000_000_000;
    let (sector, bytes) = (u64_at(record, 4), u32_at(record, 12));
    Some(ParsedEntry::Row(RequestRow { time, sector, bytes, device, ..RequestRow::default() }))
}

/// Whether times never fall, sizes are plausible, and every next access is later than its record.
fn sniff(head: &[u8]) -> bool {
    let mut last = 0;
    let mut count = 0;
    for (number, record) in head.chunks_exact(SIZE).enumerate() {
        let (time, size) = (u32_at(record, 0), u32_at(record, 12));
        let next = u64_at(record, 16) as i64;
        let ahead = next == -1 || next == i64::MAX || (next > number as i64 && next < 1 << 40);
        if time < last || size == 0 || size > 1 << 30 || !ahead {
            return false;
        }
        last = time;
        count += 1;
    }
    count >= 3
}

fn open(info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let files = one_input_per_file(inputs)
        .into_iter()
        .map(|(described, file)| (described, RecordFeed::new(file.path, file.reader, SIZE, decode)))
        .collect();
    Ok(Box::new(RowSource::new(info, Some(0), files)))
}
