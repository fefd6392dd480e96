//! Readers and writers of block-trace formats.
