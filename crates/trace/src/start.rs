//! The events with which I/Os begin in a trace.
//!
//! A recording with an action mask (`blktrace -a issue -a complete`) has no Q: its I/Os begin with D, or with C if it has
//! no D either.

use crate::event::{Action, Event};
use serde::{Deserialize, Serialize};

const ENOUGH: usize = 1024; // Events of a device after which a trace without Q is taken as recorded without Q

/// The action with which I/Os begin, named after blkparse's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub enum StartAction {
    /// The I/Os are bios, from their queueing (Q).
    #[default]
    Q,
    /// The I/Os are requests, from their dispatch (D): the time in the queue is unknown.
    D,
    /// Only completions (C) were recorded: no latency, no queue depth, no process.
    C,
}

impl StartAction {
    /// The start action of a trace or device that begins with `events`; `None` if more events are needed.
    pub fn of(events: &[Event], ended: bool) -> Option<StartAction> {
        let has = |action| events.iter().any(|event| event.action == action);
        if has(Action::QUEUE) {
            return Some(StartAction::Q);
        }
        (ended || events.len() >= ENOUGH).then(|| match (has(Action::DISPATCH), has(Action::COMPLETE)) {
            (true, _) => StartAction::D,
            (false, true) => StartAction::C,
            (false, false) => StartAction::Q,
        })
    }

    /// The action's code.
    pub fn action(self) -> Action {
        match self {
            StartAction::Q => Action::QUEUE,
            StartAction::D => Action::DISPATCH,
            StartAction::C => Action::COMPLETE,
        }
    }
}
