//! Errors of reading and writing traces: where, what, and what was expected.

use std::io;

/// An error that stops the work. A problem that does not is a [`crate::source::Warning`].
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {}", plain(.source))]
    Io {
        path: String,      // File, directory or `standard input`
        source: io::Error, // The system's own error
    },
    /// It is empty, in no known format, or does not follow its format; or the filters select nothing.
    #[error("{0}")]
    Content(String),
    /// The request is not possible for this trace.
    #[error("{0}")]
    Request(String),
}

impl TraceError {
    /// Wraps a system error with the path it happened on.
    pub fn io(path: impl Into<String>, source: io::Error) -> TraceError {
        TraceError::Io { path: path.into(), source }
    }

    /// A file, or a set of files, is empty.
    pub fn empty(path: &str) -> TraceError {
        TraceError::Content(format!("{path}: empty: expected a block trace"))
    }

    /// A file does not follow its format at a place such as `offset 123` or `line 45`; the problem says what was found
    /// and what was expected.
    pub fn malformed(path: &str, place: &str, problem: impl std::fmt::Display) -> TraceError {
        TraceError::Content(format!("{path}: {place}: {problem}"))
    }
}

/// The system's message without Rust's " (os error 2)".
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

pub type Result<T> = std::result::Result<T, TraceError>; // Shorthand for this crate
