//! What is noticed while files are opened and decompressed, added to what their reader knows.

use crate::error::{Result, TraceError};
use crate::event::EventBatch;
use crate::source::{Source, TraceInfo, Warning};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// How a warning of damage begins.
const DAMAGED: &str = "compressed data is damaged";

/// Warnings from below a reader; shared with the streams it reads.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<Warning>>>);

impl Notes {
    /// Notes a warning.
    pub fn warn(&self, path: &str, message: impl Into<String>) {
        let warning = Warning { path: path.to_owned(), message: message.into() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// The first damage as an error, for when nothing else is left of a trace.
    pub fn damage(&self) -> Option<TraceError> {
        let warning = self.all().into_iter().find(|warning| warning.message.starts_with(DAMAGED))?;
        Some(TraceError::Malformed { path: warning.path, place: "start".into(), problem: warning.message })
    }

    fn all(&self) -> Vec<Warning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A decompressed stream that ends where its compressed data is damaged or cut off, with a warning.
pub struct UntilDamage<R> {
    reader: R,
    path: String,
    notes: Notes,
    read: u64,
}

impl<R: Read> UntilDamage<R> {
    /// Over a decompressor.
    pub fn new(reader: R, path: String, notes: Notes) -> UntilDamage<R> {
        UntilDamage { reader, path, notes, read: 0 }
    }
}

impl<R: Read> Read for UntilDamage<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(out) {
            Ok(count) => {
                self.read += count as u64;
                Ok(count)
            }
            // Not the system's error but the decompressor's.
            Err(e) if e.raw_os_error().is_none() && e.kind() != io::ErrorKind::Interrupted => {
                let message =
                    format!("{DAMAGED} or cut off after {} bytes ({e}); read up to there", self.read);
                self.notes.warn(&self.path, message);
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }
}

/// A source together with what was noticed below it, and what lies beside its files.
pub struct Opened {
    source: Box<dyn Source>,
    notes: Notes,
    dropped: Option<u64>,
    info: TraceInfo,
}

impl Opened {
    /// `dropped` is how many events the kernel dropped, by a record beside the trace.
    pub fn new(source: Box<dyn Source>, notes: Notes, dropped: Option<u64>) -> Opened {
        let mut opened = Opened { info: TraceInfo::default(), source, notes, dropped };
        opened.refresh();
        opened
    }

    fn refresh(&mut self) {
        let mut info = self.source.info().clone();
        info.dropped = self.dropped.or(info.dropped);
        let own = std::mem::take(&mut info.warnings);
        for warning in self.notes.all().into_iter().chain(own) {
            info.warn(&warning.path, warning.message);
        }
        self.info = info;
    }
}

impl Source for Opened {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let more = self.source.fill(batch)?;
        if more {
            let known = self.source.info();
            self.info.bytes_read = known.bytes_read;
            self.info.start_unix_ns = known.start_unix_ns;
        } else {
            self.refresh();
        }
        Ok(more)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
