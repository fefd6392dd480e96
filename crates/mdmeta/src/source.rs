//! Where bytes come from.

use std::io;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, at an offset in bytes.
    #[error("{wanted} B at offset {offset} cannot be read: {reason}")]
    Read {
        /// Where.
        offset: u64,
        /// How much was wanted.
        wanted: usize,
        /// Why not.
        reason: io::Error,
    },
}

/// A member: a device, a partition, an image.
pub trait Source {
    /// How long it is, in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on. Offsets and lengths are multiples of 4096, or of what the end leaves.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Source for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| self.get(at..));
        let there = from.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A part of a source: a partition at an offset.
pub struct Region<'a, S: Source + ?Sized> {
    /// What it is a part of.
    pub source: &'a S,
    /// Where it begins there, bytes.
    pub offset: u64,
    /// How long it is, bytes.
    pub bytes: u64,
}

impl<S: Source + ?Sized> Source for Region<'_, S> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|&end| end <= self.bytes);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.source.read_at(self.offset + offset, buffer)
    }
}

/// What pages are: direct I/O wants offsets and lengths that are multiples of a device's block.
const PAGE: u64 = 4096;

/// The bytes at a place, read in whole pages; `None` if they are not all there.
pub(crate) fn read(
    source: &(impl Source + ?Sized),
    offset: u64,
    many: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(end) = offset.checked_add(many as u64).filter(|&end| end <= source.bytes()) else {
        return Ok(None);
    };
    let from = offset / PAGE * PAGE;
    let to = end.next_multiple_of(PAGE).min(source.bytes());
    let mut buffer = vec![0; (to - from) as usize];
    source.read_at(from, &mut buffer).map_err(|reason| Error::Read {
        offset: from,
        wanted: buffer.len(),
        reason,
    })?;
    let skipped = (offset - from) as usize;
    Ok(Some(buffer[skipped..skipped + many].to_vec()))
}
