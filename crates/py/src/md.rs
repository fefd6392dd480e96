//! md for Python: the metadata of a file or a device as JSON text, the facts of levels, and the maps of arrays.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use blklab_md::map::{ArrayMap, MemberSector};
use blklab_md::{LEVELS, Level, Source, examine};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{BlklabError, UsageError};

/// Linux's O_DIRECT (include/uapi/asm-generic/fcntl.h; x86, RISC-V, s390) and arm's own.
const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm", target_arch = "powerpc64")) {
    0o200_000
} else {
    0o40_000
};

/// O_NONBLOCK, the same on all architectures except MIPS: opening a pipe must not block.
const O_NONBLOCK: i32 = 0o4_000;

/// Direct I/O requires addresses, offsets and lengths that are multiples of at most this.
const PAGE: usize = 4096;

/// Reads md's metadata from a file or device, without writing; returns it as JSON text (crates/md, `Examined`).
///
/// Devices are read around the page cache, whose copy can be older than md's own writes.
#[pyfunction]
pub fn examine_md(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| {
        let name = path.display();
        let opened = OpenDevice::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::IsADirectory => {
                UsageError::new_err(format!("{name}: {error}"))
            }
            _ => BlklabError::new_err(format!("{name}: {error}")),
        })?;
        let examined = examine(&opened).map_err(|error| BlklabError::new_err(format!("{name}: {error}")))?;
        serde_json::to_string(&examined).map_err(|error| BlklabError::new_err(error.to_string()))
    })
}

/// Returns the facts of all levels that blklab knows, as JSON text (crates/md, `LEVELS`).
#[pyfunction]
pub fn md_levels() -> String {
    serde_json::to_string(&LEVELS).expect("facts are JSON")
}

/// The map of an array (crates/md, `ArrayMap`). Sectors of members count from the beginning of their data.
#[pyclass(frozen)]
pub struct MdMap(ArrayMap);

/// Most pieces of a range that are mapped.
const MOST_PIECES: usize = 1024;

#[pymethods]
impl MdMap {
    /// Raises ValueError for an impossible array, and for an unknown level or layout.
    #[new]
    fn new(level: &str, layout: u32, chunk_sectors: u64, members: Vec<u64>) -> PyResult<Self> {
        let level = serde_json::from_value::<Level>(level.into()).map_err(|error| error.to_string());
        let map = level
            .and_then(|level| ArrayMap::new(level, layout, chunk_sectors, &members).map_err(|error| error.to_string()));
        map.map(Self).map_err(PyValueError::new_err)
    }

    /// Sectors of the array.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    /// Returns the array's ranges (sector, sectors) in a range of a slot, one for each chunk; None if there are too many.
    ///
    /// With `parity_as_data`, parity is mapped to the first data of its stripe.
    fn array_ranges(&self, slot: u32, sector: u64, sectors: u64, parity_as_data: bool) -> Option<Vec<(u64, u64)>> {
        let (mut sector, end) = (sector, sector.saturating_add(sectors));
        let mut pieces = Vec::new();
        for _ in 0..=MOST_PIECES {
            if sector >= end {
                return Some(pieces);
            }
            let length = self.0.member_boundary(sector).min(end - sector);
            let place = MemberSector { slot, sector };
            let first = || if parity_as_data { self.0.first_of_stripe(place) } else { None };
            pieces.extend(self.0.array_sector(place).or_else(first).map(|at| (at, length)));
            sector += length;
        }
        None
    }

    /// Returns the slots that have a copy of an array sector, or a part of its stripe; none behind the array's end.
    fn slots(&self, sector: u64) -> Vec<u32> {
        if sector < self.0.capacity() { self.0.slots(sector) } else { Vec::new() }
    }

    /// Tells whether the array has all data without the members of these slots.
    fn runs_without(&self, lost: Vec<u32>) -> bool {
        self.0.check_lost(&lost).is_ok()
    }
}

/// A file or a device, open for reading.
struct OpenDevice {
    file: File,
    bytes: u64,
}

impl OpenDevice {
    fn open(path: &PathBuf) -> io::Result<Self> {
        // Some filesystems have no direct I/O: then images are read without.
        let open = |flags| OpenOptions::new().read(true).custom_flags(O_NONBLOCK | flags).open(path);
        let mut file = match open(O_DIRECT) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => open(0)?,
            other => other?,
        };
        if file.metadata()?.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, bytes })
    }
}

impl Source for OpenDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let skipped = (offset % PAGE as u64) as usize;
        let wanted = (skipped + buffer.len()).next_multiple_of(PAGE);
        let mut pages = vec![0; wanted + PAGE];
        let begin = pages.as_ptr().align_offset(PAGE);
        let aligned = &mut pages[begin..begin + wanted];
        let mut filled = 0;
        while filled < skipped + buffer.len() {
            // A file can end within a page; then the kernel returns fewer bytes.
            match self.file.read_at(&mut aligned[filled..], offset - skipped as u64 + filled as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.copy_from_slice(&aligned[skipped..skipped + buffer.len()]);
        Ok(())
    }
}
