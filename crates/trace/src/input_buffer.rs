//! Bytes of a file in a buffer of fixed size. A read that waits ends after a signal if the user of this crate wants it.

use crate::error::{Result, TraceError};
use std::io::{ErrorKind, Read};
use std::sync::OnceLock;

/// Is called when a signal interrupts a read, and tells whether the read must end.
pub static ON_SIGNAL: OnceLock<fn() -> bool> = OnceLock::new();

/// Whether an interrupted read must end.
pub fn must_end() -> bool {
    ON_SIGNAL.get().is_some_and(|ask| ask())
}

/// Decompressed bytes of a file.
pub struct InputBuffer {
    pub path: String, // Shown in messages
    pub offset: u64,  // Bytes taken so far
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_eof: bool,
}

impl InputBuffer {
    pub fn new(path: String, source: Box<dyn Read + Send>, size: usize) -> InputBuffer {
        InputBuffer { path, offset: 0, source, buffer: vec![0; size], start: 0, end: 0, at_eof: false }
    }

    /// The bytes that were read and not taken.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the first of these bytes.
    pub fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start += count;
        self.offset += count as u64;
        &self.buffer[from..self.start]
    }

    /// Reads until there are `wanted` bytes, fewer than the buffer can hold; false at the end of the file.
    pub fn require(&mut self, wanted: usize) -> Result<bool> {
        while self.end - self.start < wanted {
            if self.at_eof {
                return Ok(false);
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_eof = true,
                Ok(count) => self.end += count,
                Err(e) if e.kind() == ErrorKind::Interrupted && !must_end() => {}
                Err(e) => return Err(TraceError::io(&self.path, e)),
            }
        }
        Ok(true)
    }
}
