//! Characterises the workload of a trace.
//!
//! Two stages: [`intake`] takes events in order (counts, pairs, filters) and sends chunks of rows on; panels
//! (such as [`load`], [`life`], [`over_time`]) turn rows into statistics. Memory is bounded for traces
//! of any length. With more than one thread the panels run in parallel to the intake, each panel on one thread, so
//! results do not depend on the number of threads.

pub mod blocks;
pub mod chunk;
mod density;
pub mod depth;
pub mod dispatches;
pub mod files;
pub mod hot;
pub mod intake;
pub mod life;
pub mod load;
pub mod maps;
pub mod observed;
pub mod offsets;
pub mod over_time;
pub mod partial;
pub mod pattern;
pub mod process_series;
pub mod profile;
pub(crate) mod remaps;
pub mod slow;
pub mod users;
pub mod waits;

use crate::error::Result;
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::source::Source;
use blocks::LatencyBlocks;
use chunk::{Chunk, MANY_DEVICES, Panel, PerDevice, ProfiledDevice, Renumbering};
use files::{FileAccesses, Filesystem};
use hot::HotBlocks;
use intake::Intake;
use life::Life;
use load::Load;
use maps::LatencyMaps;
use offsets::Offsets;
use over_time::OverTime;
use pattern::AccessPattern;
use process_series::ProcessSeries;
use profile::{DeviceFlow, FORMAT_VERSION, Profile, SummaryProfile, focus};
use serde::Serialize;
use slow::SlowIos;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use users::Users;
use waits::Waits;

const QUEUE: usize = 64; // Chunks that can wait between two threads
const MOST_WAITING: usize = 16; // Chunks that wait for panels that do not exist yet; the panels would be larger
const FEW_WAITING: usize = 4; // Chunks that wait for panels that exist

type PanelJob<'a> = Box<dyn FnMut(&Chunk) + Send + 'a>; // One panel's work on a chunk

/// Declares the panels of every device, each with its meaning in the document.
macro_rules! panels {
    ($($(#[$meaning:meta])+ $name:ident: $panel:ty,)*) => {
        /// The workload of one device.
        #[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
        pub struct DeviceProfile {
            /// Events and queue depth.
            #[serde(flatten)]
            pub flow: DeviceFlow,
            $($(#[$meaning])+ pub $name: <$panel as Panel>::Profile),*
        }

        #[derive(Default)]
        struct Panels {
            $($name: PerDevice<$panel>,)*
            /// By device, the chunks that wait for its panels: these get many at a time, while the processor's cache has
            /// their state, and a device with few I/Os has none before its profile is made.
            waiting: Vec<Vec<Chunk>>,
        }

        type StoredPanels = ($(Vec<$panel>,)*);

        impl Panels {
            /// Counts a chunk; of a device that is described briefly, only what its profile has.
            fn observe(&mut self, chunk: &Chunk, brief: bool) {
                $(if !(brief && <$panel>::DETAIL) { self.$name.observe(chunk) })*
            }

            fn jobs(&mut self) -> Vec<PanelJob<'_>> {
                vec![$(Box::new(|chunk| self.$name.observe(chunk))),*]
            }

            fn end(&mut self) {
                (0..self.waiting.len()).for_each(|at| self.observe_waiting(at, false));
                $(self.$name.end();)*
            }

            fn remove(&mut self, at: usize) {
                $(self.$name.take(at);)*
            }

            fn stored(&self) -> impl Serialize {
                ($(&self.$name.panels,)*)
            }

            fn restored(stored: StoredPanels) -> Panels {
                let mut panels = Panels::default();
                ($(panels.$name.panels,)*) = stored;
                panels
            }

            /// Adds one device's panels to those of the device `to`.
            fn merge(&mut self, to: usize, other: &mut Panels, from: usize, numbers: &Renumbering) {
                $(self.$name.merge(to, other.$name.take(from), numbers);)*
            }

            /// The profile of a device.
            fn profile(&self, at: usize, flow: DeviceFlow, brief: bool, intake: &Intake) -> DeviceProfile {
                let p50 = self.life.panels.get(at).and_then(Life::p50);
                let process = &|index| intake.process_name(index);
                let device = ProfiledDevice { number: &flow.device, name: flow.name.as_deref(), p50, process };
                $(let $name = self.$name.profile(at, &device, brief);)*
                DeviceProfile { $($name,)* flow }
            }
        }
    };
}

panels! {
    /// Operations and sizes, and where the I/O came from.
    load: Load,
    /// Latencies by operation: `read`, `write`, `discard`, `flush`, and `all`, which is everything except flushes.
    life: Life,
    /// Sequential streams, seeks and arrivals.
    pattern: AccessPattern,
    /// Hot and cold blocks of 4 KiB.
    hotness: HotBlocks,
    /// Load and latencies over time.
    over_time: OverTime,
    /// Where reads and writes begin, over time.
    offsets: Offsets,
    /// I/Os by process, over time.
    processes_over_time: ProcessSeries,
    /// The slowest I/Os, and stalls.
    slow: SlowIos,
    /// Latencies in blocks of consecutive I/Os.
    latency_blocks: LatencyBlocks,
    /// Latencies by size and by queue depth.
    maps: LatencyMaps,
    /// What I/Os that a program waits for found in flight.
    waits: Waits,
    /// The processes that use the device, and what their I/Os waited behind; without detail, empty.
    users: Users,
    /// I/Os by file of the device's filesystem; `null` without `--files`, and for other devices.
    files: FileAccesses,
}

/// Reads a source to its end and characterises it; see [`Options`] and [`Characterisation::of`].
pub fn characterise(
    source: &mut dyn Source, filter: Filter, options: Options, threads: usize, tick: &mut dyn FnMut(u64) -> bool,
) -> Result<Profile> {
    let in_full = options.in_full;
    Ok(Characterisation::of(source, filter, options, threads, tick)?.into_profile(in_full))
}

/// What to characterise besides everything.
#[derive(Default)]
pub struct Options {
    /// The number of distinct blocks that are counted exactly, of all inputs together; by default few enough to be
    /// fast.
    pub exact_blocks: Option<usize>,
    /// Up to how many devices all are described in full, and how many of the busiest ones if there are more; by default
    /// all. Brief profiles are empty where [`Panel::DETAIL`] says so.
    pub in_full: Option<(usize, usize)>,
    pub filesystem: Option<Filesystem>,     // The filesystem whose files are counted
    pub shown_as: Option<(String, String)>, // A beginning of paths, and what messages show instead
    pub host: String,                       // The host of the trace's devices, if there are several hosts; else empty
}

/// A characterisation that can be stored and merged; see [`partial`].
pub struct Characterisation {
    intake: Intake,
    panels: Panels,
}

impl Characterisation {
    /// Reads a source to its end and characterises it; [`Characterisation::ended`] must follow before it is stored,
    /// merged or described by [`Characterisation::profile`].
    ///
    /// `threads` is the largest number of threads, at least 1. `tick` is called after every batch with the bytes read so
    /// far, to show progress; if it returns false, the trace ends there.
    pub fn of(
        source: &mut dyn Source, filter: Filter, options: Options, threads: usize, tick: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Characterisation> {
        let mut panels = Panels::default();
        if let Some(blocks) = options.exact_blocks {
            let blocks = blocks / source.info().inputs.len().max(1);
            panels.hotness = PerDevice::new(move |_| HotBlocks::exact(blocks));
        }
        if let Some(filesystem) = options.filesystem.map(Arc::new) {
            panels.files = PerDevice::new(move |_| FileAccesses::new(Arc::clone(&filesystem)));
        }
        let mut intake = Intake::new(filter, &options.host);
        let mut read = |send_chunk: &mut dyn FnMut(Chunk)| -> Result<()> {
            let mut batch = EventBatch::default();
            loop {
                let goes_on = source.fill(&mut batch)? && tick(source.info().bytes_read);
                if batch.events.len() >= if goes_on { intake.wanted_events() } else { 1 } {
                    intake.add_batch(&batch, source.info(), send_chunk);
                    batch.clear();
                }
                if !goes_on {
                    break;
                }
            }
            let mut info = source.info().clone();
            options.shown_as.iter().for_each(|(path, shown)| info.show_as(path, shown));
            intake.end(info, send_chunk);
            Ok(())
        };
        if threads <= 1 {
            read(&mut |chunk| panels.add(chunk))?;
        } else {
            panels.observe_in_threads(threads - 1, read)?;
        }
        Ok(Characterisation { intake, panels })
    }

    /// Ends the statistics.
    pub fn ended(mut self) -> Characterisation {
        self.panels.end();
        self
    }

    /// The profile.
    pub fn profile(&self) -> Profile {
        let device = |(at, flow)| self.panels.profile(at, flow, false, &self.intake);
        self.document(self.intake.flows().into_iter().map(device).collect())
    }

    /// The profile. Only one device at a time has both its panels and its profile.
    fn into_profile(mut self, in_full: Option<(usize, usize)>) -> Profile {
        let flows = self.intake.flows();
        let most = in_full.filter(|(all, _)| flows.len() > *all).map_or(flows.len(), |(_, most)| most);
        let mut busiest: Vec<usize> = flows.iter().map(|(at, _)| *at).collect();
        busiest.sort_by_key(|&at| Reverse(self.panels.ios(at)));
        busiest.truncate(most);
        let device = |(at, flow)| {
            let brief = !busiest.contains(&at);
            self.panels.observe_waiting(at, brief);
            let profile = self.panels.profile(at, flow, brief, &self.intake);
            self.panels.remove(at);
            profile
        };
        let devices = flows.into_iter().map(device).collect();
        self.document(devices)
    }

    fn document(&self, devices: Vec<DeviceProfile>) -> Profile {
        let intake = &self.intake;
        let (events, events_left_out) = intake.totals();
        let (first_ns, last_ns) = intake.span();
        Profile {
            format_version: FORMAT_VERSION,
            trace: intake.info.clone(),
            filter: intake.filter.clone(),
            events,
            events_left_out,
            focus: focus(&devices, &intake.info.stack),
            first_ns,
            last_ns,
            device_names: intake.device_names(),
            process_names: intake.process_names(),
            devices,
            summary: intake.summary().into_iter().map(SummaryProfile::from).collect(),
        }
    }
}

impl Panels {
    /// Counts a chunk, or lets it wait if there are many devices.
    fn add(&mut self, mut chunk: Chunk) {
        let at = chunk.device;
        if at < MANY_DEVICES {
            return self.observe(&chunk, false);
        }
        self.waiting.resize_with(self.waiting.len().max(at + 1), Vec::new);
        chunk.queued.shrink_to_fit();
        chunk.ended.shrink_to_fit();
        self.waiting[at].push(chunk);
        let has_panels = self.load.panels.get(at).is_some_and(|load| load.ios() > 0);
        if self.waiting[at].len() >= if has_panels { FEW_WAITING } else { MOST_WAITING } {
            self.observe_waiting(at, false);
        }
    }

    fn observe_waiting(&mut self, at: usize, brief: bool) {
        for chunk in self.waiting.get_mut(at).map(std::mem::take).unwrap_or_default() {
            self.observe(&chunk, brief);
        }
    }

    /// I/Os queued on a device.
    fn ios(&self, at: usize) -> u64 {
        let waiting = self.waiting.get(at).into_iter().flatten().map(|chunk| chunk.queued.len() as u64);
        waiting.sum::<u64>() + self.load.panels.get(at).map_or(0, Load::ios)
    }

    /// Runs `read` on this thread and the panels on up to `workers` others.
    fn observe_in_threads(
        &mut self, workers: usize, read: impl FnOnce(&mut dyn FnMut(Chunk)) -> Result<()>,
    ) -> Result<()> {
        let mut jobs = self.jobs();
        let per_worker = jobs.len().div_ceil(workers.max(1));
        std::thread::scope(|scope| {
            let mut senders: Vec<SyncSender<Arc<Chunk>>> = Vec::new();
            for share in jobs.chunks_mut(per_worker) {
                let (sender, receiver): (_, Receiver<Arc<Chunk>>) = sync_channel(QUEUE);
                senders.push(sender);
                scope.spawn(move || {
                    for chunk in receiver {
                        share.iter_mut().for_each(|job| job(&chunk));
                    }
                });
            }
            // A send fails only if a worker has panicked; the scope passes the panic on.
            read(&mut |chunk| {
                let chunk = Arc::new(chunk);
                senders.iter().for_each(|sender| drop(sender.send(Arc::clone(&chunk))));
            })
        })
    }
}
