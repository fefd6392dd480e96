//! Several files read as one trace: the first byte chooses the format, two more the files' lengths.

#![no_main]

use blklab_fuzz::{file, read};
use blklab_trace::formats::FORMATS;
use blklab_trace::source::OpenInput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, first, second, bytes @ ..] = data else { return };
    // Half of the time blktrace, whose per-CPU files are always read together.
    let number = usize::from(choice / 2) % FORMATS.len();
    let format = if choice % 2 == 0 { &FORMATS[0] } else { &FORMATS[number] };
    if format.name == "parquet" {
        return;
    }
    let (a, rest) = bytes.split_at(bytes.len() * usize::from(*first) / 256);
    let (b, c) = rest.split_at(rest.len() * usize::from(*second) / 256);
    let inputs = vec![
        OpenInput { name: "one".into(), files: vec![file("one.blktrace.0", a), file("one.blktrace.1", b)] },
        OpenInput { name: "two".into(), files: vec![file("two.blktrace.0", c)] },
    ];
    read(format, inputs, bytes.len());
});
