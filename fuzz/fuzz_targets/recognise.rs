//! Recognition of any bytes, and reading in the recognised format.

#![no_main]

use blklab_fuzz::{file, read};
use blklab_trace::formats::FORMATS;
use blklab_trace::source::OpenInput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for format in FORMATS {
        if (format.sniff)(data) && format.name != "parquet" {
            let input = OpenInput { name: String::new(), files: vec![file("a", data)] };
            read(format, vec![input], data.len());
        }
    }
});
