//! Which events and I/Os the user wants to see.

use crate::event::{DeviceId, Event, Op, Rwbs};
use crate::io::{Io, NEVER};
use crate::source::TraceInfo;
use serde::Serialize;

/// Everything passes by default. An I/O counts at the time, and for the process, of its queueing.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filter {
    /// Devices by number or name; empty: all.
    pub devices: Vec<String>,
    /// Processes by exact name, or by pid; empty: all.
    pub processes: Vec<String>,
    /// Operations by name (`read`, `write`, `discard`, `flush`) ; empty: all.
    pub ops: Vec<String>,
    /// Earliest time, ns since the trace began.
    pub since_ns: Option<u64>,
    /// First time that no longer counts.
    pub until_ns: Option<u64>,
}

impl Filter {
    /// True when everything passes.
    pub fn is_open(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether this time counts. I/Os without a queueing time count by their dispatch.
    #[inline]
    pub fn wants_time(&self, time: u64) -> bool {
        self.since_ns.is_none_or(|since| time >= since) && self.until_ns.is_none_or(|until| time < until)
    }

    /// Whether the operation counts.
    #[inline]
    pub fn wants_op(&self, op: Op) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|o| o == op.name())
    }

    /// Whether a process counts, by its name or number.
    pub fn wants_process(&self, pid: u32, name: &str) -> bool {
        self.processes.is_empty() || self.processes.iter().any(|p| p == name || p.parse() == Ok(pid))
    }

    /// Whether a device counts whose events come from the input numbered `input`.
    pub fn wants_device(&self, device: DeviceId, input: u16, info: &TraceInfo) -> bool {
        if self.devices.is_empty() {
            return true;
        }
        let name = info.device_name(device, input);
        let number = device.to_string();
        let colon = number.replace(',', ":");
        self.devices.iter().any(|wanted| {
            let wanted = wanted.strip_prefix("/dev/").unwrap_or(wanted);
            wanted == number || wanted == colon || (!name.is_empty() && wanted == name)
        })
    }

    /// Whether an event passes; `process` is its process's name.
    pub fn wants_event(&self, event: &Event, process: &str, info: &TraceInfo) -> bool {
        self.is_open()
            || (self.wants_time(event.time)
                && self.wants_op_of(event)
                && self.wants_process(event.pid, process)
                && self.wants_device(event.device, event.input, info))
    }

    /// Whether an I/O passes, apart from its process and device.
    #[inline]
    pub fn wants_io(&self, io: &Io) -> bool {
        let time = if io.t_queue == NEVER { io.t_dispatch } else { io.t_queue };
        self.wants_time(time) && self.wants_op(io.op())
    }

    /// Plugs and messages have no operation: they pass only if all operations do.
    pub fn wants_op_of(&self, event: &Event) -> bool {
        use crate::event::Action;
        if self.ops.is_empty() {
            return true;
        }
        let about_io =
            !matches!(event.action, Action::PLUG | Action::UNPLUG | Action::UNPLUG_TIMER | Action::MESSAGE);
        about_io && !event.rwbs.has(Rwbs::PASSTHROUGH) && self.wants_op(event.op())
    }
}
