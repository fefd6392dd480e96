//! Writing blktrace binary.
