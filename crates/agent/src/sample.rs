//! Files read at an interval, all in the guest: what the host sees of its clock is of no use.

use crate::exchange::Control;
use crate::files::{self, Files};
use crate::frame;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How many samples are kept.
const MOST: usize = 20_000;
/// How much text they may hold together, in bytes: the guest has no more memory than it was given.
const MOST_BYTES: usize = 128 << 20;
/// How much of it goes into one frame; as JSON it is at most six times as long, and mostly ASCII.
const IN_A_FRAME: usize = frame::LONGEST / 8;

/// Files at an instant.
#[derive(Serialize)]
pub struct Sample {
    /// CLOCK_MONOTONIC, in nanoseconds, before the files were read.
    t_ns: u64,
    files: Files,
}

impl Sample {
    fn take(paths: &[String]) -> Sample {
        let now = clock_gettime(ClockId::Monotonic);
        let t_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        Sample { t_ns, files: files::read(paths) }
    }

    /// About how long this is, in bytes.
    fn size(&self) -> usize {
        let file =
            |(path, text): (&String, &Option<String>)| path.len() + text.as_ref().map_or(8, String::len);
        40 + self.files.iter().map(file).sum::<usize>()
    }
}

/// Samples at once, then whenever an interval has passed, then when asked to finish.
///
/// An instant that was missed is left out; the ones after it stay where they are.
pub fn sample(
    interval: Duration,
    paths: &[String],
    control: &Control,
    started: impl FnOnce(),
) -> Result<Vec<Sample>, String> {
    if interval.is_zero() {
        return Err("interval_ms: at least 1 was expected".into());
    }
    let begin = Instant::now();
    let mut samples = vec![Sample::take(paths)];
    let mut bytes = samples[0].size();
    started();
    let mut finished = false;
    while !finished {
        let passed = begin.elapsed().as_nanos() / interval.as_nanos() + 1;
        let due = u32::try_from(passed).ok().and_then(|passed| interval.checked_mul(passed));
        let Some(due) = due.and_then(|due| begin.checked_add(due)) else {
            return Err("interval_ms: the next sample would be beyond what the clock counts".into());
        };
        finished = control.finished(due);
        samples.push(Sample::take(paths));
        bytes += samples[samples.len() - 1].size();
        if samples.len() > MOST || bytes > MOST_BYTES {
            return Err(format!("more than {MOST} samples, or {MOST_BYTES} bytes of them"));
        }
    }
    Ok(samples)
}

/// Splits samples into lists that each fit into a frame.
pub fn parts(samples: Vec<Sample>) -> Vec<Vec<Sample>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for sample in samples {
        bytes += sample.size();
        if bytes > IN_A_FRAME {
            bytes = sample.size();
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(sample);
        }
    }
    parts
}
