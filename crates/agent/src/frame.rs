//! Frames: a little-endian u32 with the length, then that many bytes of JSON.

use serde::Serialize;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// The longest frame, in bytes of JSON; the host has the same limit.
pub const LONGEST: usize = 16 << 20;

/// Why no more frames can be read.
#[derive(Debug)]
pub enum FrameError {
    CutOff(usize), // The stream ended after this number of bytes of a frame
    TooLong(u32),  // A frame is longer than allowed
    Io(io::Error), // The stream cannot be read
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::CutOff(bytes) => write!(f, "the stream ended {bytes} bytes into a frame"),
            FrameError::TooLong(length) => {
                write!(f, "a frame of {length} bytes: expected at most {LONGEST}")
            }
            FrameError::Io(error) => write!(f, "cannot read a frame: {error}"),
        }
    }
}

/// Returns the next frame's content; `None` at the end of the stream.
pub fn read(stream: &mut impl Read) -> Result<Option<Vec<u8>>, FrameError> {
    let mut head = [0; 4];
    match fill_buffer(stream, &mut head)? {
        0 => return Ok(None),
        4 => {}
        some => return Err(FrameError::CutOff(some)),
    }
    let length = u32::from_le_bytes(head);
    if length as usize > LONGEST {
        return Err(FrameError::TooLong(length));
    }
    let mut content = vec![0; length as usize];
    let filled = fill_buffer(stream, &mut content)?;
    if filled < content.len() { Err(FrameError::CutOff(4 + filled)) } else { Ok(Some(content)) }
}

/// Reads until `buffer` is full or the stream ends; returns the number of bytes.
fn fill_buffer(stream: &mut impl Read, buffer: &mut [u8]) -> Result<usize, FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(some) => filled += some,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok(filled)
}

/// Returns `message` as a frame; the error is the length of a message that is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, usize> {
    let mut frame = vec![0; 4];
    // The messages' keys are strings, so serialising them into memory cannot fail.
    serde_json::to_writer(&mut frame, message).map_err(|_| 0usize)?;
    let length = frame.len() - 4;
    if length > LONGEST {
        return Err(length);
    }
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Writes a frame.
pub fn write(stream: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    stream.write_all(frame)?;
    stream.flush()
}

#[cfg(test)]
mod tests;
