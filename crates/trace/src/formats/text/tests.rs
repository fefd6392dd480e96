use super::*;
use std::io::Cursor;

fn lines(text: Vec<u8>) -> (Vec<Vec<u8>>, u64) {
    let mut lines = Lines::new("x".into(), Box::new(Cursor::new(text)));
    let mut all = Vec::new();
    while let Some(line) = lines.next().unwrap() {
        all.push(line.to_vec());
    }
    (all, lines.input.offset)
}

#[test]
fn line_ends_of_both_kinds_and_none_at_the_end_of_the_file() {
    let (all, bytes) = lines(b"a\r\n\nbc\nd".to_vec());
    assert_eq!(all, [&b"a"[..], b"", b"bc", b"d"]);
    assert_eq!(bytes, 8);
}

#[test]
fn an_overlong_line_is_cut_and_the_next_one_whole() {
    for length in [LONGEST - 1, LONGEST, LONGEST + 1, BUFFER, 3 * BUFFER + 7] {
        let mut text = b"first\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', length));
        text.extend(b"\nlast\n");
        let size = text.len() as u64;
        let (all, bytes) = lines(text);
        assert_eq!(all.len(), 3, "{length}");
        assert_eq!(all[1].len(), length.min(LONGEST));
        assert_eq!(all[2], b"last");
        assert_eq!(bytes, size);
    }
}
