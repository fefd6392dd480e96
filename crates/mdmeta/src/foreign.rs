//! Metadata of others that md can assemble, and mdadm keeps: named, not read.

use serde::Serialize;

use crate::SECTOR;
use crate::source::{Error, Source, read};

/// Metadata that is not md's own.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Foreign {
    /// SNIA's Disk Data Format (DDF 2.0, 4.1: the anchor is the last sector).
    Ddf,
    /// Intel Matrix Storage Manager (mdadm's super-intel.c: the anchor is the last sector but one).
    Imsm,
}

/// The anchor's signature, big-endian; mdadm's super-ddf.c takes it in no other order.
const DDF: [u8; 4] = 0xde11_de11_u32.to_be_bytes();
const IMSM: &[u8] = b"Intel Raid ISM Cfg Sig. ";

pub(crate) fn find(source: &(impl Source + ?Sized)) -> Result<Vec<Foreign>, Error> {
    let mut found = Vec::new();
    let sectors = source.bytes() / SECTOR;
    if sectors < 2 {
        return Ok(found);
    }
    let Some(last) = read(source, (sectors - 2) * SECTOR, 2 * SECTOR as usize)? else {
        return Ok(found);
    };
    if last[SECTOR as usize..].starts_with(&DDF) {
        found.push(Foreign::Ddf);
    }
    if last.starts_with(IMSM) {
        found.push(Foreign::Imsm);
    }
    Ok(found)
}
