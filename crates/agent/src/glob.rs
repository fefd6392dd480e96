//! Expands paths with `*`, which matches within one component; only a dot matches a leading dot.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the existing paths that match, sorted; a path without `*` is returned unchanged.
pub fn expand(pattern: &str) -> Vec<String> {
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
