//! Little-endian numbers at fixed places.

/// The `N` bytes at a place; zeros beyond the end, which a caller has checked the length against.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    if let Some(there) = bytes.get(at..).and_then(|rest| rest.get(..N)) {
        found.copy_from_slice(there);
    }
    found
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

/// Text that a zero byte ends.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
