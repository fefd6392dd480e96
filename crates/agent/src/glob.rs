//! Paths with `*`, each within one component; a leading dot is matched by a dot only.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the paths that there are, sorted; a path without `*` as it is, whether it is there or not.
pub fn expand(pattern: &str) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.into()];
    }
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "" })];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        found = if component.contains('*') {
            found.iter().flat_map(|directory| matching(directory, component)).collect()
        } else {
            found.into_iter().map(|directory| directory.join(component)).collect()
        };
    }
    let there = found.into_iter().filter(|path| path.symlink_metadata().is_ok());
    let mut names: Vec<String> = there.filter_map(|path| path.into_os_string().into_string().ok()).collect();
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

/// Tells whether a name is as the pattern says.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        // The leftmost occurrence leaves the most to what follows.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition, slow: `*` is nothing, or a character and `*`.
    fn plainly(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => plainly(rest, name) || (!name.is_empty() && plainly(pattern, &name[1..])),
            Some((first, rest)) => name.first() == Some(first) && plainly(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in "[ab*]{0,7}", name in "[ab]{0,9}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &name), plainly(&chars(&pattern), &chars(&name)));
        }
    }

    #[test]
    fn a_dot_is_not_matched_by_a_star() {
        assert!(!matches("*", ".hidden"));
        assert!(matches(".*", ".hidden"));
    }

    #[test]
    fn only_what_is_there() {
        assert_eq!(expand("/proc/sel*/stat"), ["/proc/self/stat"]);
        assert_eq!(expand("/proc/nothing"), ["/proc/nothing"]);
        assert_eq!(expand("/proc/noth*"), Vec::<String>::new());
        assert_eq!(expand("/proc/sel*/nothing"), Vec::<String>::new());
    }
}
