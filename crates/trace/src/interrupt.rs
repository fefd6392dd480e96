//! A way out of reads that wait: whoever embeds this crate says whether the user wants to stop.

use std::sync::OnceLock;

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that is asked when a signal has interrupted a read; only the first counts.
pub fn on_signal(ask: fn() -> bool) {
    let _ = ASK.set(ask);
}

/// Whether an interrupted read is to be given up.
pub fn requested() -> bool {
    ASK.get().is_some_and(|ask| ask())
}
