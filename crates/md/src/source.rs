//! Sources of bytes.

use std::io;

/// A read of a source failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {wanted} bytes at offset {offset}: {reason}")]
pub struct ReadError {
    offset: u64,       // The offset in bytes
    wanted: usize,     // The number of bytes
    reason: io::Error, // The system's error
}

/// A member: a device, a partition, an image.
pub trait Source {
    /// Its length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on. Offsets and lengths are multiples of 4096, except at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Source for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let available = from.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(available.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The page size: direct I/O requires offsets and lengths that are multiples of a device's block size.
const PAGE: u64 = 4096;

/// Reads bytes in whole pages; `None` if they are beyond the end.
pub(crate) fn read(source: &(impl Source + ?Sized), offset: u64, many: usize) -> Result<Option<Vec<u8>>, ReadError> {
    let Some(end) = offset.checked_add(many as u64).filter(|&end| end <= source.bytes()) else {
        return Ok(None);
    };
    let from = offset / PAGE * PAGE;
    let to = end.next_multiple_of(PAGE).min(source.bytes());
    let mut buffer = vec![0; (to - from) as usize];
    source.read_at(from, &mut buffer).map_err(|reason| ReadError { offset: from, wanted: buffer.len(), reason })?;
    let skipped = (offset - from) as usize;
    Ok(Some(buffer[skipped..skipped + many].to_vec()))
}
