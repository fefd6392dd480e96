//! Files of the guest: read to their end and written with one write, as /proc and /sys require; copied to a device;
//! sampled.

use crate::control::RequestControl;
use crate::{failure::reason, frame};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The largest number of bytes read from a file.
const MOST: u64 = 4 << 20;

/// Files by path; `None` for a file that cannot be read.
pub type Files = BTreeMap<String, Option<String>>;

/// Reads the files of paths, which can contain `*`.
pub fn read_files(paths: &[String]) -> Files {
    let expanded = paths.iter().flat_map(|path| expand(path));
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

// Copies files to a raw block device, from which the host reads data that is too large for the port.

/// Files begin at multiples of this.
const ALIGNED: u64 = 4096;

/// Where a file is on the device.
#[derive(Serialize)]
pub struct ExportedFile {
    path: String,
    offset: u64,
    bytes: u64,
}

/// The files on the device, and the bytes up to the end of the last one.
#[derive(Serialize)]
pub struct Export {
    files: Vec<ExportedFile>,
    bytes: u64,
}

/// Copies files to a device and syncs it.
pub fn export(paths: &[String], device: &str) -> Result<Export, String> {
    let on_device = |error: io::Error| format!("{device}: {}", reason(&error));
    let mut target = OpenOptions::new().write(true).open(device).map_err(on_device)?;
    let size = target.seek(SeekFrom::End(0)).map_err(on_device)?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = Export { files: Vec::new(), bytes: 0 };
    for path in paths.iter().flat_map(|path| expand(path)) {
        let of_file = |error: io::Error| format!("{path}: {}", reason(&error));
        let mut file = File::open(&path).map_err(of_file)?;
        if !file.metadata().map_err(of_file)?.is_file() {
            return Err(format!("{path}: expected a regular file"));
        }
        let offset = done.bytes.next_multiple_of(ALIGNED);
        target.seek(SeekFrom::Start(offset)).map_err(on_device)?;
        let mut bytes = 0;
        loop {
            let count = file.read(&mut buffer).map_err(of_file)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            if offset + bytes > size {
                return Err(format!("{path}: does not fit on {device}, which has {size} bytes"));
            }
            target.write_all(&buffer[..count]).map_err(on_device)?;
        }
        done.bytes = offset + bytes;
        done.files.push(ExportedFile { path, offset, bytes });
    }
    target.sync_all().map_err(on_device)?;
    Ok(done)
}

// Reads files at an interval in the guest, because the host cannot measure the guest's time.

/// The largest number of samples.
const MAX_SAMPLES: usize = 20_000;
/// The largest size of all samples, in bytes: the guest has little memory.
const MAX_BYTES: usize = 128 << 20;
/// The text of one frame, in bytes; JSON makes it at most six times as long, and it is mostly ASCII.
const IN_A_FRAME: usize = frame::LONGEST / 8;

/// The files at one time.
#[derive(Serialize)]
pub struct Sample {
    t_ns: u64, // CLOCK_MONOTONIC, in nanoseconds, before the files were read
    files: Files,
}

impl Sample {
    fn take(paths: &[String]) -> Sample {
        let now = clock_gettime(ClockId::Monotonic);
        let t_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        Sample { t_ns, files: read_files(paths) }
    }

    /// The approximate size in bytes.
    fn size(&self) -> usize {
        let file = |(path, text): (&String, &Option<String>)| path.len() + text.as_ref().map_or(8, String::len);
        40 + self.files.iter().map(file).sum::<usize>()
    }
}

/// Takes a sample at once, then after each interval, and when asked to finish.
///
/// A missed time is skipped; the following times do not move.
pub fn sample(
    interval: Duration, paths: &[String], control: &RequestControl, started: impl FnOnce(),
) -> Result<Vec<Sample>, String> {
    if interval.is_zero() {
        return Err("interval_ms: expected at least 1".into());
    }
    let begin = Instant::now();
    let mut samples = vec![Sample::take(paths)];
    let mut bytes = samples[0].size();
    started();
    let mut finished = false;
    while !finished {
        let passed = begin.elapsed().as_nanos() / interval.as_nanos() + 1;
        let due = u32::try_from(passed).ok().and_then(|passed| interval.checked_mul(passed));
        let Some(due) = due.and_then(|due| begin.checked_add(due)) else {
            return Err("interval_ms: too large for the clock: expected a shorter interval".into());
        };
        finished = control.wait_for_finish(due);
        samples.push(Sample::take(paths));
        bytes += samples[samples.len() - 1].size();
        if samples.len() > MAX_SAMPLES || bytes > MAX_BYTES {
            return Err(format!("too many samples: expected at most {MAX_SAMPLES} and {MAX_BYTES} bytes"));
        }
    }
    Ok(samples)
}

/// Splits samples into lists that each fit into a frame.
pub fn split_into_frames(samples: Vec<Sample>) -> Vec<Vec<Sample>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for sample in samples {
        bytes += sample.size();
        if bytes > IN_A_FRAME {
            bytes = sample.size();
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(sample);
        }
    }
    parts
}

// Expands paths with `*`, which matches within one component; only a dot matches a leading dot.

/// Returns the existing paths that match, sorted; a path without `*` is returned unchanged.
fn expand(pattern: &str) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.into()];
    }
    let mut paths = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        paths = if component.contains('*') {
            paths.iter().flat_map(|directory| matching(directory, component)).collect()
        } else {
            paths.into_iter().map(|directory| directory.join(component)).collect()
        };
    }
    let existing = paths.into_iter().filter(|path| path.symlink_metadata().is_ok());
    let mut names: Vec<String> = existing.filter_map(|path| path.into_os_string().into_string().ok()).collect();
    names.sort();
    names
}

fn matching(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = fs::read_dir(listed).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| matches(pattern, name))
        .map(|name| directory.join(name))
        .collect()
}

/// Whether a name matches a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut remaining) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return remaining.is_empty() };
    for part in parts {
        // The leftmost occurrence leaves the longest remaining text.
        let Some(at) = remaining.find(part) else { return false };
        remaining = &remaining[at + part.len()..];
    }
    remaining.ends_with(last)
}

#[cfg(test)]
mod tests;
