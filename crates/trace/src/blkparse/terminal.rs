//! Text from a trace on a terminal: names and messages must not send commands to it.

use std::io::{self, Write};

/// Passes lines on to a terminal; escapes control and formatting characters and bytes that are not UTF-8, as
/// `blklab.text.printable` does. A character must not be split between two calls.
pub struct TerminalOutput<W>(pub W);

impl<W: Write> Write for TerminalOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Every line ends with a write; a line break before that is part of a name.
        let (text, end) = bytes.strip_suffix(b"\n").map_or((bytes, &b""[..]), |text| (text, b"\n"));
        if text.iter().all(|&byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        for part in text.utf8_chunks() {
            for character in part.valid().chars() {
                match character as u32 {
                    0x09 => self.0.write_all(b"\t")?,
                    code @ 0..0x20 => write!(self.0, "\\x{code:02x}")?,
                    code if is_unsafe(code) => write!(self.0, "\\u{code:04x}")?,
                    _ => write!(self.0, "{character}")?,
                }
            }
            part.invalid().iter().try_for_each(|byte| write!(self.0, "\\x{byte:02x}"))?;
        }
        self.0.write_all(end)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Control characters above ASCII's first, and characters that reorder, hide or end text.
fn is_unsafe(code: u32) -> bool {
    matches!(code, 0x7f..=0x9f | 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
        | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xe0000..=0xe0fff | 0xf0000..)
}

#[cfg(test)]
mod tests;
