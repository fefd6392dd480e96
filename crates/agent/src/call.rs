//! What the host may ask for.

use serde::Deserialize;
use serde_json::Value;

/// A request's `call` and its arguments.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "lowercase", deny_unknown_fields)]
pub enum Call {
    /// Are you alive?
    Ping {},
    /// Run a program to its end.
    Run(Run),
    /// Signal the process group of a run, by the id of its request.
    Signal { target: u64, signal: i32 },
    /// Read files.
    Read { paths: Vec<String> },
    /// Write a file.
    Write { path: String, text: String },
    /// Read files over and over, until told to finish.
    Sample { interval_ms: u64, paths: Vec<String> },
    /// End a sample, by the id of its request.
    Finish { target: u64 },
    /// Put files onto a block device.
    Export { paths: Vec<String>, device: String },
    /// Write back what is in memory, and power off.
    Poweroff {},
}

/// A program to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The program, found on PATH, and its arguments.
    pub argv: Vec<String>,
    /// What it reads; nothing if this is missing.
    pub stdin: Option<String>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// When it is killed, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether output is sent as it comes.
    #[serde(default)]
    pub stream: bool,
}

/// Returns a request's id, if it has one, and its call or what is wrong with it.
pub fn parse(content: &[u8]) -> (Option<u64>, Result<Call, String>) {
    let mut request = match serde_json::from_slice(content) {
        Ok(Value::Object(request)) => request,
        Ok(_) => return (None, Err("a request is an object".into())),
        Err(error) => return (None, Err(format!("a request is JSON: {error}"))),
    };
    let Some(id) = request.remove("id").and_then(|id| id.as_u64()) else {
        return (None, Err("a request has an id, a whole number".into()));
    };
    // serde says of an unknown call what there are, and of an argument what was expected.
    (Some(id), serde_json::from_value(Value::Object(request)).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
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
        fn nothing_makes_it_panic(content in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&content);
        }
    }
}
