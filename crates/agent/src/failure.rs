//! Errors as one line, and locks that ignore panics in other threads.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The C library's message for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// Locks a mutex even after a panic: the data under locks are consistent between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
