//! Locks that ignore panics in other threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even after a panic: the data under locks are consistent between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
