use super::*;
use proptest::prelude::*;

fn problem(request: &str) -> String {
    parse(request.as_bytes()).1.err().unwrap_or_default()
}

#[test]
fn problems_are_named() {
    assert!(problem(r#"{"id": 1, "call": "reboot"}"#).contains("unknown variant `reboot`"));
    assert!(problem(r#"{"id": 1, "call": "run"}"#).contains("missing field `argv`"));
    assert!(problem(r#"{"id": 1, "call": "run", "argv": "ls"}"#).contains("expected a sequence"));
    assert!(problem(r#"{"id": 1, "call": "run", "argv": [], "shell": 1}"#).contains("`shell`"));
    assert!(problem(r#"{"id": -1, "call": "ping"}"#).contains("id"));
    assert!(problem("[]").contains("object"));
    assert!(problem(&"[".repeat(100_000)).contains("JSON"));
    assert_eq!(problem(r#"{"id": 1, "call": "ping"}"#), "");
}

proptest! {
    #[test]
    fn any_content_is_parsed_without_panic(content in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&content);
    }
}
