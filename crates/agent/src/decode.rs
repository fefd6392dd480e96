//! Output as text, whatever its bytes are, though it comes in pieces.

/// Turns pieces of bytes into text; a character may lie across two of them.
#[derive(Default)]
pub struct Decoder(Vec<u8>);

impl Decoder {
    /// Returns the text that is certain by now.
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

    /// Returns what is left when nothing more comes.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_read_as_the_whole(
            text in ".{0,20}", noise in prop::collection::vec(any::<u8>(), 0..20), size in 1usize..6,
        ) {
            let bytes = [text.as_bytes(), &noise, text.as_bytes()].concat();
            let mut decoder = Decoder::default();
            let mut read: String = bytes.chunks(size).map(|piece| decoder.feed(piece)).collect();
            read += &decoder.finish();
            prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
        }
    }
}
