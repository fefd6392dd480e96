//! What blkparse prints: the text of events and the closing summary.

pub mod line;
pub mod print;
pub mod summary;
pub mod tally;
