//! The content of a partial profile, below its checksum: any bytes are refused, or stay the same when they are stored
//! again.

#![no_main]

use blklab_trace::characterise::Characterisation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(read) = Characterisation::from_content(data) {
        let stored = read.to_content();
        assert!(Characterisation::from_content(&stored).is_some_and(|again| again.to_content() == stored));
    }
});
