//! The hash function of all samples and sketches.

/// A bijective mixer of 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014;
/// constants of David Stafford's Mix13) after adding the golden ratio, so that 0 is mixed too.
#[inline]
pub fn hash64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
