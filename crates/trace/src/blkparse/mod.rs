//! What blkparse prints: the text of events and the closing summary.

pub mod json;
pub mod line;
pub mod print;
pub mod summary;
pub mod tally;
pub mod terminal;
