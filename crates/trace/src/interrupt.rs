//! Lets users of this crate end reads that wait: they decide whether the user wants to stop.

use std::sync::OnceLock;

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that is called when a signal interrupts a read; only the first call counts.
pub fn on_signal(ask: fn() -> bool) {
    let _ = ASK.set(ask);
}

/// Whether an interrupted read must end.
pub fn requested() -> bool {
    ASK.get().is_some_and(|ask| ask())
}
