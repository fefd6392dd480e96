//! Whatever lies where md's metadata may be.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = blklab_mdmeta::examine(bytes).expect("bytes in memory are readable");
    for member in found.members {
        assert!(member.bad_blocks.is_none_or(|list| list.entries.len() <= 512));
    }
});
