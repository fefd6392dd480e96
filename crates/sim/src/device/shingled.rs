//! The translation layer of a shingled disk that manages its tracks itself ("drive-managed").
//!
//! Source of the mechanisms: Aghayev and Desnoyers, "Skylight — A window on shingled disk operation", FAST 2015, who
//! examined two such disks.
//!
//! - Tracks overlap within **bands**. Data are in their place in a band (a static map) or in the **media cache**, a log
//!   at the rim, whose map holds a limited number of extents. The model has it where the first sectors are.
//! - A write is appended to the media cache. A write that continues from the beginning of a band goes to the band.
//! - **Cleaning** rewrites the band of the oldest extent in the log. It begins when the disk is idle, and when the log or
//!   its map is full.

use crate::rng::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The media cache and the bands of a disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// Bytes of the media cache of a shingled disk, a log to which it appends writes; 0: none, tracks do not overlap.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"default": 0})))]
    pub media_cache_bytes: u64,
    /// Extents that the map of the media cache can hold.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [0, 10_000_000], "default": 0})))]
    pub media_cache_extents: u64,
    /// Share of this map that is in use at first, 0 to 1, by pages that were written at random places of the whole
    /// disk.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"type": "fields.Percent", "default": "0%"})))]
    pub media_cache_fill: f64,
    /// Bytes of a band, which the disk can only rewrite as a whole.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"default": 0})))]
    pub band_bytes: u64,
    /// Time to clean a band, in ns: to read it and the newer data, and to write both.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"default": 0})))]
    pub band_clean_ns: u64,
}

/// Bytes of the pages that fill the media cache at first.
const PAGE_BYTES: u64 = 4096;
/// Sequential writes that the disk follows at the same time. An estimate: as many as read-ahead usually follows.
const STREAMS: usize = 8;

/// A part of a command: where it is on the disk, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    pub at: u64,
    pub bytes: u64,
}

/// An extent in the media cache, up to a byte of the disk, and its place in the log.
#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    log: u64,
}

/// Where the data are.
#[derive(Debug, Default)]
pub struct Shingled {
    spec: ShingledSpec,
    log_end: u64,                   // Bytes that were ever appended
    extents: BTreeMap<u64, Extent>, // By their first byte
    by_age: BTreeMap<u64, u64>,     // Their first bytes, by their place in the log
    streams: Vec<u64>,              // Where the sequential writes to bands continue; the last one was used last
    pub bands_cleaned: u64,
}

impl Shingled {
    pub fn new(spec: &ShingledSpec, capacity: u64) -> Self {
        let mut map = Self {
            spec: ShingledSpec { band_bytes: spec.band_bytes.max(PAGE_BYTES), ..spec.clone() },
            ..Self::default()
        };
        let mut random = Rng::new(capacity);
        let pages = spec.media_cache_extents.min(spec.media_cache_bytes / PAGE_BYTES);
        for _ in 0..(pages as f64 * spec.media_cache_fill.clamp(0.0, 1.0)) as u64 {
            map.append(random.below(capacity / PAGE_BYTES) * PAGE_BYTES, PAGE_BYTES);
        }
        map
    }

    /// Where a read of a byte, or a write, moves the head first.
    pub fn first_byte(&self, byte: u64, write: bool) -> u64 {
        match write {
            true if self.is_streamed(byte) => byte,
            true => self.log_byte(self.log_end),
            false => {
                self.extents_in(byte, byte + 1).next().map_or(byte, |(start, e)| self.log_byte(e.log + byte - start))
            }
        }
    }

    /// The parts of a read.
    pub fn read(&self, byte: u64, bytes: u64) -> Vec<Segment> {
        let (mut segments, mut next, end) = (Vec::new(), byte, byte + bytes);
        for (start, extent) in self.extents_in(byte, end) {
            let (from, to) = (start.max(byte), extent.end.min(end));
            segments.push(Segment { at: next, bytes: from.saturating_sub(next) });
            segments.push(Segment { at: self.log_byte(extent.log + from - start), bytes: to - from });
            next = to;
        }
        segments.push(Segment { at: next, bytes: end - next });
        segments.retain(|segment| segment.bytes > 0);
        segments
    }

    /// Whether a write must wait until a band is clean.
    pub fn must_clean(&self, byte: u64, bytes: u64) -> bool {
        let oldest = self.by_age.first_key_value().map_or(self.log_end, |(&log, _)| log);
        let full = self.extents.len() as u64 >= self.spec.media_cache_extents
            || self.log_end - oldest + bytes > self.spec.media_cache_bytes;
        full && !self.by_age.is_empty() && !self.is_streamed(byte)
    }

    /// Writes bytes; returns the parts.
    pub fn write(&mut self, byte: u64, bytes: u64) -> Vec<Segment> {
        let end = byte + bytes;
        if self.is_streamed(byte) {
            self.stream(byte, end);
            self.forget(byte, end);
            return vec![Segment { at: byte, bytes }];
        }
        let band_start = (byte / self.spec.band_bytes + 1) * self.spec.band_bytes;
        let mut segments = vec![self.append(byte, band_start.min(end) - byte)];
        if band_start < end {
            // The rest begins a band.
            segments.extend(self.write(band_start, end - band_start));
        }
        segments
    }

    /// Rewrites the band of the oldest extent; returns its first byte, or nothing if the media cache is empty.
    pub fn clean(&mut self) -> Option<u64> {
        let (_, &oldest) = self.by_age.first_key_value()?;
        let band = oldest / self.spec.band_bytes * self.spec.band_bytes;
        self.forget(band, band + self.spec.band_bytes);
        self.bands_cleaned += 1;
        Some(band)
    }

    /// Removes a range from the media cache.
    pub fn forget(&mut self, byte: u64, end: u64) {
        let affected: Vec<_> = self.extents_in(byte, end).map(|(start, &extent)| (start, extent)).collect();
        for (start, extent) in affected {
            self.extents.remove(&start);
            self.by_age.remove(&extent.log);
            if start < byte {
                self.insert(start, Extent { end: byte, ..extent });
            }
            if end < extent.end {
                self.insert(end, Extent { log: extent.log + end - start, ..extent });
            }
        }
    }

    /// The extents that overlap with a range.
    fn extents_in(&self, byte: u64, end: u64) -> impl Iterator<Item = (u64, &Extent)> {
        let before = self.extents.range(..byte).next_back().filter(|(_, extent)| extent.end > byte);
        before.into_iter().chain(self.extents.range(byte..end)).map(|(&start, extent)| (start, extent))
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        self.extents.insert(start, extent);
        self.by_age.insert(extent.log, start);
    }

    fn append(&mut self, byte: u64, bytes: u64) -> Segment {
        self.forget(byte, byte + bytes);
        let log = self.log_end;
        self.log_end += bytes;
        // Data that continue the newest extent belong to it.
        let newest = self.by_age.last_key_value().map(|(_, &start)| start);
        match newest.and_then(|start| self.extents.get_mut(&start).map(|extent| (start, extent))) {
            Some((start, extent)) if extent.end == byte && extent.log + byte - start == log => extent.end += bytes,
            _ => self.insert(byte, Extent { end: byte + bytes, log }),
        }
        Segment { at: self.log_byte(log), bytes }
    }

    /// Where a place in the log is on the disk.
    fn log_byte(&self, log: u64) -> u64 {
        log % self.spec.media_cache_bytes.max(1)
    }

    /// Whether a write at a byte goes to its band: the beginning of a band, after cached data, opens it.
    pub fn is_streamed(&self, byte: u64) -> bool {
        let continues = || byte > 0 && self.extents_in(byte - 1, byte).next().is_some();
        self.stream_at(byte).is_some() || (byte.is_multiple_of(self.spec.band_bytes) && continues())
    }

    /// The sequential write that a write at a byte continues, or whose data in the same band it replaces: those are
    /// still in the disk's memory, which holds several bands, and are written again with it.
    fn stream_at(&self, byte: u64) -> Option<usize> {
        let band = byte / self.spec.band_bytes;
        let same_band = |&next: &u64| byte < next && (next - 1) / self.spec.band_bytes == band;
        let continued = self.streams.iter().position(|&next| next == byte);
        continued.or_else(|| self.streams.iter().position(same_band))
    }

    /// A sequential write continues. A band has one at most: another one would overwrite its tracks.
    fn stream(&mut self, byte: u64, end: u64) {
        let end = self.stream_at(byte).map_or(end, |at| end.max(self.streams.remove(at)));
        let band = |end: u64| (end - 1) / self.spec.band_bytes;
        let mut dropped = Vec::new();
        self.streams.retain(|&next| {
            let other = band(next) == band(end);
            dropped.extend(other.then_some(next));
            !other
        });
        if self.streams.len() >= STREAMS {
            dropped.push(self.streams.remove(0));
        }
        self.streams.push(end);
        // A band that was not written to its end must be cleaned.
        for next in dropped {
            let written = next % self.spec.band_bytes;
            if written > 0 {
                self.append(next - written, written);
            }
        }
    }
}

#[cfg(test)]
mod tests;
