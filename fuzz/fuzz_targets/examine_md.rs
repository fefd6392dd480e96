//! Fuzzes the positions of md's metadata with any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let examined = blklab_md::examine(bytes).expect("bytes in memory are readable");
    for member in examined.members {
        assert!(member.bad_blocks.is_none_or(|list| list.entries.len() <= 512));
    }
});
