//! What tasks do: a fio job, a filesystem's journal, a replayed trace.

pub mod job;
pub mod journal;
pub mod offsets;
pub mod replay;
