//! Characterises the workload of a trace.
//!
//! Two stages: [`intake`] takes events in order (counts, pairs, filters) and sends chunks of rows on; panels
//! (such as [`load`], [`life`], [`over_time`]) turn rows into statistics. Memory is bounded for traces
//! of any length. With more than one thread the panels run in parallel to the intake, each panel on one thread, so
//! results do not depend on the number of threads.

pub mod chunk;
mod density;
pub mod depth;
pub mod files;
pub mod hot;
pub mod intake;
pub mod life;
pub mod load;
pub mod offsets;
pub mod over_time;
pub mod pattern;
pub mod process_series;
pub mod profile;
pub(crate) mod remaps;
pub mod slow;

use crate::error::Result;
use crate::event::EventBatch;
use crate::filter::Filter;
use crate::source::Source;
use chunk::{Chunk, PerDevice};
use files::{FileAccesses, Filesystem};
use hot::HotBlocks;
use intake::Intake;
use life::{Life, LifeProfile};
use load::Load;
use offsets::Offsets;
use over_time::OverTime;
use pattern::AccessPattern;
use process_series::ProcessSeries;
use profile::{DeviceProfile, FORMAT_VERSION, Profile, SummaryProfile, focus};
use slow::SlowIos;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const QUEUE: usize = 64; // Chunks that can wait between two threads

type PanelJob<'a> = Box<dyn FnMut(&Chunk) + Send + 'a>; // One panel's work on a chunk

/// Declares the panels of every device; those that cost most are first.
macro_rules! panels {
    ($($name:ident: $panel:ty),* $(,)?) => {
        #[derive(Default)]
        struct Panels {
            $($name: PerDevice<$panel>),*
        }

        impl Panels {
            fn observe(&mut self, chunk: &Chunk) {
                $(self.$name.observe(chunk);)*
            }

            fn jobs(&mut self) -> Vec<PanelJob<'_>> {
                vec![$(Box::new(|chunk| self.$name.observe(chunk))),*]
            }
        }
    };
}

panels! {
    life: Life,
    hot: HotBlocks,
    load: Load,
    over_time: OverTime,
    pattern: AccessPattern,
    offsets: Offsets,
    processes: ProcessSeries,
    slow: SlowIos,
    files: FileAccesses,
}

/// Reads a source to its end and characterises it.
///
/// `exact_blocks` is the number of distinct blocks that are counted exactly, of all inputs together; by default few
/// enough to be fast. `filesystem` is that of which files are counted. `threads` is the largest number of threads, at least 1. `tick` is called after every batch with the
/// bytes read so far, to show progress; if it returns false, reading stops, and the profile covers what was read.
pub fn characterise(
    source: &mut dyn Source, filter: Filter, exact_blocks: Option<usize>, filesystem: Option<Filesystem>,
    threads: usize, tick: &mut dyn FnMut(u64) -> bool,
) -> Result<Profile> {
    let mut panels = Panels::default();
    if let Some(blocks) = exact_blocks {
        let inputs = source.info().inputs.len().max(1);
        panels.hot = PerDevice::new(move |_| HotBlocks::exact(blocks / inputs));
    }
    let filesystem = filesystem.map(Arc::new);
    if let Some(filesystem) = filesystem.clone() {
        panels.files = PerDevice::new(move |_| FileAccesses::new(Arc::clone(&filesystem)));
    }
    let mut batch = EventBatch::default();
    let mut more = source.fill(&mut batch)?;
    let mut intake = Intake::new(filter.clone(), source.info());
    let mut read = |intake: &mut Intake, send_chunk: &mut dyn FnMut(Chunk)| -> Result<()> {
        while more {
            intake.add_batch(&batch, source.info(), send_chunk);
            batch.clear();
            more = tick(source.info().bytes_read) && source.fill(&mut batch)?;
        }
        intake.finish(send_chunk);
        Ok(())
    };
    if threads <= 1 {
        read(&mut intake, &mut |chunk| panels.observe(&chunk))?;
    } else {
        panels.observe_in_threads(threads - 1, |send_chunk| read(&mut intake, send_chunk))?;
    }
    let devices: Vec<DeviceProfile> = intake
        .flows()
        .into_iter()
        .map(|(at, flow)| {
            let process = |index| intake.process_name(index);
            let life = panels.life.take(at).profile();
            let files = panels.files.take(at);
            DeviceProfile {
                slow: panels.slow.take(at).profile(p99(&life), process),
                files: filesystem.as_ref().filter(|on| on.is_on(&flow)).and_then(|_| files.profile()),
                flow,
                load: panels.load.take(at).profile(process),
                life,
                pattern: panels.pattern.take(at).profile(),
                hotness: panels.hot.take(at).profile(),
                over_time: panels.over_time.take(at).profile(),
                offsets: panels.offsets.take(at).profile(),
                processes_over_time: panels.processes.take(at).profile(process),
            }
        })
        .collect();
    let (events, events_left_out) = intake.totals();
    let (first_ns, last_ns) = intake.span();
    Ok(Profile {
        format_version: FORMAT_VERSION,
        trace: source.info().clone(),
        filter,
        events,
        events_left_out,
        focus: focus(&devices),
        first_ns,
        last_ns,
        device_names: intake.device_names(),
        process_names: intake.process_names(),
        devices,
        summary: intake.summary().into_iter().map(SummaryProfile::from).collect(),
    })
}

/// The 99th percentile of Q2C, or of D2C in a recording without Q.
fn p99(life: &BTreeMap<&'static str, LifeProfile>) -> Option<u64> {
    let latencies = &life.get("all")?.latency_ns;
    ["q2c", "d2c"].iter().find_map(|stage| latencies.get(stage)?.p99)
}

impl Panels {
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
