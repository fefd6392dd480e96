//! Which events and I/Os the user wants to see.

use crate::error::{Result, TraceError};
use crate::event::{DeviceId, Event, EventBatch, Op, Rwbs};
use crate::io::{Io, NEVER};
use crate::source::{Source, TraceInfo};
use serde::{Deserialize, Serialize};

/// Which I/Os count; by default all. An I/O counts at the time, and for the process, of its queueing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Filter {
    /// Devices by number (`major,minor`) or name. Empty: all.
    pub devices: Vec<String>,
    /// Processes by name, by a pattern with `*` and `?`, or by pid. Empty: all.
    pub processes: Vec<String>,
    /// Operations: `read`, `write`, `discard`, `flush`. Empty: all.
    pub ops: Vec<String>,
    /// First time that counts, in ns since the trace began; `null`: no limit.
    pub since_ns: Option<u64>,
    /// First time that no longer counts, in ns since the trace began; `null`: no limit.
    pub until_ns: Option<u64>,
    /// Only I/Os that touch this sector or a later one count; `null`: no limit.
    pub first_sector: Option<u64>,
    /// Only I/Os that touch this sector or an earlier one count; `null`: no limit.
    pub last_sector: Option<u64>,
    /// Smallest size of an I/O that counts, in bytes; `null`: no limit.
    pub min_bytes: Option<u32>,
    /// Largest size of an I/O that counts, in bytes; `null`: no limit.
    pub max_bytes: Option<u32>,
    /// Shortest time from queueing to completion that counts, in ns; from dispatch if the queueing was not recorded.
    /// `null`: no limit.
    pub min_latency_ns: Option<u64>,
    /// Instead of `since_ns`: ns since 1970 (UTC), or since midnight if less than a day; see [`select`].
    #[serde(skip)]
    pub since_clock_ns: Option<u64>,
    /// Instead of `until_ns`, likewise.
    #[serde(skip)]
    pub until_clock_ns: Option<u64>,
}

const DAY: u64 = 86_400_000_000_000;

/// Relates the filter's wall-clock times to the trace, and checks that the trace has what the filter needs. The source
/// returned begins with the first event, although blktrace's start is known only after that was read.
pub fn select(mut source: Box<dyn Source>, filter: &mut Filter) -> Result<Box<dyn Source>> {
    let info = source.info();
    if filter.min_latency_ns.is_some() && !info.capabilities.completions {
        let problem = format!("--min-latency needs completions: the format {} has none", info.format);
        return Err(TraceError::Request(problem));
    }
    if filter.since_clock_ns.is_none() && filter.until_clock_ns.is_none() {
        return Ok(source);
    }
    let mut first = EventBatch::default();
    source.fill(&mut first)?;
    let info = source.info();
    let Some(start) = info.start_unix_ns else {
        let problem = format!(
            "--since and --until: this trace ({}) does not record its wall-clock start; write the time since the \
             beginning of the trace, such as 10s",
            info.format
        );
        return Err(TraceError::Request(problem));
    };
    let since_start = |clock: u64| moment(clock, start).saturating_sub(start);
    filter.since_ns = filter.since_clock_ns.take().map(since_start).or(filter.since_ns);
    filter.until_ns = filter.until_clock_ns.take().map(since_start).or(filter.until_ns);
    Ok(Box::new(BegunSource { first, source }))
}

/// The moment of a time of day: on the day of the start, or the next one if it is more than 12 hours before the start.
fn moment(clock: u64, start: u64) -> u64 {
    if clock >= DAY {
        return clock;
    }
    let on_first_day = start - start % DAY + clock;
    if on_first_day + DAY / 2 < start { on_first_day + DAY } else { on_first_day }
}

/// A source of which the first batch has been read.
struct BegunSource {
    first: EventBatch,
    source: Box<dyn Source>,
}

impl Source for BegunSource {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        if self.first.events.is_empty() {
            return self.source.fill(batch);
        }
        // Callers clear their batch first.
        *batch = std::mem::take(&mut self.first);
        Ok(true)
    }

    fn info(&self) -> &TraceInfo {
        self.source.info()
    }
}

impl Filter {
    /// True when everything passes.
    pub fn is_open(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether this time counts. I/Os without a queueing time count by their dispatch.
    pub fn wants_time(&self, time: u64) -> bool {
        self.since_ns.is_none_or(|since| time >= since) && self.until_ns.is_none_or(|until| time < until)
    }

    /// Whether the operation counts.
    pub fn wants_op(&self, op: Op) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|o| o == op.name())
    }

    /// Whether a process counts, by its name or number.
    pub fn wants_process(&self, pid: u32, name: &str) -> bool {
        self.processes.is_empty() || self.processes.iter().any(|p| matches(p, name) || p.parse() == Ok(pid))
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
                && self.wants_range(event.sector, event.bytes)
                && self.wants_process(event.pid, process)
                && self.wants_device(event.device, event.input, info))
    }

    /// Whether an I/O passes, apart from its process and device.
    pub fn wants_io(&self, io: &Io) -> bool {
        let time = if io.t_queue == NEVER { io.t_dispatch } else { io.t_queue };
        self.wants_time(time)
            && self.wants_op(io.op())
            && self.wants_range(io.sector, io.bytes)
            && self.min_latency_ns.is_none_or(|least| Io::between(time, io.t_complete) >= Some(least))
    }

    /// Whether the sectors and the size count.
    pub fn wants_range(&self, sector: u64, bytes: u32) -> bool {
        let end = sector.saturating_add(u64::from(bytes >> 9));
        self.first_sector.is_none_or(|first| end > first && bytes > 0)
            && self.last_sector.is_none_or(|last| sector <= last && bytes > 0)
            && self.min_bytes.is_none_or(|least| bytes >= least)
            && self.max_bytes.is_none_or(|most| bytes <= most && bytes > 0)
    }

    /// Whether the operation, the sectors and the size of a request count.
    pub fn wants_request(&self, event: &Event) -> bool {
        self.wants_op(event.op()) && self.wants_range(event.sector, event.bytes)
    }

    /// An error if the filter selects I/Os by what a single event does not contain.
    pub fn check_for_events(&self) -> Result<()> {
        let problem = "--min-latency selects I/Os, not events: use trace stat, or convert the trace with --to ios";
        if self.min_latency_ns.is_some() { Err(TraceError::Request(problem.into())) } else { Ok(()) }
    }

    /// Plugs and messages have no operation: they pass only if all operations do.
    pub fn wants_op_of(&self, event: &Event) -> bool {
        use crate::event::Action;
        if self.ops.is_empty() {
            return true;
        }
        let about_io = !matches!(event.action, Action::PLUG | Action::UNPLUG | Action::UNPLUG_TIMER | Action::MESSAGE);
        about_io && !event.rwbs.has(Rwbs::PASSTHROUGH) && self.wants_op(event.op())
    }
}

/// Whether a name matches a pattern, in which `*` is any text and `?` any character.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern_rest, mut name_rest) = (pattern.chars(), name.chars());
    // Where the last star was, and the name from the characters that it does not cover yet.
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        match (pattern_rest.next(), name_rest.clone().next()) {
            (Some('*'), _) => star = Some((pattern_rest.clone(), name_rest.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => drop(name_rest.next()),
            _ => {
                let Some((after_star, uncovered)) = &mut star else { return false };
                if uncovered.next().is_none() {
                    return false;
                }
                (pattern_rest, name_rest) = (after_star.clone(), uncovered.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
