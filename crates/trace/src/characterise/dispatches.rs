//! The order in which a device's requests were dispatched.

use crate::event::Event;
use blklab_stats::{Merge, merge_fields};
use serde::{Deserialize, Serialize};

/// Requests with data that were dispatched, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Dispatches {
    /// Requests with data.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that began where the one dispatched before ended.
    pub contiguous: u64,
}

merge_fields!(Dispatches: requests, bytes, contiguous);

/// The order of dispatches of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DispatchOrder {
    pub counts: Dispatches,
    end: Option<u64>, // The sector behind the last request
}

impl DispatchOrder {
    /// Counts a request.
    pub fn add(&mut self, event: &Event) {
        if event.bytes > 0 {
            self.counts.requests += 1;
            self.counts.bytes += u64::from(event.bytes);
            self.counts.contiguous += u64::from(self.end == Some(event.sector));
            self.end = Some(event.end());
        }
    }
}

impl Merge for DispatchOrder {
    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
    }
}
