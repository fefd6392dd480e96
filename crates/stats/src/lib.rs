//! Mergeable statistics for block I/O.
