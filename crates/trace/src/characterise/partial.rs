//! Partial profiles: characterisations as bytes, which other processes merge.
//!
//! Independent traces are characterised at the same time, and merged in any order. I/Os in flight at their ends never
//! completed, and nothing is measured from one to the next: no seek, no gap between arrivals, no stream. Their times are
//! laid over each other: time 0 of a series is the beginning of each trace.
//!
//! Merged counts, sums, sizes, times in flight, and quantiles are those of all events together, with the errors that
//! they state; so are distinct and hot blocks. The devices of one host are merged by name. Devices of several hosts are
//! different devices: [`Characterisation::sum`] adds up the devices of a host, and the sums can be merged.

use super::chunk::Renumbering;
use super::intake::Intake;
use super::{Characterisation, Panels, StoredPanels};
use crate::error::{Result, TraceError};
use crate::source::Warning;
use std::io::{self, Read, Write};

const VERSION: u32 = 7; // Version of the content
const TITLE: &str = "blklab partial profile"; // Begins the first line, which ends with the two versions
const LONGEST_TITLE: usize = 100; // Bytes of the first line
const LEVEL: i32 = 1; // Compression of zstd: hashes of blocks do not compress, and the rest does at any level
const MOST_BYTES: u64 = 4 << 30; // A larger content is damaged

impl Characterisation {
    /// The partial profile: a line of text, and the content compressed by zstd with its checksum.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let out = format!("{TITLE} {VERSION} {}\n", env!("CARGO_PKG_VERSION")).into_bytes();
        let mut encoder = zstd::Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.write_all(&self.to_content())?;
        encoder.finish()
    }

    /// The content of the partial profile.
    pub fn to_content(&self) -> Vec<u8> {
        let content = (&self.intake, self.panels.stored());
        postcard::to_allocvec(&content).expect("lists whose length is known, and memory that grows")
    }

    /// The characterisation of a partial profile.
    pub fn from_bytes(bytes: &[u8]) -> Result<Characterisation> {
        let problem = |text: &str| TraceError::Request(format!("partial profile: {text}"));
        let end = bytes.iter().take(LONGEST_TITLE).position(|&byte| byte == b'\n');
        let (title, content) = bytes.split_at(end.map_or(0, |end| end + 1));
        let versions = std::str::from_utf8(title).ok().and_then(|title| title.trim_end().strip_prefix(TITLE));
        let mut versions = versions.ok_or_else(|| problem("not a partial profile of blklab"))?.split_whitespace();
        if versions.next() != Some(&VERSION.to_string()) {
            let other = versions.next().unwrap_or("another version");
            return Err(problem(&format!(
                "written by blklab {other}, which blklab {} cannot read: use one version on all machines",
                env!("CARGO_PKG_VERSION")
            )));
        }
        let mut plain = Vec::new();
        let decoder = zstd::Decoder::with_buffer(content).map_err(|e| problem(&e.to_string()))?;
        let read = decoder.take(MOST_BYTES).read_to_end(&mut plain);
        read.map_err(|e| problem(&format!("damaged: {e}")))?;
        Characterisation::from_content(&plain).ok_or_else(|| problem("damaged"))
    }

    /// The characterisation of a partial profile's content; `None` if it is damaged.
    pub fn from_content(content: &[u8]) -> Option<Characterisation> {
        let ((intake, panels), rest) = postcard::take_from_bytes::<(Intake, StoredPanels)>(content).ok()?;
        rest.is_empty().then(|| Characterisation { intake, panels: Panels::restored(panels) })
    }

    /// Problems that did not stop reading.
    pub fn warnings(&self) -> &[Warning] {
        &self.intake.info.warnings
    }

    /// Adds an independent trace of the same host, or a sum to a sum.
    pub fn merge(&mut self, mut other: Characterisation) {
        let (numbers, places) = self.intake.merge(&other.intake);
        for (from, to) in places.into_iter().enumerate() {
            if let Some(to) = to {
                self.panels.merge(to, &mut other.panels, from, &numbers);
            }
        }
    }

    /// The sum of all devices, as one device named `all devices`. A device counts unless most of its I/Os come from other
    /// devices of the trace: those are counted there.
    pub fn sum(mut self) -> Characterisation {
        let devices =
            self.intake.entrances(|at, others| self.panels.load.panels.get(at).is_some_and(|l| l.is_fed_by(others)));
        let mut panels = Panels::default();
        let numbers = Renumbering { all_direct: true, ..Renumbering::default() };
        for &at in &devices {
            panels.merge(0, &mut self.panels, at, &numbers);
        }
        let intake = self.intake.sum(&devices);
        Characterisation { intake, panels }
    }
}

#[cfg(test)]
mod tests;
