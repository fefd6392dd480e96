use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn pieces_decode_like_the_whole(
        text in ".{0,20}", noise in prop::collection::vec(any::<u8>(), 0..20), size in 1usize..6,
    ) {
        let bytes = [text.as_bytes(), &noise, text.as_bytes()].concat();
        let mut decoder = Decoder::default();
        let mut read: String = bytes.chunks(size).map(|piece| decoder.feed(piece)).collect();
        read += &decoder.finish();
        prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
    }
}
