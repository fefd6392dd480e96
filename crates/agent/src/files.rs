//! Files read and written, as /proc and /sys want it: read to their end, written at once.

use crate::{failure::reason, glob};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

/// How much of a file is read, in bytes.
const MOST: u64 = 4 << 20;

/// Files by their paths; `None` for one that is not there or cannot be read.
pub type Files = BTreeMap<String, Option<String>>;

/// Reads what the paths, which may have `*`, stand for.
pub fn read(paths: &[String]) -> Files {
    let found = paths.iter().flat_map(|path| glob::expand(path));
    found.map(|path| (path.clone(), read_one(&path))).collect()
}

fn read_one(path: &str) -> Option<String> {
    // A FIFO without a writer must not hold us up.
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    file.take(MOST).read_to_end(&mut content).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Writes the whole text with one write(2), which is what sysfs needs.
pub fn write(path: &str, text: &str) -> Result<(), String> {
    // In these nothing can be created, and to try would hide that the file is not there.
    let fixed = path.starts_with("/sys/") || path.starts_with("/proc/");
    let file = OpenOptions::new().write(true).create(!fixed).truncate(true).open(path);
    let written = file.and_then(|mut file: File| file.write(text.as_bytes()));
    match written {
        Ok(bytes) if bytes == text.len() => Ok(()),
        Ok(bytes) => Err(format!("{path}: only {bytes} of {} bytes were written", text.len())),
        Err(error) => Err(format!("{path}: {}", reason(&error))),
    }
}
