//! A file that appears under its name only when it is complete.

use crate::error::{Result, TraceError};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER: usize = 256 << 10;

/// Output under a temporary name in the destination's directory: [`OutputFile::commit`] syncs and renames it;
/// dropping it before removes it.
///
/// `-` is standard output, and pipes and character devices are written directly; block devices are refused.
pub struct OutputFile {
    pub shown: String, // The path for messages
    target: Destination,
    sink: Option<BufWriter<File>>, // Present until the file is committed or dropped
    bytes: u64,
}

enum Destination {
    Stream,
    File { temporary: PathBuf, destination: PathBuf },
}

impl OutputFile {
    /// Opens the temporary file.
    pub fn create(path: &Path) -> Result<OutputFile> {
        let shown = path.to_string_lossy().into_owned();
        if shown == "-" {
            let shown = "standard output";
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(|e| TraceError::io(shown, e))?;
            return Ok(Self::new(shown.into(), Destination::Stream, stdout.into()));
        }
        let fail = |e| TraceError::io(&shown, e);
        let destination = match fs::metadata(path) {
            Ok(meta) if meta.is_file() => fs::canonicalize(path).map_err(fail)?,
            Ok(meta) if meta.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(meta) if meta.file_type().is_char_device() || meta.file_type().is_fifo() => {
                let file = File::options().write(true).open(path).map_err(fail)?;
                return Ok(Self::new(shown, Destination::Stream, file));
            }
            Ok(_) => {
                return Err(TraceError::Request(format!(
                    "{shown}: not a file: expected a file or a pipe; traces are not written to devices or sockets"
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(fail(e)),
        };
        let temporary = temporary_name(&destination);
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(fail)?;
        Ok(Self::new(shown, Destination::File { temporary, destination }, file))
    }

    fn new(shown: String, target: Destination, file: File) -> OutputFile {
        OutputFile { shown, target, sink: Some(BufWriter::with_capacity(BUFFER, file)), bytes: 0 }
    }

    /// Writes bytes; an error names the file.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|e| TraceError::io(&self.shown, e))
    }

    /// Syncs the content and gives it its name. Returns the name and the number of bytes.
    pub fn commit(mut self) -> Result<(String, u64)> {
        self.sync()?;
        let result = self.rename_into_place();
        result.map_err(|e| TraceError::io(&self.shown, e))?;
        Ok((self.shown.clone(), self.bytes))
    }

    /// Syncs the content under the temporary name, so that [`OutputFile::commit`] only renames.
    pub fn sync(&mut self) -> Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let written = sink.flush().and_then(|()| match self.target {
            Destination::File { .. } => sink.get_ref().sync_all(),
            Destination::Stream => Ok(()),
        });
        written.map_err(|e| TraceError::io(&self.shown, e))
    }

    fn rename_into_place(&mut self) -> io::Result<()> {
        drop(self.sink.take());
        if let Destination::File { temporary, destination } = &self.target {
            if let Err(e) = fs::rename(temporary, destination) {
                let _ = fs::remove_file(temporary);
                return Err(e);
            }
            let directory = destination.parent().filter(|d| !d.as_os_str().is_empty());
            // Some filesystems cannot sync a directory; the file itself is safe.
            let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|d| d.sync_all());
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sink) = &mut self.sink else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let count = sink.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let (Some(sink), Destination::File { temporary, .. }) = (self.sink.take(), &self.target) {
            drop(sink.into_parts());
            let _ = fs::remove_file(temporary);
        }
    }
}

fn temporary_name(destination: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = destination.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // Shortened, so that it works for the longest names that a filesystem allows.
    let name: String = name.chars().take(100).collect();
    destination.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()))
}

#[cfg(test)]
mod tests;
