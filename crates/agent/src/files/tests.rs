use super::*;
use proptest::prelude::*;

/// Slow, by definition: `*` is nothing, or a character and `*`.
fn matches_by_definition(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', remaining)) => {
            matches_by_definition(remaining, name) || (!name.is_empty() && matches_by_definition(pattern, &name[1..]))
        }
        Some((first, remaining)) => name.first() == Some(first) && matches_by_definition(remaining, &name[1..]),
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
