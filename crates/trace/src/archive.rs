//! Traces in tar archives: the files of an archive as the files of a recording.
//!
//! Nothing is extracted under a name of the archive. The files are parts of the archive itself, or of an unnamed
//! temporary copy if that is compressed or comes from a pipe.

use crate::error::{Result, TraceError};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Where a tar header has its magic, in the first block (POSIX.1-1988 and GNU).
const MAGIC: std::ops::Range<usize> = 257..262;
const MOST_FILES: usize = 100_000; // The largest number of files that are looked at

/// Whether a file's first bytes are those of a tar archive.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(MAGIC) == Some(b"ustar".as_slice())
}

/// A regular file of an archive.
pub struct ArchivedFile {
    pub name: String,   // Its name without directories
    pub part: FilePart, // Its bytes
}

/// A part of a file, which is read without moving the position of others.
pub struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FilePart {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(out.len());
        let count = self.file.read_at(&mut out[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The regular files of the archive that `reader` holds. `plain` is the archive's path if it is a file that is not
/// compressed; otherwise a temporary copy is made.
pub fn list_files(path: &str, plain: Option<&Path>, mut reader: Box<dyn Read + Send>) -> Result<Vec<ArchivedFile>> {
    let failed = |error| TraceError::io(path, error);
    let file = match plain {
        Some(plain) => File::open(plain).map_err(failed)?,
        None => {
            let mut copy = tempfile::tempfile().map_err(failed)?;
            io::copy(&mut reader, &mut copy).map_err(failed)?;
            copy
        }
    };
    let file = Arc::new(file);
    let whole = FilePart { file: Arc::clone(&file), at: 0, end: u64::MAX };
    let mut archive = tar::Archive::new(BufReader::new(whole));
    let mut files = Vec::new();
    let damaged = |error: io::Error| TraceError::malformed(path, "tar archive", error.to_string());
    for entry in archive.entries().map_err(damaged)?.take(MOST_FILES) {
        let entry = entry.map_err(damaged)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let at = entry.raw_file_position();
        let part = FilePart { file: Arc::clone(&file), at, end: at.saturating_add(entry.size()) };
        files.extend(name.map(|name| ArchivedFile { name, part }));
    }
    Ok(files)
}
