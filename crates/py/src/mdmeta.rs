//! md's metadata for Python: of a file or a device, as JSON text.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use blklab_mdmeta::{Region, Source, examine};
use pyo3::prelude::*;

use crate::failures::{BlklabError, UsageError};

/// Linux's O_DIRECT (include/uapi/asm-generic/fcntl.h; x86, RISC-V, s390) and arm's own.
const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm", target_arch = "powerpc64")) {
    0o200_000
} else {
    0o40_000
};

/// O_NONBLOCK, the same on all that Rust knows but MIPS: a pipe is not waited for.
const O_NONBLOCK: i32 = 0o4_000;

/// What direct I/O wants addresses, offsets and lengths to be multiples of, at most.
const PAGE: usize = 4096;

/// Reads md's metadata of a file or a device, which is only read; returns them as JSON text (crates/mdmeta, `Examined`).
///
/// `offset` is where the member begins there, and `size` how long it is, both in bytes: of all behind it, unless given.
/// Devices are read around the page cache, whose copy may be older than what md wrote itself.
#[pyfunction]
#[pyo3(signature = (path, offset=0, size=None))]
pub fn examine_md(py: Python<'_>, path: PathBuf, offset: u64, size: Option<u64>) -> PyResult<String> {
    py.detach(|| {
        let name = path.display();
        let opened = Opened::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::IsADirectory => {
                UsageError::new_err(format!("{name}: {error}"))
            }
            _ => BlklabError::new_err(format!("{name}: {error}")),
        })?;
        let rest = opened.bytes.checked_sub(offset).ok_or_else(|| {
            UsageError::new_err(format!("{name}: offset {offset} is behind its end at {}", opened.bytes))
        })?;
        let region = Region { source: &opened, offset, bytes: size.unwrap_or(rest).min(rest) };
        let found = examine(&region).map_err(|error| BlklabError::new_err(format!("{name}: {error}")))?;
        serde_json::to_string(&found).map_err(|error| BlklabError::new_err(error.to_string()))
    })
}

/// A file or a device, open for reading.
struct Opened {
    file: File,
    bytes: u64,
}

impl Opened {
    fn open(path: &PathBuf) -> io::Result<Self> {
        // Not every filesystem knows direct I/O: images are read as they can be.
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

impl Source for Opened {
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
            // A file may end within a page; the kernel then gives what there is.
            match self.file.read_at(&mut aligned[filled..], offset - skipped as u64 + filled as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(many) => filled += many,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.copy_from_slice(&aligned[skipped..skipped + buffer.len()]);
        Ok(())
    }
}
