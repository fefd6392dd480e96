//! Foreign metadata that md can assemble and mdadm handles: recognised, not read.

use serde::Serialize;

use crate::SECTOR;
use crate::source::{ReadError, Source, read};

/// A foreign metadata format.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForeignMetadata {
    /// SNIA's Disk Data Format (DDF 2.0, 4.1: the anchor is the last sector).
    Ddf,
    /// Intel Matrix Storage Manager (mdadm's super-intel.c: the anchor is the last sector but one).
    Imsm,
}

/// The anchor's signature, big-endian; mdadm's super-ddf.c accepts no other byte order.
const DDF: [u8; 4] = 0xde11_de11_u32.to_be_bytes();
const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";

pub(crate) fn recognise(source: &(impl Source + ?Sized)) -> Result<Vec<ForeignMetadata>, ReadError> {
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
