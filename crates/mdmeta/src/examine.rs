//! From a source of bytes to all metadata that are found in it.

use serde::Serialize;

use crate::source::{Error, Source, read};
use crate::{
    BadBlocks, Bitmap, Foreign, Member, SECTOR, Superblock, Superblock1, badblocks, bitmap, foreign, v0, v1,
};

/// Sectors of a bad-block list that the kernel takes: a page (`super_1_load`).
const LONGEST: u16 = 8;

/// What was found on a member, or what might be one.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// md's own superblocks: one on a sound member, none elsewhere. More are leftovers of another life.
    pub members: Vec<Member>,
    /// Metadata of others.
    pub foreign: Vec<Foreign>,
}

/// Looks at every place where a superblock may be, and reads what belongs to those that are there.
///
/// A superblock whose checksum does not hold is given all the same, and says so. An error is that of the source only.
pub fn examine(source: &(impl Source + ?Sized)) -> Result<Examined, Error> {
    let mut members = Vec::new();
    for minor in [1, 2, 0] {
        if let Some(offset) = v1::offset(minor, source.bytes()) {
            members.extend(version_1(source, minor, offset)?);
        }
    }
    if let Some(offset) = v0::offset(source.bytes()) {
        members.extend(version_0(source, offset)?);
    }
    Ok(Examined { members, foreign: foreign::find(source)? })
}

fn version_1(source: &(impl Source + ?Sized), minor: u32, offset: u64) -> Result<Option<Member>, Error> {
    let room = source.bytes().saturating_sub(offset).min(v1::BYTES as u64) as usize;
    let Some(found) = read(source, offset, room)? else { return Ok(None) };
    let Some((superblock, checksum, mut problems)) = v1::parse(&found, minor, offset) else {
        return Ok(None);
    };
    let bad_blocks = list(source, &superblock, offset, &mut problems)?;
    let bitmap = if superblock.feature_map & v1::BITMAP != 0 && superblock.bitmap_offset != 0 {
        bits(source, relative(offset, superblock.bitmap_offset), &mut problems)?
    } else {
        None
    };
    if !checksum.holds() {
        problems.push(format!(
            "checksum {:08x} is stored, its bytes have {:08x}",
            checksum.stored, checksum.computed
        ));
    }
    Ok(Some(Member {
        offset,
        checksum,
        superblock: Superblock::V1(Box::new(superblock)),
        bad_blocks,
        bitmap,
        problems,
    }))
}

fn version_0(source: &(impl Source + ?Sized), offset: u64) -> Result<Option<Member>, Error> {
    let Some(found) = read(source, offset, v0::BYTES)? else { return Ok(None) };
    let Some((superblock, checksum)) = v0::parse(&found) else { return Ok(None) };
    let mut problems = Vec::new();
    // `MD_SB_BYTES` behind the superblock (md-bitmap.c and md.c, `default_offset`).
    let bitmap =
        if superblock.bitmap { bits(source, Some(offset + v0::BYTES as u64), &mut problems)? } else { None };
    if !checksum.holds() {
        problems.push(format!(
            "checksum {:08x} is stored, its bytes have {:08x}",
            checksum.stored, checksum.computed
        ));
    }
    Ok(Some(Member {
        offset,
        checksum,
        superblock: Superblock::V0(superblock),
        bad_blocks: None,
        bitmap,
        problems,
    }))
}

/// A place so many sectors from another, bytes.
fn relative(offset: u64, sectors: i32) -> Option<u64> {
    offset.checked_add_signed(i64::from(sectors) * SECTOR as i64)
}

fn list(
    source: &(impl Source + ?Sized),
    superblock: &Superblock1,
    offset: u64,
    problems: &mut Vec<String>,
) -> Result<Option<BadBlocks>, Error> {
    if superblock.bblog_size == 0 || superblock.bblog_offset == 0 {
        return Ok(None);
    }
    let active = superblock.feature_map & v1::BAD_BLOCKS != 0;
    let at = relative(offset, superblock.bblog_offset);
    let mut found = BadBlocks {
        sector: at.unwrap_or(0) / SECTOR,
        sectors: superblock.bblog_size,
        shift: superblock.bblog_shift,
        active,
        entries: Vec::new(),
    };
    if active {
        if superblock.bblog_size > LONGEST {
            problems.push(format!(
                "bad-block list: {} sectors, {LONGEST} are the most: the kernel refuses this member",
                superblock.bblog_size
            ));
        }
        let many = usize::from(superblock.bblog_size.min(LONGEST)) * SECTOR as usize;
        match at.map(|at| read(source, at, many)).transpose()?.flatten() {
            Some(area) => {
                let (entries, problem) = badblocks::entries(&area, superblock.bblog_shift);
                found.entries = entries;
                problems.extend(problem);
            }
            None => problems.push(format!(
                "bad-block list: {} sectors at {} from the superblock are not on the device",
                superblock.bblog_size, superblock.bblog_offset
            )),
        }
    }
    Ok(Some(found))
}

fn bits(
    source: &(impl Source + ?Sized),
    at: Option<u64>,
    problems: &mut Vec<String>,
) -> Result<Option<Bitmap>, Error> {
    let area = at.map(|at| read(source, at, bitmap::BYTES)).transpose()?.flatten();
    let found = area.and_then(|area| bitmap::parse(&area, at.unwrap_or(0)));
    if found.is_none() {
        problems.push("bitmap: the superblock says that there is one, and it is not there".to_owned());
    }
    Ok(found)
}
