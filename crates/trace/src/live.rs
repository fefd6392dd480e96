//! The last seconds of a recording that goes on: characterises a window that moves with time.
//!
//! `blktrace -o -` writes the events of each CPU together, up to half a second after they occurred (its poll
//! interval), so events are sorted here, and the window ends [`SETTLE`] before the newest one.

use crate::blktrace::stream::EventBlock;
use crate::characterise::profile::Profile;
use crate::characterise::{Options, characterise};
use crate::error::Result;
use crate::event::{Event, EventBatch, ProcessName};
use crate::filter::Filter;
use crate::source::{Capabilities, Input, Source, TraceInfo};
use std::collections::HashMap;

const SETTLE: u64 = 1_000_000_000; // Events of other CPUs can be this much later in the stream, ns
const MOST_EVENTS: usize = 1 << 20; // The largest number of events kept, 64 MiB; at higher rates the window is shorter
const MOST_NAMES: usize = 1 << 16; // The largest number of processes whose names are kept

/// The events of the last seconds.
pub struct LiveWindow {
    width: u64,
    events: Vec<Event>,
    names: HashMap<u32, Vec<u8>>,
    newest: u64,
    end: Option<u64>, // The end of the last window
}

impl LiveWindow {
    /// An empty window of `width` ns.
    pub fn new(width: u64) -> LiveWindow {
        LiveWindow { width, events: Vec::new(), names: HashMap::new(), newest: 0, end: None }
    }

    /// Adds events.
    pub fn add(&mut self, block: &EventBlock) {
        for (pid, name) in &block.names {
            if self.names.len() < MOST_NAMES || self.names.contains_key(pid) {
                self.names.insert(*pid, name.clone());
            }
        }
        for event in &block.events {
            self.newest = self.newest.max(event.time);
            // Payloads of pass-through commands do not matter here.
            self.events.push(Event { pdu_len: 0, ..*event });
        }
        if self.events.len() >= 2 * MOST_EVENTS {
            self.events.sort_by_key(|event| event.time);
            self.events.drain(..MOST_EVENTS);
        }
    }

    /// The events of the window, `elapsed` ns after the last one; `None` if there was none.
    pub fn settled(&mut self, elapsed: u64) -> Option<WindowEvents> {
        if self.newest == 0 {
            return None;
        }
        let settled = self.newest.saturating_sub(SETTLE);
        let mut end = self.end.map_or(settled, |end| settled.max(end.saturating_add(elapsed)));
        self.events.sort_by_key(|event| event.time);
        if self.events.len() > MOST_EVENTS {
            self.events.drain(..self.events.len() - MOST_EVENTS);
        }
        let oldest = self.events.first().map_or(end, |event| event.time);
        let mut begin = end.saturating_sub(self.width);
        if self.events.len() == MOST_EVENTS {
            // So many events in a second settle earlier.
            end = end.max(oldest + self.newest.saturating_sub(oldest) / 2);
            begin = begin.max(oldest);
        }
        self.end = Some(end);
        self.events.drain(..self.events.partition_point(|event| event.time < begin));
        let kept = &self.events[..self.events.partition_point(|event| event.time < end)];
        let info = TraceInfo {
            format: "blktrace".into(),
            capabilities: Capabilities::BLKTRACE,
            inputs: vec![Input { name: String::new(), files: vec!["blktrace".into()] }],
            ..TraceInfo::default()
        };
        let events = kept.iter().map(|event| Event { time: event.time - begin, ..*event }).collect();
        let name = |(pid, name): (&u32, &Vec<u8>)| ProcessName { before: 0, pid: *pid, name: name.clone() };
        let names = self.names.iter().map(name).collect();
        (!kept.is_empty()).then_some(WindowEvents { length: end - begin, events, names, next: 0, info })
    }
}

/// The events of one window, with times from its beginning.
pub struct WindowEvents {
    pub length: u64, // The window's length, ns
    events: Vec<Event>,
    names: Vec<ProcessName>,
    next: usize,
    info: TraceInfo,
}

impl WindowEvents {
    /// Characterises the window.
    pub fn profile(&mut self, threads: usize) -> Result<Profile> {
        characterise(self, Filter::default(), Options::default(), threads, &mut |_| true)
    }
}

impl Source for WindowEvents {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        batch.names.append(&mut self.names);
        let ready = &self.events[self.next..self.events.len().min(self.next + EventBatch::TARGET)];
        self.next += ready.len();
        batch.events.extend_from_slice(ready);
        Ok(!ready.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests;
