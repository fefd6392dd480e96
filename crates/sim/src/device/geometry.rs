//! The position of a byte on a rotating disk, and the time to reach it.

use super::hdd_spec::HddSpec;
use crate::events::Time;

#[derive(Clone, Copy, Debug, Default)]
pub struct DiskPosition {
    pub byte: u64,   // In bytes from the beginning of the disk
    revolution: f64, // Tracks before it, plus the fraction of the track it is on
    pub track: f64,  // Tracks before it
    pub cylinder: f64,
    pub angle: f64, // Its angle with the skew of its track, 0 to 1
}

/// A disk's tracks and its seek curve. Times in ns.
#[derive(Debug, Default)]
pub struct Geometry {
    tracks: f64,
    outer: f64,
    shrink: f64, // By how much a track is shorter than the one before it
    heads: f64,
    pub rotation: f64,
    skew: f64, // Revolutions by which each track begins later than the one before
    track_seek: f64,
    root: f64,
    knee: f64,
    slope: f64,
    pub error: f32, // Revolutions by which an exact time and its bound are wrong at most
}

/// An exact angle is known to less than this, in ns: a run of 10¹⁵ ns has 10⁸ revolutions of 10⁷ ns, in 53 bits.
const ANGLE_ERROR: f64 = 1000.0;
/// With this added and taken away again, a number becomes whole, if it is far below.
const TO_WHOLE: f32 = 12_582_912.0;

impl Geometry {
    /// The geometry of a model.
    pub fn new(model: &HddSpec) -> Self {
        let (outer, inner) = (model.outer_track_bytes.max(1) as f64, model.inner_track_bytes.max(1) as f64);
        let tracks = (model.capacity as f64 / ((outer + inner) / 2.0)).max(2.0);
        let heads = f64::from(model.heads.max(1));
        let rotation = 60e9 / f64::from(model.rpm.max(1));
        let cylinders = (tracks / heads).max(3.0);
        // A square root up to a third of the disk and a line from there to the end, so that the mean over pairs of
        // random positions is the data sheet's average: distances d as fractions of the disk have the density 2(1 −
        // d), so E[√min(d, ⅓)] = 0.4619 and E[max(d − ⅓, 0)] / ⅔ = 0.1481.
        let knee = cylinders / 3.0;
        let (track, full) = (model.seek_track_ns as f64, model.seek_full_ns as f64);
        let average = model.seek_average_ns as f64;
        let at_knee = ((average - track - 0.1481 * (full - track)) / (0.4619 * 3f64.sqrt() - 0.1481)).max(0.0);
        Self {
            tracks,
            outer,
            shrink: (outer - inner) / tracks,
            heads,
            rotation,
            skew: (track / rotation).fract(),
            track_seek: track,
            root: at_knee / knee.sqrt(),
            knee,
            slope: (full - track - at_knee).max(0.0) / (cylinders - knee),
            error: ((ANGLE_ERROR + (full + track + at_knee) * 1e-6) / rotation) as f32 + 1e-6,
        }
    }

    /// The position of a byte.
    pub fn locate(&self, byte: u64) -> DiskPosition {
        // Bytes before track t: outer·t − shrink·t²/2. The smaller root, in the form that loses no digits.
        let bytes = byte as f64;
        let root = (self.outer * self.outer - 2.0 * self.shrink * bytes).max(0.0).sqrt();
        let revolution = (2.0 * bytes / (self.outer + root)).min(self.tracks);
        let track = whole(revolution);
        DiskPosition {
            byte,
            revolution,
            track,
            cylinder: whole(track / self.heads),
            angle: fraction(revolution + track * self.skew),
        }
    }

    /// The time until the head is at `to`, if it leaves `from` at `now`: seek and rotation.
    pub fn reach_time(&self, now: Time, from: &DiskPosition, to: &DiskPosition) -> Time {
        if from.byte == to.byte {
            return 0;
        }
        let seek = self.seek_time((to.cylinder - from.cylinder).abs(), from.track != to.track);
        (seek + self.wait(now as f64 + seek, to)) as Time
    }

    /// The time from `now` until the angle of a position is under the head, in ns.
    pub fn wait(&self, now: f64, to: &DiskPosition) -> f64 {
        let ahead = to.angle - fraction(now / self.rotation);
        if ahead < 0.0 { (ahead + 1.0) * self.rotation } else { ahead * self.rotation }
    }

    /// Bounds in short numbers: revolutions before which the head is certainly not at a place, from how far its angle is
    /// ahead, and the distance in tracks: nearly that in cylinders.
    #[inline(always)]
    pub fn bounds(&self) -> impl Fn(f32, f32) -> f32 + use<> {
        let [track, root, slope] = [self.track_seek, self.root, self.slope].map(|time| (time / self.rotation) as f32);
        let (knee, error, heads) = (self.knee as f32, self.error, (1.0 / self.heads) as f32);
        move |ahead, tracks| {
            let cylinders = if tracks * heads > 1.0 { tracks * heads - 1.0 } else { 0.0 };
            let short = if cylinders < knee { cylinders } else { knee };
            let other = track + root * short.sqrt() + slope * (cylinders - short);
            let seek = if tracks == 0.0 { 0.0 } else { other };
            let left = ahead - seek;
            let nearest = left - ((left + TO_WHOLE) - TO_WHOLE);
            let wait = if nearest < -error { nearest + 1.0 } else { nearest };
            let bound = seek + wait - error;
            if bound > 0.0 { bound } else { 0.0 }
        }
    }

    fn seek_time(&self, cylinders: f64, other_track: bool) -> f64 {
        if cylinders < 0.5 {
            // Another head of the same cylinder settles as after the shortest seek.
            return if other_track { self.track_seek } else { 0.0 };
        }
        self.track_seek + self.root * cylinders.min(self.knee).sqrt() + self.slope * (cylinders - self.knee).max(0.0)
    }

    /// The time in which the head passes from one position to a later one.
    pub fn pass_time(&self, from: &DiskPosition, to: &DiskPosition) -> Time {
        let tracks = to.track - from.track;
        ((to.revolution - from.revolution + tracks * self.skew) * self.rotation) as Time
    }

    /// The bytes that pass under the head in a time.
    pub fn bytes_in(&self, from: &DiskPosition, time: Time) -> u64 {
        let track = self.outer - self.shrink * from.revolution;
        (time as f64 / self.rotation / (1.0 + self.skew) * track) as u64
    }
}

/// As `floor` of a positive number below 2⁶³. Processors without SSE 4.1 have no instruction for `floor`.
fn whole(value: f64) -> f64 {
    (value as i64) as f64
}

/// As `fract` of a positive number below 2⁶³.
pub fn fraction(value: f64) -> f64 {
    value - whole(value)
}

#[cfg(test)]
pub mod tests;
