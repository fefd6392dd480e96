//! A flash disk: an interface and a controller that take one command after the other, then many dies that work in
//! parallel.
//!
//! - A read passes the interface and waits for its die. The dies' pages are larger than a request; requests for a
//!   page that is being read are served with it.
//! - A write passes the interface into the disk's memory and is acknowledged there. The memory is programmed die by
//!   die, in units that fill all pages of a cell's three bits at once. When it is full, writes wait.
//! - Data written in sequence are spread over the dies in turn, one programmed unit on each, so few sequential
//!   streams keep few dies busy.
//! - A read suspends a program after a while. Reads that arrive before the die is idle again are served with it. Then
//!   the program continues, and repeats what it did while it was being suspended. It runs for a while before it is
//!   suspended again, so reads wait longer the more of them there are.
//! - Reads and writes that take turns cost the controller time, so a mixed load has fewer I/Os than either alone.
//! - A used disk copies pages before it can program new ones: see `translation`.
//! - Cells that hold several bits can hold one at first, which is faster. When this cache is full, the disk programs all
//!   bits directly while it has free blocks, and then moves cached data for each write; when it is idle, it moves the
//!   cached data too.
//!
//! Each stage serves in the order of arrival, so every completion time is known at submission: one event for each I/O.

use std::cell::OnceCell;
use std::collections::VecDeque;

use crate::bio::Op;
use crate::device::translation::{FlashUse, Translation};
use crate::device::{DiskCommand, DiskEvents, DiskModel, DiskWork};
use crate::events::Time;
use serde::{Deserialize, Serialize};

/// A flash disk: an interface that serves one command after the other, then many flash units at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Time of the interface and the controller for a read command of any size, in ns; commands are served one after
    /// the other.
    pub read_command_ns: u64,
    /// Time of the interface and the controller for a write command of any size, in ns.
    pub write_command_ns: u64,
    /// Bytes per second of the interface from the disk.
    pub read_bandwidth: u64,
    /// Bytes per second of the interface to the disk.
    pub write_bandwidth: u64,
    /// The part of a read's latency that occupies no component, in ns.
    pub read_latency_ns: u64,
    /// The part of a write's latency, into the disk's memory, that occupies no component, in ns.
    pub write_latency_ns: u64,
    /// Flash dies that work in parallel.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [1, 65_536]})))]
    pub units: u32,
    /// Bytes that a die reads at once: requests within a page are served together.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [512, 1 << 30]})))]
    pub page_bytes: u32,
    /// Time to read a page from flash, in ns.
    pub page_read_ns: u64,
    /// Bytes that a die programs at once, so also how many bytes written in sequence lie on one die: three pages on
    /// each plane, for three bits in each cell.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [512, 1 << 30]})))]
    pub program_bytes: u32,
    /// Time to program `program_bytes`, in ns; with `slc_bytes`, into the cache of single-bit cells.
    pub program_ns: u64,
    /// Bytes that can be acknowledged before they are programmed.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [1, i64::MAX]})))]
    pub buffer_bytes: u64,
    /// Time that a read waits when it suspends a program, in ns.
    pub suspend_ns: u64,
    /// Time that a program runs at least before it is suspended again, in ns.
    #[serde(default)]
    pub resume_ns: u64,
    /// Time of the interface and the controller for a write after a read, or a read after a write, in ns, in addition
    /// to the command's.
    #[serde(default)]
    pub turnaround_ns: u64,
    /// Bytes of the cache of single-bit cells of an empty disk; 0: none. With less free space the cache is smaller: it
    /// has at most nine tenths of the free blocks, and on a full disk 5 GB for each TB.
    #[serde(default)]
    pub slc_bytes: u64,
    /// Bits that a cell holds outside the cache of single-bit cells; 0: three.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [0, 5]})))]
    pub cell_bits: u32,
    /// Time to program `program_bytes` into cells with all bits, in ns, when the cache of single-bit cells is full and
    /// cached data must be moved for it.
    #[serde(default)]
    pub fold_ns: u64,
    /// Time to program `program_bytes` into cells with all bits, in ns, when the cache of single-bit cells is full and
    /// free blocks remain, so that nothing must be moved; 0: `fold_ns`.
    #[serde(default)]
    pub direct_ns: u64,
    /// Bytes that the disk offers; only the size of its cache and `direct_ns` need it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub capacity: u64,
    /// Bytes with data at first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub filled_bytes: u64,
    /// Time of a flush after writes, in ns; 0: it waits for nothing, because a power cut loses no acknowledged data.
    #[serde(default)]
    pub flush_ns: u64,
    /// Time that a write with forced unit access (FUA) takes in addition, in ns. Those that come meanwhile wait, and
    /// share the next such time: an assumption, no measurement shows it.
    #[serde(default)]
    pub fua_ns: u64,
    /// Time of a read command of a disk in use, in ns, instead of `read_command_ns`; 0: the same. It comes from
    /// measurements of a minute or more, not from data sheets.
    #[serde(default)]
    pub sustained_read_command_ns: u64,
    /// Bytes per second of the interface from a disk in use, instead of `read_bandwidth`; 0: the same.
    #[serde(default)]
    pub sustained_read_bandwidth: u64,
    /// Bytes per second of the interface to a disk in use, instead of `write_bandwidth`; 0: the same.
    #[serde(default)]
    pub sustained_write_bandwidth: u64,
    /// Time of a write command of a disk in use, in ns, instead of `write_command_ns`; 0: the same. With `slc_bytes`,
    /// while its cache of single-bit cells is full.
    #[serde(default)]
    pub sustained_write_command_ns: u64,
    /// Time of a write command of a disk in use, in ns, while its cache of single-bit cells takes the data; 0:
    /// `write_command_ns`.
    #[serde(default)]
    pub cached_write_command_ns: u64,
    /// Share of the cache of single-bit cells that holds data at first, 0 to 1, which the disk moves when it is idle. By
    /// default 0 for a disk that is new, unwritten or in use and was idle before; otherwise 1.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub slc_fill: Option<f64>,
    /// In which condition the disk is.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub condition: Condition,
    /// What a used disk went through; `null`: a new disk, which copies nothing.
    pub used: Option<FlashUse>,
}

/// The condition of a flash disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// As its maker measures it: empty, with an empty cache of single-bit cells.
    #[default]
    Fresh,
    /// Nothing was ever written to it, or everything was discarded: reads do not touch its flash.
    Unwritten,
    /// In use, trimmed, and idle before: commands take their sustained times, and the cache of single-bit cells is
    /// empty.
    Used,
    /// Used for years: it takes writes at a third of the rate of a used disk, with a wide interval.
    Worn,
}

/// How much longer a worn disk's writes take. The geometric mean of what is known: a disk that writes as it did,
/// and one that writes at a tenth of its rate (three Crucial MX200 in reference/foreign/fio_plot.csv).
const WORN: f64 = 3.2;

/// How long a disk must be idle before a cache that was full takes data again. Speed returns after seconds of pause; under
/// load it does not, though the dies have time: 60 s of small writes stay slow (reference/foreign/iocost.csv).
const REST: Time = 1_000_000_000;

/// Share of the free blocks that the cache of single-bit cells takes at most. A Lexar NM800 Pro and an HP FX700 take 0.89
/// and 0.92 of an empty disk.
const SLC_OF_FREE: f64 = 0.9;
/// The cache that a full disk has, as a share of its capacity. Remembered; no measurement shows it.
const SLC_OF_FULL: f64 = 0.005;

impl FlashSpec {
    /// Bytes of the cache of single-bit cells with the present data, and those that can then be programmed directly.
    fn slc_and_direct_bytes(&self) -> (f64, f64) {
        let bits = f64::from(if self.cell_bits == 0 { 3 } else { self.cell_bits });
        let (limit, free) = (self.slc_bytes as f64, self.capacity.saturating_sub(self.filled_bytes) as f64);
        let of_free = (SLC_OF_FREE * free / bits).max(SLC_OF_FULL * self.capacity as f64);
        let slc = if self.filled_bytes == 0 { limit } else { limit.min(of_free) };
        (slc, (free - slc * bits).max(0.0))
    }
}

#[derive(Clone, Copy, Debug)]
struct Die {
    read_until: Time,    // When its queued reads end
    program_until: Time, // When its queued programs end
    program_ns: Time,    // How long the last of them takes
    resumed_until: Time, // When the program ends that a read suspended last
    page: u64,           // The page it read last, or is reading
    page_ready: Time,    // When that page has been read
}

impl Die {
    /// When a read that comes now can suspend the program that runs then. A program that was resumed runs for
    /// `resume_ns` first; one that no read has suspended can be suspended at once.
    fn suspension_time(&self, now: Time, resume_ns: Time) -> Time {
        if now < self.resumed_until { now.max((self.read_until + resume_ns).min(self.resumed_until)) } else { now }
    }

    /// When the program ends that runs at a time. Those behind it take as long as the last one.
    fn end_of_program(&self, time: Time) -> Time {
        let left_ns = self.program_until - time;
        self.program_until - (left_ns - 1) / self.program_ns.max(1) * self.program_ns
    }
}

/// A flash disk.
#[derive(Debug, Default)]
pub struct Flash {
    model: FlashSpec,
    read_command_ns: f64,
    write_command_ns: f64,
    cached_write_command_ns: f64, // While the cache of single-bit cells takes the data
    read_byte_ns: f64,
    write_byte_ns: f64,
    interface_until: f64, // When the interface is free
    wrote: bool,          // The last command was a write
    dies: Vec<Die>,
    page: Divisor, // Divides bytes into pages, and pages among the dies
    die: Divisor,
    next_die: usize, // The die that is programmed next, and the bytes collected for it
    gathered: u64,
    buffered: u64, // Bytes acknowledged and not yet programmed, and when units of them will be programmed
    programs: VecDeque<Time>,
    streams: SequentialStreams,
    busy: u64,
    busy_until: Time,
    interface_ns: f64,
    die_ns: u64,
    page_hits: u64,
    translation: OnceCell<Translation>, // Of a used disk; made by its first write, because it takes a while
    to_copy: f64,                       // Bytes to copy, less than what is programmed at once
    copied: u64,
    written: u64,
    flushed: u64, // Bytes written before the last flush, and when it ends
    flush_until: Time,
    durable: (Time, Time), // Begin and end of the last time in which writes with forced unit access become durable
    durable_ns: u64,       // All such times
    slc_bytes: f64,        // The cache of single-bit cells, and what can be programmed directly when it is full
    direct_bytes: f64,
    direct: f64,        // Bytes programmed directly, or moved from the cache
    extent: (u64, u64), // The first byte that was written, and the end of the last one
    slc_used: f64,      // Bytes in the cache of single-bit cells
    slc_time: Time,     // Up to when they are counted
    slc_closed: bool,   // It was full, and the disk has not been idle since
    slc_full_ns: Option<Time>,
}

impl DiskModel for Flash {
    type Spec = FlashSpec;

    fn new(model: &FlashSpec) -> Self {
        let die =
            Die { read_until: 0, program_until: 0, program_ns: 0, resumed_until: 0, page: u64::MAX, page_ready: 0 };
        let is_fresh = model.condition == Condition::Fresh && model.used.is_none();
        let present = |fresh: u64, sustained: u64| (if is_fresh || sustained == 0 { fresh } else { sustained }) as f64;
        let worn = if model.condition == Condition::Worn { WORN } else { 1.0 };
        let (slc_bytes, direct_bytes) = model.slc_and_direct_bytes();
        let write_command_ns = present(model.write_command_ns, model.sustained_write_command_ns) * worn;
        let cached_write_command_ns = present(model.write_command_ns, model.cached_write_command_ns) * worn;
        let begins_empty = is_fresh
            || model.condition == Condition::Unwritten
            || (model.condition == Condition::Used && model.used.is_none());
        let slc_fill = model.slc_fill.unwrap_or(if begins_empty { 0.0 } else { 1.0 });
        Self {
            read_command_ns: present(model.read_command_ns, model.sustained_read_command_ns),
            write_command_ns,
            cached_write_command_ns: if slc_bytes > 0.0 { cached_write_command_ns } else { write_command_ns },
            read_byte_ns: 1e9 / present(model.read_bandwidth, model.sustained_read_bandwidth).max(1.0),
            write_byte_ns: 1e9 / present(model.write_bandwidth, model.sustained_write_bandwidth).max(1.0) * worn,
            dies: vec![die; model.units.clamp(1, 1 << 16) as usize],
            page: Divisor::new(u64::from(model.page_bytes.max(512))),
            die: Divisor::new(u64::from(model.units.max(1))),
            slc_bytes,
            direct_bytes,
            extent: (u64::MAX, 0),
            slc_used: slc_fill.clamp(0.0, 1.0) * slc_bytes,
            slc_closed: slc_fill >= 1.0,
            model: model.clone(),
            ..Self::default()
        }
    }

    fn work(&self) -> DiskWork {
        DiskWork {
            interface_ns: self.interface_ns as u64,
            media_ns: self.die_ns / self.dies.len() as u64,
            durable_ns: self.durable_ns,
            cache_hits: self.page_hits,
            flash_bytes: self.written + self.copied,
            media_cache_full_ns: self.slc_full_ns,
            ..DiskWork::default()
        }
    }

    fn busy_ns(&self) -> u64 {
        self.busy
    }

    fn discard(&mut self, byte: u64, bytes: u64) {
        self.translation().into_iter().for_each(|translation| translation.discard(byte, bytes));
    }

    #[inline(always)]
    fn start(&mut self, now: Time, command: DiskCommand, events: &mut DiskEvents) {
        events.plan_completion(self.completion_time(now, &command), command.request);
    }
}

impl Flash {
    /// When a command that comes now is done.
    fn completion_time(&mut self, now: Time, command: &DiskCommand) -> Time {
        let done = match command.op {
            Op::Read => self.read(now, command),
            Op::Write => self.write(now, command),
            Op::Flush => self.flush(now),
            Op::Discard => unreachable!("queues answer discards"),
        };
        self.busy += done.saturating_sub(self.busy_until.max(now));
        self.busy_until = self.busy_until.max(done);
        done
    }

    fn pass_interface(&mut self, now: Time, nanoseconds: f64) -> Time {
        self.interface_ns += nanoseconds;
        self.interface_until = self.interface_until.max(now as f64) + nanoseconds;
        self.interface_until as Time
    }

    /// What a command takes in addition because its direction is not that of the one before.
    fn turnaround_time(&mut self, writes: bool) -> f64 {
        let turns = self.wrote != writes;
        self.wrote = writes;
        if turns { self.model.turnaround_ns as f64 } else { 0.0 }
    }

    fn read(&mut self, now: Time, command: &DiskCommand) -> Time {
        let turnaround = self.turnaround_time(false);
        let interface = self.read_command_ns + f64::from(command.bytes) * self.read_byte_ns;
        let arrived = self.pass_interface(now, turnaround + interface);
        if self.model.condition == Condition::Unwritten {
            return arrived + self.model.read_latency_ns;
        }
        let sequential = self.streams.record_read(command.byte, command.bytes);
        let first = self.page.divide(command.byte);
        let last = self.page.divide(command.byte + u64::from(command.bytes).max(1) - 1);
        let mut done = arrived;
        for page in first..last + 1 {
            done = done.max(self.read_page(arrived, page, sequential));
        }
        done + self.model.read_latency_ns
    }

    /// Reads from a page on its die. For a sequential stream the disk keeps the page, and the next commands find it.
    fn read_page(&mut self, arrived: Time, page: u64, sequential: bool) -> Time {
        let model = &self.model;
        // Three bits in a cell are three pages, read with one, two and four reference voltages: a quarter faster or
        // slower than the middle page. The page number decides which of them it is.
        let page_read_ns = model.page_read_ns * (3 + page % 3) / 4;
        let die = self.die.remainder(page) as usize;
        let die = &mut self.dies[die];
        if sequential && die.page == page {
            self.page_hits += 1;
            return die.page_ready.max(arrived);
        }
        let mut start = die.read_until.max(arrived);
        if start < die.program_until {
            // Reads that wait for others find the program suspended.
            let is_suspended = die.read_until > arrived;
            let suspend_ns = if is_suspended { 0 } else { model.suspend_ns };
            let suspended =
                if is_suspended { start } else { die.suspension_time(arrived, model.resume_ns) + suspend_ns };
            if suspended < die.program_until {
                start = suspended;
                let (end, added_ns) = (die.end_of_program(suspended), page_read_ns + suspend_ns);
                die.program_until += added_ns;
                if !is_suspended {
                    die.resumed_until = end + added_ns;
                } else if die.resumed_until > arrived {
                    die.resumed_until += added_ns;
                }
            } else {
                start = die.program_until;
            }
        }
        self.die_ns += page_read_ns;
        die.read_until = start + page_read_ns;
        die.page = if sequential { page } else { u64::MAX };
        die.page_ready = die.read_until;
        die.page_ready
    }

    fn write(&mut self, now: Time, command: &DiskCommand) -> Time {
        let bytes = u64::from(command.bytes);
        let takes_data = !self.slc_closed && self.slc_used + f64::from(self.model.program_bytes) <= self.slc_bytes;
        let command_ns = if takes_data { self.cached_write_command_ns } else { self.write_command_ns };
        let turnaround = self.turnaround_time(true);
        let interface = command_ns + bytes as f64 * self.write_byte_ns;
        let mut arrived = self.pass_interface(now, turnaround + interface);
        let unit = u64::from(self.model.program_bytes.max(1));
        while self.programs.front().is_some_and(|&end| end <= arrived) {
            self.programs.pop_front();
            self.buffered -= unit;
        }
        while self.buffered + bytes > self.model.buffer_bytes.max(unit) {
            let Some(end) = self.programs.pop_front() else { break };
            arrived = arrived.max(end);
            self.buffered -= unit;
        }
        self.buffered += bytes;
        self.gathered += bytes;
        self.written += bytes;
        self.extent = (self.extent.0.min(command.byte), self.extent.1.max(command.byte + bytes));
        if self.model.used.is_some() {
            self.collect_garbage(arrived, command.byte, bytes);
        }
        while self.gathered >= unit {
            self.gathered -= unit;
            self.program(arrived);
        }
        arrived + self.model.write_latency_ns + if command.fua { self.time_to_be_durable(arrived) } else { 0 }
    }

    /// When a flush that comes now is done. The first one after a write takes its time, one after the other.
    fn flush(&mut self, now: Time) -> Time {
        if self.flushed < self.written {
            self.flushed = self.written;
            self.flush_until = self.flush_until.max(now) + self.model.flush_ns;
        }
        self.flush_until.max(now) + self.model.write_latency_ns
    }

    /// How long a write with forced unit access takes in addition.
    fn time_to_be_durable(&mut self, arrived: Time) -> Time {
        let (begin, end) = self.durable;
        if arrived >= begin {
            self.durable = (end.max(arrived), end.max(arrived) + self.model.fua_ns);
            self.durable_ns += self.model.fua_ns;
        }
        self.durable.1 - arrived
    }

    fn translation(&mut self) -> Option<&mut Translation> {
        let used = self.model.used.as_ref()?;
        self.translation.get_or_init(|| Translation::new(used));
        self.translation.get_mut()
    }

    /// Copies what the translation layer must copy for a write: it is read, and programmed again.
    fn collect_garbage(&mut self, arrived: Time, byte: u64, bytes: u64) {
        self.to_copy += self.translation().map_or(0.0, |translation| translation.write(byte, bytes));
        let unit = f64::from(self.model.program_bytes.max(1));
        let reads = u64::from(self.model.program_bytes / self.model.page_bytes.max(1)) * self.model.page_read_ns;
        while self.to_copy >= unit {
            self.to_copy -= unit;
            self.copied += unit as u64;
            // Copies go to cells with all bits.
            let program = if self.model.slc_bytes > 0 { self.model.fold_ns } else { self.model.program_ns };
            self.occupy_die(arrived, program + reads);
        }
    }

    /// Occupies the next die; returns until when.
    fn occupy_die(&mut self, arrived: Time, nanoseconds: u64) -> Time {
        let dies = self.dies.len();
        self.die_ns += nanoseconds;
        let die = &mut self.dies[self.next_die];
        self.next_die = (self.next_die + 1) % dies;
        die.program_ns = nanoseconds;
        die.program_until = die.program_until.max(die.read_until).max(arrived) + nanoseconds;
        die.program_until
    }

    /// The time to program a unit of new data: longer when the cache of single-bit cells is full.
    fn program_time(&mut self, arrived: Time) -> u64 {
        let unit = f64::from(self.model.program_bytes);
        if self.model.slc_bytes == 0 {
            return self.model.program_ns;
        }
        // Idle dies move cached data to cells with all bits.
        let idle_since = self.dies.iter().map(|die| die.program_until).max().unwrap_or(0).max(self.slc_time);
        let pause = arrived.saturating_sub(idle_since);
        self.slc_closed &= pause < REST;
        let idle = if self.slc_closed { 0.0 } else { pause as f64 };
        let moved = idle / self.model.fold_ns.max(1) as f64 * unit * self.dies.len() as f64;
        let moved = moved.min(self.slc_used);
        self.copied += moved as u64;
        self.direct += moved;
        (self.slc_used, self.slc_time) = (self.slc_used - moved, arrived);
        if self.slc_closed || self.slc_used + unit > self.slc_bytes {
            self.slc_closed = true;
            self.slc_full_ns.get_or_insert(arrived);
            // Data that are written again free the blocks of the old ones.
            let kept = (self.extent.1 - self.extent.0) as f64 - self.slc_used;
            let directly = self.model.direct_ns > 0 && self.direct.min(kept) < self.direct_bytes;
            self.direct += unit;
            return if directly { self.model.direct_ns } else { self.model.fold_ns };
        }
        self.slc_used += unit;
        self.model.program_ns
    }

    fn program(&mut self, arrived: Time) {
        let nanoseconds = self.program_time(arrived);
        let end = self.occupy_die(arrived, nanoseconds);
        // Nearly sorted already: the dies are programmed in turn.
        let place = self.programs.iter().rposition(|&other| other <= end).map_or(0, |i| i + 1);
        self.programs.insert(place, end);
    }
}

/// A divisor. If it is a power of two, as nearly always, dividing is shifting.
#[derive(Clone, Copy, Debug, Default)]
struct Divisor {
    by: u64,
    shift: Option<u32>,
}

impl Divisor {
    fn new(by: u64) -> Self {
        Self { by, shift: by.is_power_of_two().then(|| by.trailing_zeros()) }
    }

    fn divide(self, number: u64) -> u64 {
        self.shift.map_or_else(|| number / self.by, |shift| number >> shift)
    }

    fn remainder(self, number: u64) -> u64 {
        self.shift.map_or_else(|| number % self.by, |_| number & (self.by - 1))
    }
}

/// Sequential streams that are detected at the same time.
const STREAMS: usize = 16;
/// Bytes after which a run counts as sequential.
const RUN: u64 = 128 << 10;
/// Bytes that a stream may leave out. A mirror gives the disk a stream with gaps, which another disk reads. With two
/// reads of 4 KiB the published mirrors (reference/fio_runs.csv) differ least from the simulated ones: RAID-1, and
/// RAID-10 before and after the balancer of 5.3 had 317, 431 and 548 thousand IOPS.
const GAP: u64 = 8 << 10;

/// Detects sequential reads among others: for each stream, its next byte and its length.
#[derive(Debug)]
struct SequentialStreams {
    ends: [u64; STREAMS], // At first where no read begins
    lengths: [u64; STREAMS],
    oldest: usize, // The run that is replaced next
}

impl Default for SequentialStreams {
    fn default() -> Self {
        Self { ends: [u64::MAX / 2; STREAMS], lengths: [0; STREAMS], oldest: 0 }
    }
}

impl SequentialStreams {
    /// Records a read. True if it belongs to a sequential stream.
    fn record_read(&mut self, byte: u64, bytes: u32) -> bool {
        // For all runs at once: most reads continue none.
        let continued = self.ends.iter().fold(false, |any, &end| any | (byte.wrapping_sub(end) <= GAP));
        let place = if continued { self.ends.iter().position(|&end| byte.wrapping_sub(end) <= GAP) } else { None };
        let length = place.map_or(0, |place| self.lengths[place]) + u64::from(bytes);
        let place = place.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % STREAMS;
            self.oldest
        });
        self.ends[place] = byte + u64::from(bytes);
        self.lengths[place] = length;
        length > RUN
    }
}

#[cfg(test)]
mod tests;
