//! Frames: a little-endian u32 with the length, then that many bytes of JSON.

use serde::Serialize;
use std::io::{self, Read, Write};

/// The longest frame, in bytes of JSON; the host has the same limit.
pub const LONGEST: usize = 16 << 20;

/// Returns the next frame's content; `None` at the end of the stream. The error says why no more frames can be read.
pub fn read(stream: &mut impl Read) -> Result<Option<Vec<u8>>, String> {
    let cut_off = |bytes| format!("the stream ended {bytes} bytes into a frame");
    let head = read_up_to(stream, 4)?;
    let Some(&head) = head.first_chunk() else {
        return if head.is_empty() { Ok(None) } else { Err(cut_off(head.len())) };
    };
    let length = u32::from_le_bytes(head);
    if length as usize > LONGEST {
        return Err(format!("a frame of {length} bytes: expected at most {LONGEST}"));
    }
    let content = read_up_to(stream, length)?;
    if content.len() < length as usize { Err(cut_off(4 + content.len())) } else { Ok(Some(content)) }
}

/// Reads bytes, fewer at the end of the stream.
fn read_up_to(stream: &mut impl Read, bytes: u32) -> Result<Vec<u8>, String> {
    let mut content = Vec::with_capacity(bytes as usize);
    let read = stream.take(bytes.into()).read_to_end(&mut content);
    read.map(|_| content).map_err(|error| format!("cannot read a frame: {error}"))
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
