//! Sources of bytes, and all metadata in them.

use std::io;

use serde::Serialize;

use crate::{BadBlocks, Bitmap, Member, SECTOR, badblocks, bitmap, bytes, refusal, v0, v1};

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
fn read(source: &(impl Source + ?Sized), offset: u64, many: usize) -> Result<Option<Vec<u8>>, ReadError> {
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

/// All metadata on a device or image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Examined {
    /// md's superblocks: a correct member has exactly one. Others are left over from earlier use.
    pub members: Vec<Member>,
    /// Metadata in foreign formats.
    pub foreign: Vec<ForeignMetadata>,
}

/// Examines every position where a superblock can be, and reads everything that belongs to the superblocks.
///
/// A superblock that the kernel refuses is returned with the reasons. An error means that the source cannot be read.
pub fn examine(source: &(impl Source + ?Sized)) -> Result<Examined, ReadError> {
    let mut members = Vec::new();
    for minor in [1, 2, 0] {
        if let Some(offset) = v1::offset(minor, source.bytes()) {
            members.extend(read_version_1(source, minor, offset)?);
        }
    }
    if let Some(offset) = v0::offset(source.bytes()) {
        members.extend(read_version_0(source, offset)?);
    }
    Ok(Examined { members, foreign: recognise_foreign(source)? })
}

fn read_version_1(source: &(impl Source + ?Sized), minor: usize, offset: u64) -> Result<Option<Member>, ReadError> {
    let length = source.bytes().saturating_sub(offset).min(v1::BYTES as u64) as usize;
    let Some(bytes) = read(source, offset, length)? else { return Ok(None) };
    let Some((superblock, checksum, mut problems)) = v1::parse(&bytes, minor, offset) else {
        return Ok(None);
    };
    let bad_blocks = read_bad_blocks(source, &bytes, offset, &mut problems)?;
    let bitmap_offset = bytes::i32(&bytes, 96);
    let bitmap_superblock = if superblock.bitmap && bitmap_offset != 0 {
        read_bitmap(source, offset_by(offset, bitmap_offset), &mut problems)?
    } else {
        None
    };
    let refusal_reasons = refusal::of_version_1(&superblock, checksum, &bytes);
    Ok(Some(Member { offset, checksum, superblock, bad_blocks, bitmap_superblock, refusal_reasons, problems }))
}

fn read_version_0(source: &(impl Source + ?Sized), offset: u64) -> Result<Option<Member>, ReadError> {
    let Some(bytes) = read(source, offset, v0::BYTES)? else { return Ok(None) };
    let Some((superblock, checksum)) = v0::parse(&bytes) else { return Ok(None) };
    let mut problems = Vec::new();
    // `MD_SB_BYTES` behind the superblock (md-bitmap.c and md.c, `default_offset`).
    let bitmap_superblock =
        if superblock.bitmap { read_bitmap(source, Some(offset + v0::BYTES as u64), &mut problems)? } else { None };
    let refusal_reasons = refusal::of_version_0(&superblock, checksum);
    Ok(Some(Member { offset, checksum, superblock, bad_blocks: None, bitmap_superblock, refusal_reasons, problems }))
}

/// An offset in bytes, plus a number of sectors.
fn offset_by(offset: u64, sectors: i32) -> Option<u64> {
    offset.checked_add_signed(i64::from(sectors) * SECTOR as i64)
}

fn read_bad_blocks(
    source: &(impl Source + ?Sized), superblock: &[u8], offset: u64, problems: &mut Vec<String>,
) -> Result<Option<BadBlocks>, ReadError> {
    let (shift, sectors, place) = (superblock[185], bytes::u16(superblock, 186), bytes::i32(superblock, 188));
    if sectors == 0 || place == 0 {
        return Ok(None);
    }
    let active = bytes::u32(superblock, 8) & v1::BAD_BLOCKS != 0;
    let at = offset_by(offset, place);
    let mut bad_blocks = BadBlocks { sector: at.unwrap_or(0) / SECTOR, sectors, shift, active, entries: Vec::new() };
    if active {
        let length = usize::from(sectors.min(refusal::LONGEST_LIST)) * SECTOR as usize;
        match at.map(|at| read(source, at, length)).transpose()?.flatten() {
            Some(area) => {
                let (entries, problem) = badblocks::parse_entries(&area, shift);
                bad_blocks.entries = entries;
                problems.extend(problem);
            }
            None => problems.push(format!(
                "bad-block list: {sectors} sectors at {place} from the superblock are not on the device"
            )),
        }
    }
    Ok(Some(bad_blocks))
}

fn read_bitmap(
    source: &(impl Source + ?Sized), at: Option<u64>, problems: &mut Vec<String>,
) -> Result<Option<Bitmap>, ReadError> {
    let area = at.map(|at| read(source, at, bitmap::BYTES)).transpose()?.flatten();
    let bitmap = area.and_then(|area| bitmap::parse(&area, at.unwrap_or(0)));
    if bitmap.is_none() {
        problems.push("bitmap: not found where the superblock says that it is".to_owned());
    }
    Ok(bitmap)
}

/// A foreign metadata format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub enum ForeignMetadata {
    /// SNIA's Disk Data Format (DDF 2.0, 4.1: the anchor is the last sector).
    #[serde(rename = "DDF")]
    Ddf,
    /// Intel Matrix Storage Manager (mdadm's super-intel.c: the anchor is the last sector but one).
    #[serde(rename = "Intel IMSM")]
    Imsm,
}

/// The anchor's signature, big-endian; mdadm's super-ddf.c accepts no other byte order.
const DDF: [u8; 4] = 0xde11_de11_u32.to_be_bytes();
const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";

/// Recognises metadata that md can assemble and mdadm handles; they are not read.
fn recognise_foreign(source: &(impl Source + ?Sized)) -> Result<Vec<ForeignMetadata>, ReadError> {
    let mut recognised = Vec::new();
    let sectors = source.bytes() / SECTOR;
    if sectors < 2 {
        return Ok(recognised);
    }
    let Some(last) = read(source, (sectors - 2) * SECTOR, 2 * SECTOR as usize)? else {
        return Ok(recognised);
    };
    if last[SECTOR as usize..].starts_with(&DDF) {
        recognised.push(ForeignMetadata::Ddf);
    }
    if last.starts_with(IMSM) {
        recognised.push(ForeignMetadata::Imsm);
    }
    Ok(recognised)
}
