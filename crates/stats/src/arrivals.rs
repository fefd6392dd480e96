//! When I/O arrives: gaps between arrivals, and burstiness at several time scales.
//!
//! The index of dispersion for counts (variance / mean of the number of arrivals in a window; Cox and Lewis, *The
//! Statistical Analysis of Series of Events*, 1966) is 0 for a metronome, 1 for a Poisson process at every scale, and
//! grows with the scale when bursts come in bursts. Windows start at the first arrival; the last, incomplete one is
//! left out. Empty windows are added arithmetically, so a gap of years costs no more than one of a millisecond.

use crate::{Merge, Quantiles, QuantilesSummary};
use serde::{Deserialize, Serialize};

/// Widths of the windows in ns: 1 ms to 10 s, each ten of the one before.
pub const WINDOWS_NS: [u64; 5] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
pub const FEWEST_WINDOWS: u64 = 10; // The smallest number of complete windows for a dispersion
pub const FEWEST_GAPS: u64 = 100; // The smallest number of gaps for a pattern
const SECOND: usize = 3;

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct WindowScale {
    index: u64, // Number of the open window
    open: u64,  // Arrivals in the closed windows of the scale below that lie in the open window
    windows: u64,
    sum: u64,
    squares: u128,
    max: u64,
}

/// Arrival times; see the [module](self).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Arrivals {
    gaps: Quantiles,
    count: u64,
    backwards: u64,
    span: Option<(u64, u64)>, // First and latest arrival
    window_end: u64,          // When the open 1 ms window ends
    scales: [WindowScale; 5],
}

/// How arrivals are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalPattern {
    /// More regular than chance: gaps vary by less than half their mean, and at no scale with five arrivals or more in
    /// a window is the dispersion 0.5 or above.
    Steady,
    /// Like a Poisson process: independent of each other, neither steady nor bursty.
    Random,
    /// In bursts: gaps vary by more than 1.5 times their mean, or the dispersion at some scale is above 2 and beyond 1
    /// by more than four standard errors, sqrt(2 / (windows - 1)) each.
    Bursty,
}

/// Index of dispersion at one width of windows: 0 is regular, 1 is chance, more is bursty. Windows begin at the first
/// arrival.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct Dispersion {
    /// Width of the windows, in ns.
    pub window_ns: u64,
    /// Complete windows, empty ones included.
    pub windows: u64,
    /// Mean arrivals in a window; `null` without a complete window.
    pub mean_ios: Option<f64>,
    /// Most arrivals in a window.
    pub max_ios: u64,
    /// Variance of the arrivals in a window, divided by their mean; `null` below ten windows.
    pub index: Option<f64>,
}

/// When I/Os arrive.
#[derive(Debug, Clone, PartialEq, Serialize, crate::JsonSchema)]
pub struct ArrivalsSummary {
    /// Number of arrivals.
    pub count: u64,
    /// Arrivals with a time before that of the previous one; they count as simultaneous with it.
    pub backwards: u64,
    /// Gaps between arrivals, in ns.
    pub inter_arrival_ns: QuantilesSummary,
    /// Standard deviation of the gaps, divided by their mean: 0 is regular, 1 is chance, more is bursty. `null` without
    /// gaps above 0.
    pub coefficient_of_variation: Option<f64>,
    /// Index of dispersion by width of the window, 1 ms to 10 s.
    pub dispersion: Vec<Dispersion>,
    /// Mean arrivals per second; `null` if no time passed.
    pub mean_iops: Option<f64>,
    /// Most arrivals in a window of one second.
    pub peak_iops: u64,
    /// `peak_iops` divided by `mean_iops`; `null` for less than one second.
    pub peak_to_mean: Option<f64>,
    /// The pattern; `null` below a hundred gaps.
    pub pattern: Option<ArrivalPattern>,
}

impl Arrivals {
    /// Records an arrival at `time_ns`.
    pub fn record(&mut self, time_ns: u64) {
        self.count += 1;
        let Some((first, last)) = &mut self.span else {
            self.span = Some((time_ns, time_ns));
            self.window_end = time_ns.saturating_add(WINDOWS_NS[0]);
            self.scales[0].open = 1;
            return;
        };
        self.backwards += u64::from(time_ns < *last);
        self.gaps.record(time_ns.saturating_sub(*last));
        *last = time_ns.max(*last);
        if time_ns >= self.window_end {
            let first = *first;
            self.close(first, time_ns);
        }
        self.scales[0].open += 1;
    }

    /// Closes the windows that ended before `time_ns`, narrow ones first.
    fn close(&mut self, first: u64, time_ns: u64) {
        let elapsed = time_ns - first;
        let mut closed = 0;
        for (scale, width) in self.scales.iter_mut().zip(WINDOWS_NS) {
            scale.open += closed;
            let index = elapsed / width;
            if index == scale.index {
                break;
            }
            closed = std::mem::take(&mut scale.open);
            scale.windows = scale.windows.saturating_add(index - scale.index);
            scale.index = index;
            scale.sum += closed;
            scale.squares += u128::from(closed) * u128::from(closed);
            scale.max = scale.max.max(closed);
        }
        let open = self.scales[0].index.saturating_add(1);
        self.window_end = first.saturating_add(open.saturating_mul(WINDOWS_NS[0]));
    }

    /// The figures; see [`ArrivalsSummary`].
    pub fn summary(&self) -> ArrivalsSummary {
        let dispersion: Vec<_> = (0..WINDOWS_NS.len()).map(|scale| self.dispersion(scale)).collect();
        let gaps = self.gaps.count();
        let span = self.gaps.sum();
        let mean_iops = (span > 0).then(|| gaps as f64 * 1e9 / span as f64);
        let peak_iops = dispersion[SECOND].max_ios;
        let variation = match (self.gaps.mean(), self.gaps.stddev()) {
            (Some(mean), Some(deviation)) if mean > 0.0 => Some(deviation / mean),
            _ => None,
        };
        ArrivalsSummary {
            count: self.count,
            backwards: self.backwards,
            inter_arrival_ns: self.gaps.summary(),
            coefficient_of_variation: variation,
            mean_iops,
            peak_iops,
            peak_to_mean: mean_iops.filter(|_| span >= WINDOWS_NS[SECOND].into()).map(|mean| peak_iops as f64 / mean),
            pattern: variation.filter(|_| gaps >= FEWEST_GAPS).map(|variation| pattern(variation, &dispersion)),
            dispersion,
        }
    }

    fn dispersion(&self, at: usize) -> Dispersion {
        let scale = &self.scales[at];
        let windows = scale.windows as f64;
        let mean = scale.sum as f64 / windows;
        // The open window can be incomplete, but its peak counts.
        let open: u64 = self.scales[..=at].iter().map(|scale| scale.open).sum();
        let index = (scale.windows >= FEWEST_WINDOWS && scale.sum > 0).then(|| {
            let spread = scale.squares as f64 - mean * mean * windows;
            spread.max(0.0) / (windows - 1.0) / mean
        });
        Dispersion {
            window_ns: WINDOWS_NS[at],
            windows: scale.windows,
            mean_ios: (scale.windows > 0).then_some(mean),
            max_ios: scale.max.max(open),
            index,
        }
    }
}

/// The rule of [`ArrivalPattern`].
fn pattern(variation: f64, dispersion: &[Dispersion]) -> ArrivalPattern {
    let known = || dispersion.iter().filter_map(|scale| Some((scale, scale.index?)));
    let beyond_chance = |scale: &Dispersion, index: f64| {
        let error = (2.0 / (scale.windows as f64 - 1.0)).sqrt();
        index > 2.0 && index > 1.0 + 4.0 * error
    };
    if variation > 1.5 || known().any(|(scale, index)| beyond_chance(scale, index)) {
        ArrivalPattern::Bursty
    } else if variation < 0.5 && known().all(|(scale, index)| scale.mean_ios < Some(5.0) || index < 0.5) {
        ArrivalPattern::Steady
    } else {
        ArrivalPattern::Random
    }
}

impl Merge for Arrivals {
    /// Adds a separate observation (another device, or a part of the trace after this one): the gap
    /// between the two, and the window open at the end of each, are not counted.
    fn merge(&mut self, other: &Self) {
        self.gaps.merge(&other.gaps);
        self.count += other.count;
        self.backwards += other.backwards;
        for at in 0..self.scales.len() {
            let max = self.dispersion(at).max_ios.max(other.dispersion(at).max_ios);
            let (mine, theirs) = (&mut self.scales[at], &other.scales[at]);
            mine.windows = mine.windows.saturating_add(theirs.windows);
            mine.sum += theirs.sum;
            mine.squares += theirs.squares;
            mine.max = max;
        }
    }
}

#[cfg(test)]
mod tests;
