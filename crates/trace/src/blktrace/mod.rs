//! blktrace binary: what `blktrace` records and `blkparse -d` dumps.

pub mod record;
pub mod set;
pub mod stream;
pub mod write;
