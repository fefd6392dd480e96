//! CloudPhysics vSCSI traces (2015), versions 1 and 2, little-endian.
//!
//! | version | bytes | record |
//! | --- | --- | --- |
//! | 1 | 32 | u32 sn, u32 len, u32 nSG, u16 cmd, u16 ver, u64 lbn, u64 ts |
//! | 2 | 40 | u16 cmd, u16 ver, u32 sn, u32 len, u32 nSG, u64 lbn, u64 ts, u64 rt |
//!
//! `len` is in bytes, `lbn` in sectors of 512 bytes, `ts` and `rt` (response time) in microseconds; the
//! high byte of `ver` is the version (libCacheSim, `traceReader/customizedReader/vscsi.h`).

use super::Format;
use super::records::{DecodeRecord, RecordFeed, u16_at, u32_at, u64_at};
use super::row_source::{NO_RESPONSE, RequestRow, RowSource};
use super::text::{ParsedEntry, one_input_per_file};
use crate::error::{Result, TraceError};
use crate::event::{DeviceId, Rwbs};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo};

pub const FORMAT: Format = Format {
    name: "vscsi",
    about: "CloudPhysics vSCSI binary, version 1 (32-byte records) or 2 (40-byte records)",
    capabilities: Capabilities { completions: true, ..Capabilities::requests(1_000) },
    sniff: |head| version_of(head).is_some(),
    reader: open,
};

struct VscsiVersion {
    number: u16,
    size: usize,
    len: usize,
    cmd: usize,
    lbn: usize,
    ts: usize,
}

static VERSIONS: [VscsiVersion; 2] = [
    VscsiVersion { number: 1, size: 32, len: 4, cmd: 12, lbn: 16, ts: 24 },
    VscsiVersion { number: 2, size: 40, len: 8, cmd: 0, lbn: 16, ts: 24 },
];

impl VscsiVersion {
    fn decode(&self, record: &[u8], device: DeviceId) -> Option<ParsedEntry> {
        if u16_at(record, self.cmd + 2) >> 8 != self.number {
            return None;
        }
        let time = u64_at(record, self.ts).checked_mul(1000)?;
        let Some(rwbs) = rwbs_of(u16_at(record, self.cmd)) else { return Some(ParsedEntry::Other) };
        let response = if self.number == 2 {
            // The response time of a request that never completed is not valid.
            u64_at(record, 32).checked_mul(1000).unwrap_or(NO_RESPONSE)
        } else {
            NO_RESPONSE
        };
        let is_flush = rwbs.has(Rwbs::FLUSH);
        let bytes = if is_flush { 0 } else { u32_at(record, self.len) };
        let sector = u64_at(record, self.lbn);
        Some(ParsedEntry::Row(RequestRow { time, response, sector, bytes, device, pid: 0, rwbs }))
    }

    /// Whether the first records are of this version, with known commands, plausible lengths and rising times.
    fn fits(&self, head: &[u8]) -> bool {
        let mut last = 0;
        let mut known = 0;
        let mut count = 0;
        for record in head.chunks_exact(self.size).take(64) {
            let (len, ts) = (u32_at(record, self.len), u64_at(record, self.ts));
            let sane = u16_at(record, self.cmd + 2) >> 8 == self.number
                && u16_at(record, self.cmd) < 256
                && len <= 1 << 28
                && ts < 1 << 56
                && ts.saturating_add(1_000_000) >= last;
            if !sane {
                return false;
            }
            last = ts;
            count += 1;
            known += usize::from(rwbs_of(u16_at(record, self.cmd)).is_some());
        }
        count >= 2 && known * 2 > count
    }
}

fn version_of(head: &[u8]) -> Option<&'static VscsiVersion> {
    VERSIONS.iter().find(|version| version.fits(head))
}

/// SCSI operation codes (SPC-4, SBC-3).
fn rwbs_of(cmd: u16) -> Option<Rwbs> {
    match cmd {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Rwbs::READ),
        // Also write-and-verify and write-same.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Rwbs::WRITE),
        0x42 => Some(Rwbs::DISCARD.with(Rwbs::WRITE)),
        0x35 | 0x91 => Some(Rwbs::FLUSH.with(Rwbs::WRITE)),
        _ => None,
    }
}

fn open(mut info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let mut files = Vec::new();
    info.capabilities.completions = false;
    for (described, file) in one_input_per_file(inputs) {
        let version = version_of(&file.head).ok_or_else(|| {
            let expected =
                "expected vSCSI records: two or more of 32 bytes with version 1 or of 40 bytes with version 2";
            TraceError::malformed(&file.path, "offset 0", expected)
        })?;
        // Only version 2 has response times.
        info.capabilities.completions |= version.number == 2;
        let decode: DecodeRecord = match version.number {
            1 => |record, device| VERSIONS[0].decode(record, device),
            _ => |record, device| VERSIONS[1].decode(record, device),
        };
        files.push((described, RecordFeed::new(file.path, file.reader, version.size, decode)));
    }
    Ok(Box::new(RowSource::new(info, Some(0), files)))
}
