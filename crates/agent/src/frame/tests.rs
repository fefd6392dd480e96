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
        prop_assert_eq!(read(&mut &frame[..cut]), Err(format!("the stream ended {cut} bytes into a frame")));
    }
}

#[test]
fn what_is_too_long_is_refused_both_ways() {
    let length = LONGEST as u32 + 1;
    let message = format!("a frame of {length} bytes: expected at most {LONGEST}");
    assert_eq!(read(&mut &length.to_le_bytes()[..]), Err(message));
    assert_eq!(encode(&"x".repeat(LONGEST)), Err(LONGEST + 2));
    assert!(encode(&"x".repeat(LONGEST - 2)).is_ok());
}
