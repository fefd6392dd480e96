//! md's metadata for Python: of a file or a device, as JSON text.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use blklab_mdmeta::{Source, examine};
use pyo3::prelude::*;

use crate::failures::{BlklabError, UsageError};

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

/// Reads md's metadata from a file or device, without writing; returns it as JSON text (crates/mdmeta, `Examined`).
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
