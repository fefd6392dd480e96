//! Which files of a filesystem the I/Os of its device went to.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use blklab_stats::Merge;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

const LISTED: usize = 1000; // The largest number of files in a profile
const OUTSIDE: u32 = u32::MAX; // The owner of what is outside of the filesystem

/// Where the files of a filesystem are.
#[derive(Debug)]
pub struct Filesystem {
    mount: String,
    devices: Vec<String>,          // Numbers and names of its device in traces
    owners: Vec<(String, bool)>,   // Paths of files, or what else sectors hold; whether it is a file
    extents: Vec<(u64, u64, u32)>, // First sector, first sector behind it, owner; sorted, without overlaps
}

impl Filesystem {
    /// The filesystem on one of `devices`. The first of several files that share sectors gets them.
    pub fn new(
        mount: String, devices: Vec<String>, owners: Vec<(String, bool)>, mut extents: Vec<(u64, u64, u32)>,
    ) -> Filesystem {
        extents.sort_unstable();
        let mut taken = 0;
        extents.retain_mut(|(begin, end, _)| {
            *begin = taken.max(*begin);
            taken = taken.max(*end);
            begin < end
        });
        Filesystem { mount, devices, owners, extents }
    }

    /// Whether the device has the filesystem.
    fn is_on(&self, device: &ProfiledDevice) -> bool {
        self.devices.iter().any(|known| known == device.number || Some(known.as_str()) == device.name)
    }
}

/// The I/Os of one file.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct FileProfile {
    /// Path of the file; or what else the sectors hold, such as `journal`.
    pub name: String,
    /// Whether it is a file or a directory; otherwise it is free space, a kind of metadata, or outside of the
    /// filesystem.
    pub is_file: bool,
    /// Reads that touched it; a read counts in each file that it touches.
    pub reads: u64,
    /// Writes that touched it; a write counts in each file that it touches.
    pub writes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub write_bytes: u64,
}

/// The files of the filesystem on a device, by I/O.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct FilesProfile {
    /// Where the filesystem is mounted.
    pub mount: String,
    /// The files with most I/Os, the largest number first, at most 1,000.
    pub files: Vec<FileProfile>,
    /// Number of other files that had I/Os.
    pub further: u64,
}

/// Accesses by file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileAccesses {
    stored: bool, // One byte for each device: damaged bytes cannot ask for more devices than they have bytes
    // Not stored: only the machine that has the filesystem counts its files.
    #[serde(skip)]
    filesystem: Option<Arc<Filesystem>>,
    #[serde(skip)]
    by_owner: HashMap<u32, [(u64, u64); 2]>, // I/Os and bytes of reads and of writes
}

impl FileAccesses {
    /// Counts the accesses to the files of a filesystem.
    pub fn new(filesystem: Arc<Filesystem>) -> FileAccesses {
        FileAccesses { filesystem: Some(filesystem), ..FileAccesses::default() }
    }

    /// Counts sectors of an I/O that `touched` these owners before.
    fn add(&mut self, touched: &mut Vec<u32>, owner: u32, side: usize, sectors: u64) {
        let (ios, bytes) = &mut self.by_owner.entry(owner).or_default()[side];
        *bytes += sectors << 9;
        if !touched.contains(&owner) {
            *ios += 1;
            touched.push(owner);
        }
    }
}

impl Panel for FileAccesses {
    type Profile = Option<FilesProfile>;

    fn observe(&mut self, chunk: &Chunk) {
        let Some(filesystem) = self.filesystem.clone() else { return };
        let mut touched = Vec::new();
        for row in &chunk.queued {
            let Some(side) = row.side() else { continue };
            touched.clear();
            let (mut at, end) = (row.sector, row.sector.saturating_add(row.sectors()));
            let first = filesystem.extents.partition_point(|extent| extent.1 <= at);
            for &(begin, behind, owner) in filesystem.extents[first..].iter().take_while(|extent| extent.0 < end) {
                if begin > at {
                    self.add(&mut touched, OUTSIDE, side, begin - at);
                }
                self.add(&mut touched, owner, side, behind.min(end) - begin.max(at));
                at = behind;
            }
            if at < end {
                self.add(&mut touched, OUTSIDE, side, end - at);
            }
        }
    }

    fn profile(&self, device: &ProfiledDevice) -> Option<FilesProfile> {
        let filesystem = self.filesystem.as_ref().filter(|filesystem| filesystem.is_on(device))?;
        let mut files: Vec<FileProfile> = self
            .by_owner
            .iter()
            .map(|(owner, &[(reads, read_bytes), (writes, write_bytes)])| {
                let known = filesystem.owners.get(*owner as usize).cloned();
                let (name, is_file) = known.unwrap_or_else(|| ("outside of the filesystem".into(), false));
                FileProfile { name, is_file, reads, writes, read_bytes, write_bytes }
            })
            .collect();
        files.sort_by(|a, b| (b.reads + b.writes, &a.name).cmp(&(a.reads + a.writes, &b.name)));
        let further = files.len().saturating_sub(LISTED) as u64;
        files.truncate(LISTED);
        Some(FilesProfile { mount: filesystem.mount.clone(), files, further })
    }
}

impl Merge for FileAccesses {
    fn merge(&mut self, other: &Self) {
        for (owner, counts) in &other.by_owner {
            self.by_owner.entry(*owner).or_default().merge(counts);
        }
    }
}

#[cfg(test)]
mod tests;
