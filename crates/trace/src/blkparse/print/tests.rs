use super::TerminalOutput;
use std::io::Write;

fn shown(parts: &[&[u8]]) -> String {
    let mut out = TerminalOutput(Vec::new());
    parts.iter().for_each(|part| out.write_all(part).unwrap());
    String::from_utf8(out.0).unwrap()
}

#[test]
fn plain_lines_and_letters_pass() {
    assert_eq!(shown(&[b"8,0 Q 1 + 8 [", "Bücher".as_bytes(), b"]\n", b"\n"]), "8,0 Q 1 + 8 [Bücher]\n\n");
}

#[test]
fn control_characters_bytes_and_direction_marks_are_escaped() {
    assert_eq!(shown(&[b"\x1b[31m\x07a\nb", b"]\n"]), "\\x1b[31m\\x07a\\x0ab]\n");
    assert_eq!(shown(&[b"a\xffb\x9b"]), "a\\xffb\\x9b");
    assert_eq!(shown(&["\u{9b}\u{202e}x".as_bytes()]), "\\u009b\\u202ex");
}
