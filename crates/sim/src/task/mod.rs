//! What tasks do: a fio job, a filesystem's journal, a replayed trace.

pub mod file_reader;
pub mod job;
pub mod journal;
pub mod offsets;
pub mod placement;
pub mod read_ahead;
pub mod replay;
pub mod writeback;
