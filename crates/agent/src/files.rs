//! Reads files to their end and writes them with one write, as /proc and /sys require.

use crate::{failure::reason, glob};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

/// The largest number of bytes read from a file.
const MOST: u64 = 4 << 20;

/// Files by path; `None` for a file that cannot be read.
pub type Files = BTreeMap<String, Option<String>>;

/// Reads the files of paths, which can contain `*`.
pub fn read_files(paths: &[String]) -> Files {
    let expanded = paths.iter().flat_map(|path| glob::expand(path));
    expanded.map(|path| (path.clone(), read_file(&path))).collect()
}

fn read_file(path: &str) -> Option<String> {
    // A FIFO without a writer must not block.
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    file.take(MOST).read_to_end(&mut content).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Writes the text with one write(2), as sysfs requires.
pub fn write_file(path: &str, text: &str) -> Result<(), String> {
    // No file can be created here; trying would hide that the file does not exist.
    let fixed = path.starts_with("/sys/") || path.starts_with("/proc/");
    let file = OpenOptions::new().write(true).create(!fixed).truncate(true).open(path);
    let written = file.and_then(|mut file: File| file.write(text.as_bytes()));
    match written {
        Ok(bytes) if bytes == text.len() => Ok(()),
        Ok(bytes) => Err(format!("{path}: only {bytes} of {} bytes were written", text.len())),
        Err(error) => Err(format!("{path}: {}", reason(&error))),
    }
}
