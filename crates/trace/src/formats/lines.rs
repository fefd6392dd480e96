//! A text file, line by line, in a buffer of fixed size.

use crate::error::Result;
use crate::input_buffer::InputBuffer;
use std::io::Read;

const BUFFER: usize = 256 << 10;
const LONGEST: usize = 64 << 10; // Longer lines are cut: no format has them, and damaged files must not fill the memory

/// Lines of a file.
pub struct Lines {
    pub input: InputBuffer,
    pub number: u64, // Number of the last returned line, from 1
    is_cut: bool,    // Whether the rest of that line must be skipped
}

impl Lines {
    /// A reader of lines of decompressed bytes.
    pub fn new(path: String, source: Box<dyn Read + Send>) -> Lines {
        Lines { input: InputBuffer::new(path, source, BUFFER), number: 0, is_cut: false }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        while self.is_cut {
            let bytes = self.input.bytes();
            let line_end = memchr::memchr(b'\n', bytes);
            self.input.take(line_end.map_or(bytes.len(), |at| at + 1));
            self.is_cut = line_end.is_none() && self.input.require(1)?;
        }
        let mut searched = 0;
        let (len, end) = loop {
            let bytes = self.input.bytes();
            if let Some(at) = memchr::memchr(b'\n', &bytes[searched..]) {
                break (searched + at, searched + at + 1);
            }
            searched = bytes.len();
            if searched > LONGEST || !self.input.require(searched + 1)? {
                break (searched, searched);
            }
        };
        if end == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.is_cut = len == end;
        let line = &self.input.take(end)[..len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(&line[..line.len().min(LONGEST)]))
    }
}

#[cfg(test)]
mod tests;
