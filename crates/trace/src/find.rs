//! From what the user typed to files: a set's name, one of its files, a directory, a single file.

use crate::error::{Result, TraceError};
use crate::opening::Notes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Suffixes of compressed files.
pub const COMPRESSED: [&str; 3] = [".gz", ".xz", ".zst"];
/// What separates a trace's name from the CPU's number.
const PER_CPU: &str = ".blktrace.";

/// What a path given by the user stands for: one trace name and its files.
#[derive(PartialEq)]
pub struct Set {
    /// As blkparse names it; empty for a single file.
    pub name: String,
    /// For messages.
    pub shown: String,
    /// In the order of their CPUs.
    pub files: Vec<PathBuf>,
    /// Per-CPU files, of which some may be empty.
    pub is_set: bool,
}

/// What a path given by the user stands for.
pub fn find(path: &str, notes: &Notes) -> Result<Vec<Set>> {
    if path == "-" {
        return Ok(vec![Set {
            name: String::new(),
            shown: "standard input".into(),
            files: vec!["-".into()],
            is_set: false,
        }]);
    }
    let as_path = Path::new(path);
    let file_name = as_path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some((base, cpu)) = split_per_cpu(&file_name)
        && as_path.is_file()
        && cpu.is_some()
    {
        return find_set(&as_path.with_file_name(base), notes);
    }
    match fs::metadata(as_path) {
        Ok(meta) if meta.is_dir() => find_in_directory(as_path, path, notes),
        Ok(_) => Ok(vec![Set {
            name: String::new(),
            shown: path.into(),
            files: vec![as_path.into()],
            is_set: false,
        }]),
        Err(e) if e.kind() == io::ErrorKind::NotFound => find_set(as_path, notes),
        Err(e) => Err(TraceError::io(path, e)),
    }
}

/// `x.blktrace.3.zst` into (`x`, Some(3)); `None` for other names.
fn split_per_cpu(file_name: &str) -> Option<(&str, Option<u32>)> {
    let at = file_name.rfind(PER_CPU)?;
    let mut number = &file_name[at + PER_CPU.len()..];
    for suffix in COMPRESSED {
        number = number.strip_suffix(suffix).unwrap_or(number);
    }
    Some((&file_name[..at], number.parse().ok()))
}

fn list(directory: &Path, shown: &str) -> Result<Vec<(String, u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| TraceError::io(shown, e))? {
        let entry = entry.map_err(|e| TraceError::io(shown, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((base, Some(cpu))) = split_per_cpu(&name) {
            found.push((base.to_owned(), cpu, entry.path()));
        }
    }
    Ok(found)
}

fn find_in_directory(directory: &Path, shown: &str, notes: &Notes) -> Result<Vec<Set>> {
    let mut names: Vec<String> = list(directory, shown)?.into_iter().map(|(name, ..)| name).collect();
    names.sort_by(|a, b| natural(a, b));
    names.dedup();
    if names.is_empty() {
        return Err(TraceError::Request(format!(
            "{shown}: no trace in this directory: expected files named NAME.blktrace.0, .1, …"
        )));
    }
    let mut sets = Vec::new();
    for name in names {
        sets.extend(find_set(&directory.join(name), notes)?);
    }
    Ok(sets)
}

fn find_set(base: &Path, notes: &Notes) -> Result<Vec<Set>> {
    let shown = base.to_string_lossy().into_owned();
    let missing = || TraceError::NotFound { path: shown.clone() };
    let directory = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = base.file_name().map(|n| n.to_string_lossy().into_owned()).ok_or_else(missing)?;
    let mut files = BTreeMap::new();
    if directory.is_dir() {
        for (set, cpu, path) in list(directory, &directory.to_string_lossy())? {
            if set == name {
                let path = if directory == Path::new(".") && base.parent() == Some(Path::new("")) {
                    path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path)
                } else {
                    path
                };
                // The plain file wins over its compressed copy.
                let better = files
                    .get(&cpu)
                    .is_none_or(|old: &PathBuf| path.as_os_str().len() < old.as_os_str().len());
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
        notes.warn(&shown, format!("{count} CPU file(s) missing, first {name}{PER_CPU}{first}: what those CPUs recorded is not in these figures"));
    }
    Ok(vec![Set { name, shown, files: files.into_values().collect(), is_set: true }])
}

/// Compares as `sort -V` does: runs of digits by their value.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    fn key(text: &str) -> Vec<(String, u64)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let after = &rest[word..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            parts.push((rest[..word].to_owned(), after[..digits].parse().unwrap_or(0)));
            rest = &after[digits..];
        }
        parts
    }
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}
