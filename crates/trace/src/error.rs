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
    /// It is empty.
    #[error("{path}: empty: expected a block trace")]
    Empty {
        path: String, // The file, or the set's name
    },
    /// No reader recognises it.
    #[error(
        "{path}: {content}: expected one of these formats; choose one with --format, or name the columns of a table with --columns: {known}"
    )]
    UnknownFormat {
        path: String,    // The file
        content: String, // A description of its content
        known: String,   // The registered formats' names
    },
    /// A trace name matches no file.
    #[error("{path}: does not exist: expected a file, a directory, or files {path}.blktrace.0, .1, …")]
    NotFound {
        path: String, // The name as given
    },
    /// It does not follow its format.
    #[error("{path}: {place}: {problem}")]
    Malformed {
        path: String,    // The file
        place: String,   // `offset 123` or `line 45`
        problem: String, // What was found, what was expected
    },
    /// The filters select nothing.
    #[error("{0}")]
    NothingSelected(String),
    /// The request is not possible for this trace.
    #[error("{0}")]
    Request(String),
}

impl TraceError {
    /// Wraps a system error with the path it happened on.
    pub fn io(path: impl Into<String>, source: io::Error) -> TraceError {
        TraceError::Io { path: path.into(), source }
    }

    /// An error at a place of a file.
    pub fn malformed(path: &str, place: &str, problem: impl Into<String>) -> TraceError {
        TraceError::Malformed { path: path.into(), place: place.into(), problem: problem.into() }
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
