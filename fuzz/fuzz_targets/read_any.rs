//! Every reader on any bytes: the first byte chooses the format, the others are the file.

#![no_main]

use blklab_fuzz::{file, read};
use blklab_trace::formats::FORMATS;
use blklab_trace::source::OpenInput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let format = &FORMATS[usize::from(choice) % FORMATS.len()];
    // Parquet is read from a file by its path; its library has its own fuzz targets.
    if format.name != "parquet" {
        let input = OpenInput { name: String::new(), files: vec![file("a", bytes)] };
        read(format, vec![input], bytes.len());
    }
});
