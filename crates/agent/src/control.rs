//! The connection to the host, and the control of a running request by other requests.

use crate::failure::lock;
use crate::frame;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The stream to the host, which every request shares.
pub struct HostStream(Mutex<File>);

impl HostStream {
    /// Wraps the stream to the host.
    pub fn new(stream: File) -> HostStream {
        HostStream(Mutex::new(stream))
    }

    /// Sends a message; if it is too long, an error instead.
    pub fn send(&self, message: &Value) {
        let frame = frame::encode(message).or_else(|bytes| {
            let error = format!("the answer has {bytes} bytes: expected at most {}", frame::LONGEST);
            frame::encode(&json!({"id": message["id"], "error": error}))
        });
        // The thread that reads from the host finds out if the host is gone.
        let _ = frame.map(|frame| frame::write(&mut *lock(&self.0), &frame));
    }
}

/// What others must know of a running request.
#[derive(Default)]
pub struct RequestState {
    pub started: Option<Pid>, // Its program, since that has started
    pub finish: bool,         // Whether it must finish
    pub ended: bool,
}

/// Lets other requests control a running one.
#[derive(Default)]
pub struct RequestControl {
    state: Mutex<RequestState>,
    changed: Condvar,
}

impl RequestControl {
    /// Changes the state, and wakes what waits for a change.
    pub fn change(&self, change: impl FnOnce(&mut RequestState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Waits for the request's program to start; `None` if the request ended without one.
    pub fn wait_for_program(&self) -> Option<Pid> {
        let waits = |state: &mut RequestState| state.started.is_none() && !state.ended;
        self.changed.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner).started
    }

    /// Waits until a time or a request to finish; returns whether there is such a request.
    pub fn wait_for_finish(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(lock(&self.state), left, |state| !state.finish);
        waited.unwrap_or_else(PoisonError::into_inner).0.finish
    }
}
