//! libCacheSim's oracleGeneral: little-endian records of 24 bytes, u32 time (s), u64 object, u32 size (bytes),
//! i64 next access (number of the request that next touches the object, -1 or the largest number for none).
//!
//! Of a block trace converted to it, the object is the block's number; it is read as the first sector.
//! The format does not tell reads from writes: every request is given as a read.

use super::Format;
use super::records::{Decoded, Records, u32_at, u64_at};
use super::table::{NO_RESPONSE, Row, Table};
use super::text::one_by_one;
use crate::error::Result;
use crate::event::{DeviceId, Rwbs};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};

pub const FORMAT: Format = Format {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral binary (24-byte records); every request is taken for a read",
    capabilities: Capabilities { directions: false, ..Capabilities::requests(1_000_000_000) },
    sniff,
    reader: open,
};

const SIZE: usize = 24;

fn decode(record: &[u8], device: DeviceId) -> Decoded {
    Decoded::Row(Row {
        time: u64::from(u32_at(record, 0)) * 1_000_000_000,
        response: NO_RESPONSE,
        sector: u64_at(record, 4),
        bytes: u32_at(record, 12),
        device,
        pid: 0,
        rwbs: Rwbs::READ,
    })
}

/// Times never fall, sizes are sane, and every next access lies ahead of its record.
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
    let files = one_by_one(inputs)
        .into_iter()
        .map(|(described, file)| (described, Records::new(file.path, file.reader, SIZE, decode)))
        .collect();
    Ok(Box::new(Table::new(info, Some(0), files)))
}
