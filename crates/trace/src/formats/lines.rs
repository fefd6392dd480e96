//! A text file, line by line, in a buffer of fixed size.

use crate::error::{Result, TraceError};
use crate::interrupt;
use std::io::{ErrorKind, Read};

const BUFFER: usize = 256 << 10;
const LONGEST: usize = 64 << 10; // Longer lines are cut: no format has them, and damaged files must not fill the memory

/// Lines of a file.
pub struct Lines {
    pub path: String, // Shown in messages
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_eof: bool,
    pub number: u64, // Number of the last returned line, from 1
    pub bytes: u64,  // Bytes consumed
}

impl Lines {
    /// A reader of lines of decompressed bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>) -> Lines {
        Lines { path, source, buffer: vec![0; BUFFER], start: 0, end: 0, at_eof: false, number: 0, bytes: 0 }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let mut searched = 0;
        let (len, skip) = loop {
            let have = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &have[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = have.len();
            if searched > LONGEST {
                self.skip_line()?;
                break (LONGEST, 0);
            }
            if self.at_eof {
                if searched == 0 {
                    return Ok(None);
                }
                break (searched, searched);
            }
            self.read_more()?;
        };
        let from = self.start;
        self.start += skip;
        self.bytes += skip as u64;
        self.number += 1;
        let line = if skip == 0 {
            &self.buffer[..len] // kept by skip_line
        } else {
            &self.buffer[from..from + len]
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(&line[..line.len().min(LONGEST)]))
    }

    fn read_more(&mut self) -> Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.end += self.read_at(self.end)?;
        Ok(())
    }

    fn read_at(&mut self, at: usize) -> Result<usize> {
        loop {
            match self.source.read(&mut self.buffer[at..]) {
                Ok(count) => {
                    self.at_eof = count == 0;
                    return Ok(count);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted && !interrupt::requested() => {}
                Err(e) => return Err(TraceError::io(&self.path, e)),
            }
        }
    }

    /// Moves the beginning of an overlong line to the beginning of the buffer, and skips to its end.
    fn skip_line(&mut self) -> Result<()> {
        self.buffer.copy_within(self.start..self.start + LONGEST, 0);
        self.bytes += (self.end - self.start) as u64;
        loop {
            let count = self.read_at(LONGEST)?;
            self.end = LONGEST + count;
            let line_end = memchr::memchr(b'\n', &self.buffer[LONGEST..self.end]);
            let used = line_end.map_or(count, |at| at + 1);
            self.start = LONGEST + used;
            self.bytes += used as u64;
            if line_end.is_some() || self.at_eof {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
