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
    let mut names: Vec<String> =
        existing.filter_map(|path| path.into_os_string().into_string().ok()).collect();
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slow, by definition: `*` is nothing, or a character and `*`.
    fn matches_by_definition(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', remaining)) => {
                matches_by_definition(remaining, name)
                    || (!name.is_empty() && matches_by_definition(pattern, &name[1..]))
            }
            Some((first, remaining)) => {
                name.first() == Some(first) && matches_by_definition(remaining, &name[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in "[ab*]{0,7}", name in "[ab]{0,9}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &name), matches_by_definition(&chars(&pattern), &chars(&name)));
        }
    }

    #[test]
    fn a_dot_is_not_matched_by_a_star() {
        assert!(!matches("*", ".hidden"));
        assert!(matches(".*", ".hidden"));
    }

    #[test]
    fn only_existing_paths_are_expanded() {
        assert_eq!(expand("/proc/sel*/stat"), ["/proc/self/stat"]);
        assert_eq!(expand("/proc/nothing"), ["/proc/nothing"]);
        assert_eq!(expand("/proc/noth*"), Vec::<String>::new());
        assert_eq!(expand("/proc/sel*/nothing"), Vec::<String>::new());
    }
}
