//! Finds the files of a trace, from a set's name, one of its files, a directory, or a single file; and their sidecar.

use crate::error::{Result, TraceError};
use crate::opened_source::OpeningWarnings;
use crate::source::RecordedLayer;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub const COMPRESSED: [&str; 5] = [".gz", ".xz", ".zst", ".bz2", ".lz4"]; // Suffixes of compressed files
const PER_CPU: &str = ".blktrace."; // The separator between a trace's name and the CPU's number
const MOST_SIDECAR_BYTES: u64 = 1 << 20; // The largest size of a sidecar

/// The files of one trace name.
#[derive(Default, PartialEq)]
pub struct FileSet {
    pub name: String,         // blkparse's name for it; empty for a single file
    pub display_name: String, // The name for messages
    pub files: Vec<PathBuf>,  // In the order of their CPUs
    pub is_set: bool,         // Whether these are per-CPU files, of which some can be empty
}

/// The traces that a path given by the user stands for.
pub fn find_file_sets(path: &str, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let single = |display_name: &str| {
        Ok(vec![FileSet { display_name: display_name.into(), files: vec![path.into()], ..FileSet::default() }])
    };
    if path == "-" {
        return single("standard input");
    }
    let as_path = Path::new(path);
    let file_name = as_path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some((base, cpu)) = split_per_cpu(&file_name)
        && as_path.is_file()
        && cpu.is_some()
    {
        return find_set(&as_path.with_file_name(base), warnings);
    }
    match fs::metadata(as_path) {
        Ok(meta) if meta.is_dir() => find_sets_in_directory(as_path, path, warnings),
        Ok(_) => single(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => find_set(as_path, warnings),
        Err(e) => Err(TraceError::io(path, e)),
    }
}

/// Splits `x.blktrace.3.zst` into (`x`, Some(3)); `None` for other names.
pub fn split_per_cpu(file_name: &str) -> Option<(&str, Option<u32>)> {
    let at = file_name.rfind(PER_CPU)?;
    let mut number = &file_name[at + PER_CPU.len()..];
    for suffix in COMPRESSED {
        number = number.strip_suffix(suffix).unwrap_or(number);
    }
    Some((&file_name[..at], number.parse().ok()))
}

fn list_per_cpu_files(directory: &Path, shown: &str) -> Result<Vec<(String, u32, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| TraceError::io(shown, e))? {
        let entry = entry.map_err(|e| TraceError::io(shown, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((base, Some(cpu))) = split_per_cpu(&name) {
            files.push((base.to_owned(), cpu, entry.path()));
        }
    }
    Ok(files)
}

fn find_sets_in_directory(directory: &Path, shown: &str, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let mut names: Vec<String> = list_per_cpu_files(directory, shown)?.into_iter().map(|(name, ..)| name).collect();
    names.sort_by(|a, b| compare_naturally(a, b));
    names.dedup();
    if names.is_empty() {
        return Err(TraceError::Request(format!(
            "{shown}: no trace in this directory: expected files NAME.blktrace.0, .1, …"
        )));
    }
    let mut sets = Vec::new();
    for name in names {
        sets.extend(find_set(&directory.join(name), warnings)?);
    }
    Ok(sets)
}

fn find_set(base: &Path, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let shown = base.to_string_lossy().into_owned();
    let expected = "expected a file, a directory, or files";
    let missing = || TraceError::Request(format!("{shown}: does not exist: {expected} {shown}.blktrace.0, .1, …"));
    let directory = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = base.file_name().map(|n| n.to_string_lossy().into_owned()).ok_or_else(missing)?;
    let mut files = BTreeMap::new();
    if directory.is_dir() {
        for (set, cpu, path) in list_per_cpu_files(directory, &directory.to_string_lossy())? {
            if set == name {
                let path = if directory == Path::new(".") && base.parent() == Some(Path::new("")) {
                    path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path)
                } else {
                    path
                };
                // The plain file is preferred to its compressed copy.
                let better = files.get(&cpu).is_none_or(|old: &PathBuf| path.as_os_str().len() < old.as_os_str().len());
                if better {
                    files.insert(cpu, path);
                }
            }
        }
    }
    let Some(&last) = files.keys().next_back() else {
        return Err(missing());
    };
    let absent: Vec<u32> = (0..=last.min(65_535)).filter(|cpu| !files.contains_key(cpu)).collect();
    if let (Some(first), count) = (absent.first(), absent.len()) {
        warnings.warn(&shown, format!("{count} CPU file(s) missing, first {name}{PER_CPU}{first}: the events of those CPUs are missing in these figures"));
    }
    Ok(vec![FileSet { name, display_name: shown, files: files.into_values().collect(), is_set: true }])
}

/// Compares like `sort -V`: runs of digits by their value.
fn compare_naturally(a: &str, b: &str) -> std::cmp::Ordering {
    fn key(text: &str) -> Vec<(String, u64)> {
        let mut parts = Vec::new();
        let mut remaining = text;
        while !remaining.is_empty() {
            let word = remaining.find(|c: char| c.is_ascii_digit()).unwrap_or(remaining.len());
            let after = &remaining[word..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            parts.push((remaining[..word].to_owned(), after[..digits].parse().unwrap_or(0)));
            remaining = &after[digits..];
        }
        parts
    }
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

/// What `blklab trace record` leaves next to a trace, in the sidecar `NAME.blklab.json`, or `blklab.json` in a directory
/// of traces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sidecar {
    pub dropped: Option<u64>, // Events that the kernel dropped
    devices: Vec<RecordedDevice>,
    pub stack: Vec<RecordedLayer>, // The recorded devices, and those below them
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordedDevice {
    name: String,
    dropped: Option<u64>,
}

/// The sidecar of the set `name`, to which `file` belongs; `dropped` is that of the set. Empty if there is none.
pub fn read_sidecar(file: &Path, name: &str) -> Sidecar {
    let names = [format!("{name}.blklab.json"), "blklab.json".into()];
    let path = names.map(|name| file.with_file_name(name)).into_iter().find(|path| path.is_file());
    let small = path.filter(|path| fs::metadata(path).is_ok_and(|found| found.len() <= MOST_SIDECAR_BYTES));
    let content = small.and_then(|path| fs::read(path).ok()).unwrap_or_default();
    let mut sidecar: Sidecar = serde_json::from_slice(&content).unwrap_or_default();
    let of_set = sidecar.devices.iter().find(|device| device.name == name).map(|device| device.dropped);
    sidecar.dropped = of_set.unwrap_or_else(|| sidecar.dropped.filter(|_| sidecar.devices.len() == 1));
    sidecar
}

#[cfg(test)]
mod tests;
