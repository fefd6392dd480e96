//! One request under way: what it is told meanwhile, and how it speaks.

use crate::frame;
use crate::sync::lock;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The stream to the host, which every request shares.
pub struct Outlet(Mutex<File>);

impl Outlet {
    /// Speaks on `stream`.
    pub fn new(stream: File) -> Outlet {
        Outlet(Mutex::new(stream))
    }

    /// Sends a message, or in its place what keeps it from being sent.
    pub fn send(&self, message: &Value) {
        let frame = frame::encode(message).or_else(|bytes| {
            let error = format!("the answer has {bytes} bytes, at most {} can be sent", frame::LONGEST);
            frame::encode(&json!({"id": message["id"], "error": error}))
        });
        // A host that is gone is noticed by whoever reads from it.
        let _ = frame.map(|frame| frame::write(&mut *lock(&self.0), &frame));
    }
}

#[derive(Default)]
struct State {
    started: Option<Pid>,
    finish: bool,
    over: bool,
}

/// What other requests tell this one, or ask of it.
#[derive(Default)]
pub struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

impl Control {
    /// The program that this runs has been started.
    pub fn started(&self, pid: Pid) {
        lock(&self.state).started = Some(pid);
        self.changed.notify_all();
    }

    /// Nothing more happens here.
    pub fn over(&self) {
        lock(&self.state).over = true;
        self.changed.notify_all();
    }

    /// Returns the program that this runs, once it is started; `None` if it will not be.
    pub fn program(&self) -> Option<Pid> {
        let mut state = lock(&self.state);
        while state.started.is_none() && !state.over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.started
    }

    /// Asks this to finish.
    pub fn finish(&self) {
        lock(&self.state).finish = true;
        self.changed.notify_all();
    }

    /// Waits until then, or until asked to finish, which it returns.
    pub fn finished(&self, until: Instant) -> bool {
        let mut state = lock(&self.state);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.finish || left.is_zero() {
                return state.finish;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
