//! Warnings about opening and decompressing files, added to the reader's own.

use crate::error::{Result, TraceError};
use crate::event::EventBatch;
use crate::source::{RecordedLayer, Source, TraceInfo, Warning};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

const DAMAGED: &str = "compressed data is damaged"; // The beginning of warnings about damage

/// Warnings about files below a reader; shared with the streams it reads.
#[derive(Clone, Default)]
pub struct OpeningWarnings(Arc<Mutex<Vec<Warning>>>);

impl OpeningWarnings {
    /// Adds a warning.
    pub fn warn(&self, path: &str, message: impl Into<String>) {
        let warning = Warning { path: path.to_owned(), message: message.into() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// The first damage as an error, if nothing else is left of a trace.
    pub fn damage(&self) -> Option<TraceError> {
        let warning = self.all().into_iter().find(|warning| warning.message.starts_with(DAMAGED))?;
        Some(TraceError::malformed(&warning.path, "start", warning.message))
    }

    fn all(&self) -> Vec<Warning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A decompressed stream that ends where its compressed data is damaged or cut off, with a warning.
pub struct DamageTolerantReader<R> {
    reader: R,
    path: String,
    warnings: OpeningWarnings,
    read: u64,
}

impl<R: Read> DamageTolerantReader<R> {
    /// Wraps a decompressor.
    pub fn new(reader: R, path: String, warnings: OpeningWarnings) -> DamageTolerantReader<R> {
        DamageTolerantReader { reader, path, warnings, read: 0 }
    }
}

impl<R: Read> Read for DamageTolerantReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(out) {
            Ok(count) => {
                self.read += count as u64;
                Ok(count)
            }
            // An error of the decompressor, not of the system.
            Err(e) if e.raw_os_error().is_none() && e.kind() != io::ErrorKind::Interrupted => {
                let message = format!("{DAMAGED} or cut off after {} bytes ({e}); read up to there", self.read);
                self.warnings.warn(&self.path, message);
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }
}

/// A source with the warnings about its files and the record next to them.
pub struct OpenedSource {
    source: Box<dyn Source>,
    warnings: OpeningWarnings,
    dropped: Option<u64>,
    stack: Vec<RecordedLayer>,
    info: TraceInfo,
}

impl OpenedSource {
    /// `dropped` is the number of events that the kernel dropped, and `stack` the devices, from the sidecar.
    pub fn new(
        source: Box<dyn Source>, warnings: OpeningWarnings, dropped: Option<u64>, stack: Vec<RecordedLayer>,
    ) -> OpenedSource {
        let mut opened = OpenedSource { info: TraceInfo::default(), source, warnings, dropped, stack };
        opened.refresh();
        opened
    }

    fn refresh(&mut self) {
        let mut info = self.source.info().clone();
        info.dropped = self.dropped.or(info.dropped);
        info.stack.clone_from(&self.stack);
        let source_warnings = std::mem::take(&mut info.warnings);
        for warning in self.warnings.all().into_iter().chain(source_warnings) {
            info.warn(&warning.path, warning.message);
        }
        self.info = info;
    }
}

impl Source for OpenedSource {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let more = self.source.fill(batch)?;
        if more {
            let known = self.source.info();
            self.info.bytes_read = known.bytes_read;
            self.info.start_unix_ns = known.start_unix_ns;
            self.info.device_names.extend_from_slice(&known.device_names[self.info.device_names.len()..]);
        } else {
            self.refresh();
        }
        Ok(more)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
