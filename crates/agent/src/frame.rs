//! Frames: a little-endian u32 with the length, then that many bytes of JSON.

use serde::Serialize;
use std::fmt;
use std::io::{self, Read, Write};

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
    let head = read_up_to(stream, 4)?;
    let Some(&head) = head.first_chunk() else {
        return if head.is_empty() { Ok(None) } else { Err(FrameError::CutOff(head.len())) };
    };
    let length = u32::from_le_bytes(head);
    if length as usize > LONGEST {
        return Err(FrameError::TooLong(length));
    }
    let content = read_up_to(stream, length)?;
    if content.len() < length as usize { Err(FrameError::CutOff(4 + content.len())) } else { Ok(Some(content)) }
}

/// Reads bytes, fewer at the end of the stream.
fn read_up_to(stream: &mut impl Read, bytes: u32) -> Result<Vec<u8>, FrameError> {
    let mut content = Vec::with_capacity(bytes as usize);
    stream.take(bytes.into()).read_to_end(&mut content).map_err(FrameError::Io)?;
    Ok(content)
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
