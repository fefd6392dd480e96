//! Frames: a little-endian u32 with the length, then that many bytes of JSON.

use serde::Serialize;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// The longest frame, in bytes of JSON; the host has the same limit.
pub const LONGEST: usize = 16 << 20;

/// Why no more frames can be read.
#[derive(Debug)]
pub enum FrameError {
    /// The stream ended after this number of bytes of a frame.
    CutOff(usize),
    /// A frame is longer than allowed.
    TooLong(u32),
    /// The stream cannot be read.
    Io(io::Error),
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns only a few bytes at a time, as a port can.
    struct SlowReader<'a>(&'a [u8], usize);

    impl Read for SlowReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(buffer.len());
            self.0.read(&mut buffer[..some])
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec(".{0,40}", 0..8), some in 1usize..9) {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| encode(text).unwrap()).collect();
            let mut stream = SlowReader(&bytes, some);
            for text in &texts {
                let content = read(&mut stream).unwrap().unwrap();
                prop_assert_eq!(&serde_json::from_slice::<String>(&content).unwrap(), text);
            }
            prop_assert!(read(&mut stream).unwrap().is_none());
        }

        #[test]
        fn any_bytes_are_a_frame_an_end_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut stream = &bytes[..];
            while let Ok(Some(content)) = read(&mut stream) {
                prop_assert!(content.len() <= bytes.len());
            }
        }

        #[test]
        fn a_frame_cut_short_is_an_error(text in ".{0,40}", cut in 1usize..200) {
            let frame = encode(&text).unwrap();
            let cut = 1 + cut % (frame.len() - 1);
            let is_cut = matches!(read(&mut &frame[..cut]), Err(FrameError::CutOff(bytes)) if bytes == cut);
            prop_assert!(is_cut);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_both_ways() {
        let length = LONGEST as u32 + 1;
        assert!(matches!(read(&mut &length.to_le_bytes()[..]), Err(FrameError::TooLong(l)) if l == length));
        assert_eq!(encode(&"x".repeat(LONGEST)), Err(LONGEST + 2));
        assert!(encode(&"x".repeat(LONGEST - 2)).is_ok());
    }
}
