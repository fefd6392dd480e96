//! Locks that a panic elsewhere does not spread through.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks: what we keep under locks is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
