//! Decodes output to text: any bytes, in any pieces.

/// Decodes pieces of bytes; a character can be split between two pieces.
#[derive(Default)]
pub struct Decoder(Vec<u8>);

impl Decoder {
    /// Returns the text that is complete so far.
    pub fn feed(&mut self, piece: &[u8]) -> String {
        self.0.extend_from_slice(piece);
        let mut whole = 0;
        loop {
            match std::str::from_utf8(&self.0[whole..]) {
                Ok(_) => whole = self.0.len(),
                Err(error) => {
                    whole += error.valid_up_to();
                    if let Some(wrong) = error.error_len() {
                        whole += wrong;
                        continue;
                    }
                }
            }
            break;
        }
        let text = String::from_utf8_lossy(&self.0[..whole]).into_owned();
        self.0.drain(..whole);
        text
    }

    /// Returns the remaining text at the end.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

#[cfg(test)]
mod tests;
