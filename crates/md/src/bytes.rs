//! Little-endian numbers at fixed offsets.

/// The `N` bytes at an offset; zeros beyond the end, so callers check the length.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    if let Some(there) = bytes.get(at..).and_then(|rest| rest.get(..N)) {
        value.copy_from_slice(there);
    }
    value
}

/// A 16-bit number.
pub fn u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// A 32-bit number.
pub fn u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// A signed 32-bit number.
pub fn i32(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(array(bytes, at))
}

/// A 64-bit number.
pub fn u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Text up to a zero byte.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
