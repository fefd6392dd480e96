//! blkparse's closing summary: counts for each CPU and the total, per input or device.

use super::tally::{ActionCounts, Amount, AmountPair, Tally};
use crate::event::{Action, DeviceId, Event, Rwbs};
use blklab_stats::Merge;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The summary of one input (a blktrace name) or of one device of a merged stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceSummary {
    pub name: String, // blkparse's name: that of the input, or `major,minor` of a device in a merged stream
    cpus: Vec<Option<Box<ActionCounts>>>, // By CPU; `None` without events
    pub events: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub max_depth: [u64; 2],
    depth: [u64; 2],
    pub skips: [u64; 2],
    last_sequence: BTreeMap<u16, u32>,
}

impl DeviceSummary {
    /// Counts an event; with `count_skips` also gaps in the sequence numbers of a CPU.
    pub fn add(&mut self, event: &Event, count_skips: bool) {
        if self.events == 0 {
            self.first_ns = event.time;
        }
        self.events += 1;
        self.last_ns = event.time;
        self.cpu(event.cpu).add(event);
        let write = usize::from(event.rwbs.has(Rwbs::WRITE));
        match event.action {
            Action::DISPATCH => {
                self.depth[write] += 1;
                self.max_depth[write] = self.max_depth[write].max(self.depth[write]);
            }
            Action::COMPLETE | Action::REQUEUE => self.depth[write] = self.depth[write].saturating_sub(1),
            _ => {}
        }
        if count_skips && event.action != Action::MESSAGE {
            let last = self.last_sequence.insert(event.cpu, event.sequence);
            if let Some(gap) = last.and_then(|last| event.sequence.checked_sub(last)?.checked_sub(1))
                && gap > 0
            {
                self.skips[0] += 1;
                self.skips[1] += u64::from(gap);
            }
        }
    }

    fn cpu(&mut self, cpu: u16) -> &mut ActionCounts {
        let cpu = usize::from(cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, None);
        }
        self.cpus[cpu].get_or_insert_default()
    }

    /// The CPUs with events, ascending.
    fn used_cpus(&self) -> impl Iterator<Item = (u16, &ActionCounts)> {
        self.cpus.iter().enumerate().filter_map(|(cpu, counts)| Some((cpu as u16, counts.as_deref()?)))
    }

    /// Events of each action code up to 31; messages and codes beyond are at 0.
    pub fn by_action(&self) -> [u64; 32] {
        let mut counts = [0; 32];
        for (_, cpu) in self.used_cpus() {
            for (count, amounts) in counts.iter_mut().zip(&cpu.0) {
                *count += amounts.as_flattened().iter().map(|amount| amount.count).sum::<u64>();
            }
        }
        counts
    }

    /// Adds the counts of another device of the same input. Depths of different devices are not added.
    pub fn absorb(&mut self, other: &DeviceSummary) {
        self.first_ns = if self.events == 0 { other.first_ns } else { self.first_ns.min(other.first_ns) };
        self.last_ns = self.last_ns.max(other.last_ns);
        self.events += other.events;
        other.used_cpus().for_each(|(cpu, theirs)| self.cpu(cpu).0.merge(&theirs.0));
        for direction in 0..2 {
            self.max_depth[direction] = self.max_depth[direction].max(other.max_depth[direction]);
            self.skips[direction] += other.skips[direction];
        }
    }

    /// Counts by CPU, ascending.
    pub fn tallies(&self) -> Vec<(u16, Tally)> {
        self.used_cpus().map(|(cpu, counts)| (cpu, Tally::of(counts))).collect()
    }

    /// All CPUs together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.tallies().iter().for_each(|(_, tally)| total.merge(tally));
        total
    }
}

/// Summaries of everything in a trace, built event by event.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub devices: Vec<DeviceSummary>, // The summaries so far
    by_device: Vec<DeviceId>,
    merged: bool,
}

impl Summary {
    /// For a trace with these inputs (see [`crate::source::Input::name`]): a single input without a name is a
    /// merged stream, counted by device.
    pub fn new<'a>(inputs: impl IntoIterator<Item = &'a str>) -> Summary {
        let names: Vec<&str> = inputs.into_iter().collect();
        let merged = names.iter().all(|name| name.is_empty());
        let named = |name: &str| DeviceSummary { name: name.to_owned(), ..DeviceSummary::default() };
        let devices = if merged { Vec::new() } else { names.into_iter().map(named).collect() };
        Summary { devices, by_device: Vec::new(), merged }
    }

    /// Counts an event.
    pub fn add(&mut self, event: &Event) {
        if !self.merged {
            if let Some(summary) = self.devices.get_mut(usize::from(event.input)) {
                summary.add(event, false);
            }
            return;
        }
        let index = match self.by_device.iter().position(|&d| d == event.device) {
            Some(index) => index,
            None if self.devices.len() < 4096 => {
                self.by_device.push(event.device);
                self.devices.push(DeviceSummary { name: event.device.to_string(), ..DeviceSummary::default() });
                self.devices.len() - 1
            }
            None => return,
        };
        self.devices[index].add(event, true);
    }

    /// Writes the summary as blkparse prints it after the events.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (i, device) in self.devices.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            let tallies = device.tallies();
            for (cpu, tally) in &tallies {
                writeln!(out, "CPU{} ({}):", cpu, device.name)?;
                write_tally(out, tally, Some(device.max_depth))?;
            }
            let total = device.total();
            if tallies.len() > 1 {
                writeln!(out)?;
                writeln!(out, "Total ({}):", device.name)?;
                write_tally(out, &total, None)?;
            }
            let msec = device.last_ns.saturating_sub(device.first_ns) / 1_000_000;
            let rate = |amount: Amount| {
                let (kib, rest) = (amount.kib(), amount.bytes as u64 & 1023);
                (1000 * kib + rest).checked_div(msec).unwrap_or(0)
            };
            writeln!(out)?;
            writeln!(out, "Throughput (R/W): {}KiB/s / {}KiB/s", rate(total.completed[0]), rate(total.completed[1]))?;
            writeln!(out, "Events ({}): {} entries", device.name, device.events)?;
            let [skips, missing] = device.skips;
            let all = device.events + missing;
            let share = if all == 0 { 0.0 } else { 100.0 * missing as f64 / all as f64 };
            writeln!(out, "Skips: {skips} forward ({missing} - {share:5.1}%)")?;
        }
        Ok(())
    }
}

fn write_tally(out: &mut impl Write, tally: &Tally, depth: Option<[u64; 2]>) -> io::Result<()> {
    write_row(out, "Reads Queued:", "Writes Queued:", tally.queued, true)?;
    write_row(out, "Read Dispatches:", "Write Dispatches:", tally.dispatched, true)?;
    write_row(out, "Reads Requeued:", "Writes Requeued:", tally.requeued, false)?;
    write_row(out, "Reads Completed:", "Writes Completed:", tally.completed, true)?;
    write_row(out, "Read Merges:", "Write Merges:", tally.merged, true)?;
    if let Some([reads, writes]) = depth {
        writeln!(out, " Read depth:      {reads:8}{:8}\t Write depth:      {writes:8}", ' ')?;
    }
    if tally.has_passthrough() {
        write_row(out, "PC Reads Queued:", "PC Writes Queued:", tally.passthrough_queued, true)?;
        write_row(out, "PC Read Disp.:", "PC Write Disp.:", tally.passthrough_dispatched, true)?;
        write_row(out, "PC Reads Req.:", "PC Writes Req.:", tally.passthrough_requeued, false)?;
        write_row(out, "PC Reads Compl.:", "PC Writes Compl.:", tally.passthrough_completed, false)?;
    }
    writeln!(out, " IO unplugs:      {:8}{:8}\t Timer unplugs:    {:8}", tally.unplugs, ' ', tally.timer_unplugs)
}

/// One line of the table; `sized` adds the bytes.
fn write_row(out: &mut impl Write, read: &str, write: &str, pair: AmountPair, sized: bool) -> io::Result<()> {
    let cell = |amount: Amount| {
        let count = sized_number(amount.count, 0);
        if sized { format!("{count}, {}iB", sized_number(amount.kib(), 1)) } else { count }
    };
    let tabs = if sized { "\t" } else { "\t\t" };
    writeln!(out, " {read:<16} {}{tabs} {write:<17} {}", cell(pair[0]), cell(pair[1]))
}

/// blkparse's `size_cnv`: eight characters wide; above a million in the next unit.
fn sized_number(number: u64, unit: usize) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "P"];
    let (mut number, mut unit) = (number, unit);
    while number > 1_000_000 && unit < UNITS.len() - 1 {
        unit += 1;
        number /= 1000;
    }
    format!("{number:8}{}", UNITS[unit])
}
