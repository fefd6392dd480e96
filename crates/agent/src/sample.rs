//! Reads files at an interval in the guest, because the host cannot measure the guest's time.

use crate::control::RequestControl;
use crate::files::{self, Files};
use crate::frame;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The largest number of samples.
const MAX_SAMPLES: usize = 20_000;
/// The largest size of all samples, in bytes: the guest has little memory.
const MAX_BYTES: usize = 128 << 20;
/// The text of one frame, in bytes; JSON makes it at most six times as long, and it is mostly ASCII.
const IN_A_FRAME: usize = frame::LONGEST / 8;

/// The files at one time.
#[derive(Serialize)]
pub struct Sample {
    t_ns: u64, // CLOCK_MONOTONIC, in nanoseconds, before the files were read
    files: Files,
}

impl Sample {
    fn take(paths: &[String]) -> Sample {
        let now = clock_gettime(ClockId::Monotonic);
        let t_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        Sample { t_ns, files: files::read_files(paths) }
    }

    /// The approximate size in bytes.
    fn size(&self) -> usize {
        let file = |(path, text): (&String, &Option<String>)| path.len() + text.as_ref().map_or(8, String::len);
        40 + self.files.iter().map(file).sum::<usize>()
    }
}

/// Takes a sample at once, then after each interval, and when asked to finish.
///
/// A missed time is skipped; the following times do not move.
pub fn sample(
    interval: Duration, paths: &[String], control: &RequestControl, started: impl FnOnce(),
) -> Result<Vec<Sample>, String> {
    if interval.is_zero() {
        return Err("interval_ms: expected at least 1".into());
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
            return Err("interval_ms: too large for the clock: expected a shorter interval".into());
        };
        finished = control.wait_for_finish(due);
        samples.push(Sample::take(paths));
        bytes += samples[samples.len() - 1].size();
        if samples.len() > MAX_SAMPLES || bytes > MAX_BYTES {
            return Err(format!("too many samples: expected at most {MAX_SAMPLES} and {MAX_BYTES} bytes"));
        }
    }
    Ok(samples)
}

/// Splits samples into lists that each fit into a frame.
pub fn split_into_frames(samples: Vec<Sample>) -> Vec<Vec<Sample>> {
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
