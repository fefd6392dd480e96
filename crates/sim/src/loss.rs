//! How likely an arrangement of disks is to lose data: Monte Carlo with importance sampling.
//!
//! A history is one life of an array. Data losses are too rare to wait for them. So failures are made frequent, and a
//! history counts with its weight: how much more often it is drawn than it would happen. While all members work, a
//! failure before the end is certain (forcing). While members are missing, failures come at a rate that fits the
//! rebuild. Weights are never cut: the mean over histories stays the probability (docs/explanation/loss.md).

use crate::rng::Rng;
use serde::Deserialize;

const FORCED_FAILURES: f64 = 0.7; // Expected failures until the next rebuild ends; any value gives the same mean
const FORCED_ERRORS: f64 = 0.3; // Smallest share of critical rebuilds that find an unreadable sector
const OWNER_SIGMA: f64 = 1.0; // Standard deviation of the logarithm of the owner's time, from failure to failure: a guess
const PAGE: f64 = 4096.0; // Bytes that an unreadable sector costs: md rebuilds pages

/// What to compute. Every array, and every disk that is in no array, is needed. Times are in hours, rates per hour.
#[derive(Deserialize)]
pub struct LossQuestion {
    /// How long the disks are in use.
    pub hours: f64,
    /// Sets of parameters.
    pub draws: Vec<Rates>,
    /// Histories for each of them.
    pub histories: usize,
    /// The disks: index of the model, and bytes.
    pub disks: Vec<(usize, f64)>,
    /// The redundant arrays.
    pub arrays: Vec<LossArray>,
    /// Days from one check of all sectors to the next; `null` if there are none.
    pub scrub_days: Option<f64>,
    /// Age of the oldest data in the beginning. Without checks, unreadable sectors have collected since then.
    pub data_age_hours: f64,
    /// Disks of the same age fail at a rate that grows with time t as t^(ageing - 1) (Weibull). Until the end, they have
    /// as many failures as with 1.
    pub ageing: f64,
}

/// One set of parameters. For each model: failures of a disk, and how often a disk without unreadable sectors gets its
/// first one. Then the mean time until the owner has replaced a failed disk.
pub type Rates = (Vec<(f64, f64)>, f64);

/// A redundant array of disks.
#[derive(Deserialize)]
pub struct LossArray {
    /// Indices of the disks, in the order of their slots.
    pub members: Vec<usize>,
    /// Which slots share chunks, as copies or in stripes, and their share of the data.
    pub sets: Vec<(Vec<usize>, f64)>,
    /// How many slots of a set can be missing without loss.
    pub tolerated: usize,
    /// Bytes of data.
    pub bytes: f64,
    /// Time of a rebuild.
    pub rebuild_hours: f64,
    /// Whether the time of a rebuild is exponential with this mean; otherwise it is always the same.
    pub exponential: bool,
    /// Whether members are rebuilt at the same time instead of one after the other.
    pub parallel: bool,
    /// Hot spares, as the time from which on each can be used. The owner replaces a used one.
    pub spares: Vec<f64>,
    /// Slots without a member in the beginning, and when it failed: before 0 if its rebuild began before. If there are
    /// any, a history ends when no member is missing.
    pub missing: Vec<(usize, f64)>,
}

/// Computes for each set of parameters the probability of any loss, the probabilities that the first loss is that of
/// failed disks or that of an unreadable page, and the expected bytes of the first loss.
pub fn loss_probabilities(question: &LossQuestion) -> Vec<[f64; 4]> {
    let histories = question.histories.div_ceil(question.arrays.len().max(1));
    let mut rng = Rng::new(1);
    let figures = question.draws.iter().map(|draw| {
        let mut sums = lose_bare_disks(draw, question);
        for array in &question.arrays {
            let mut lives = Lives::new(array, draw, question);
            let mut mean = [0.0; 4];
            for _ in 0..histories {
                let figures = lives.play(&mut rng).unwrap_or_default();
                mean = std::array::from_fn(|at| mean[at] + figures[at] / histories as f64);
            }
            // Any of independent events, exact for tiny probabilities too; bytes just add up.
            let more = [1.0 - sums[0], 1.0 - sums[1], 1.0 - sums[2], 1.0];
            sums = std::array::from_fn(|at| sums[at] + more[at] * mean[at]);
        }
        sums
    });
    figures.collect()
}

/// The figures of disks without redundancy: the first event is a failure or an unreadable page.
fn lose_bare_disks(draw: &Rates, question: &LossQuestion) -> [f64; 4] {
    let mut rates = [0.0; 4];
    for (disk, &(model, bytes)) in question.disks.iter().enumerate() {
        if !question.arrays.iter().any(|array| array.members.contains(&disk)) {
            let (failures, errors) = draw.0[model];
            let of_disk = [failures + errors, failures, errors, failures * bytes + errors * PAGE];
            rates = std::array::from_fn(|at| rates[at] + of_disk[at]);
        }
    }
    let events = -(-rates[0] * question.hours).exp_m1();
    rates.map(|rate| if rate > 0.0 { events * rate / rates[0] } else { 0.0 })
}

/// A missing member.
struct Missing {
    slot: usize,
    ready: f64,   // When the rebuild can begin
    rebuild: f64, // How long it takes
    finish: f64,
}

/// The lives of an array with one set of parameters.
struct Lives<'a> {
    array: &'a LossArray,
    question: &'a LossQuestion,
    replacement: f64,
    failures: Vec<f64>,   // Per hour, of each member
    unreadable: Vec<f64>, // -ln(1 - the probability of an unreadable sector) of each member; per hour if never checked
    missing: Vec<Missing>,
    spares: Vec<f64>, // From when on each can be used
    ended: f64,       // When the last rebuild ended
}

impl<'a> Lives<'a> {
    fn new(array: &'a LossArray, draw: &Rates, question: &'a LossQuestion) -> Self {
        let rates = || array.members.iter().map(|&disk| draw.0[question.disks[disk].0]);
        // A check finds all errors: the mean over the time since then is 1 - (1 - e^-x)/x.
        let unreadable = |rate: f64| match question.scrub_days.map(|days| rate * days * 24.0) {
            Some(errors) => (-(-(-errors).exp_m1() / errors).ln()).max(0.0), // Without errors, not a number
            None => rate,
        };
        Self {
            array,
            question,
            replacement: draw.1,
            failures: rates().map(|(failures, _)| failures).collect(),
            unreadable: rates().map(|(_, errors)| unreadable(errors)).collect(),
            missing: Vec::new(),
            spares: array.spares.clone(),
            ended: f64::NEG_INFINITY,
        }
    }

    /// Plays one life: its figures if data are lost.
    fn play(&mut self, rng: &mut Rng) -> Option<[f64; 4]> {
        let (mut time, mut weight) = (0.0, 1.0);
        let hours = if self.array.missing.is_empty() { self.question.hours } else { f64::INFINITY };
        self.missing.clear();
        self.spares.clone_from(&self.array.spares);
        self.ended = f64::NEG_INFINITY;
        for &(slot, failed) in &self.array.missing {
            self.fail(slot, failed, rng);
        }
        loop {
            let working = (0..self.failures.len()).filter(|&slot| self.missing_at(slot).is_none());
            let rate: f64 = working.map(|slot| self.failures[slot]).sum();
            if self.missing.is_empty() {
                let chance = -(-rate * (self.age(hours) - self.age(time))).exp_m1();
                if hours.is_infinite() || chance <= 0.0 {
                    return None;
                }
                weight *= chance;
                let age = self.age(time) - (-rng.unit() * chance).ln_1p() / rate;
                time = self.scaled(age, 1.0 / self.question.ageing);
                let slot = self.choose(rng, |slot| self.failures[slot]).0;
                self.fail(slot, time, rng);
                continue;
            }
            let finish = self.missing.iter().map(|missing| missing.finish).fold(f64::INFINITY, f64::min);
            let until = finish.min(hours);
            let forced = FORCED_FAILURES / (finish - time).max(1e-9);
            let next = time - (1.0 - rng.unit()).ln() / forced;
            let reached = next.min(until);
            weight *= (forced * (reached - time) - rate * (self.age(reached) - self.age(time))).exp();
            time = reached;
            if next < until {
                let (slot, probability) = self.choose(rng, |slot| self.interest(slot));
                let ageing = self.question.ageing * self.age(time) / time;
                weight *= self.failures[slot] * ageing / (forced * probability);
                self.fail(slot, time, rng);
                let share = self.lost_share(slot, time);
                if share > 0.0 {
                    return Some([weight, weight, 0.0, weight * share * self.array.bytes]);
                }
                continue;
            }
            let rebuilt = self.missing.iter().position(|missing| missing.finish <= time)?; // None: the end comes first
            let probability = -(-self.errors_read(self.missing[rebuilt].slot, time)).exp_m1();
            if probability > 0.0 {
                let used = probability.max(FORCED_ERRORS);
                if rng.unit() < used {
                    weight *= probability / used;
                    return Some([weight, 0.0, weight, weight * PAGE]);
                }
                weight *= (1.0 - probability) / (1.0 - used);
            }
            self.missing.remove(rebuilt);
            self.ended = time;
        }
    }

    /// A member fails: decides when its replacement is ready, and when each rebuild ends.
    fn fail(&mut self, slot: usize, time: f64, rng: &mut Rng) {
        let owner = self.replacement * (OWNER_SIGMA * rng.normal() - OWNER_SIGMA * OWNER_SIGMA / 2.0).exp();
        let mut ready = time + owner;
        if let Some(spare) = self.spares.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            ready = spare.max(time); // A spare that is on its way comes first
            *spare = ready + owner;
        }
        let rebuild = self.array.rebuild_hours * if self.array.exponential { -(1.0 - rng.unit()).ln() } else { 1.0 };
        self.missing.push(Missing { slot, ready, rebuild, finish: ready + rebuild });
        if !self.array.parallel {
            self.missing.sort_by(|a, b| a.ready.total_cmp(&b.ready));
            let mut free = self.ended;
            for missing in &mut self.missing {
                missing.finish = missing.ready.max(free) + missing.rebuild;
                free = missing.finish;
            }
        }
    }

    fn missing_at(&self, slot: usize) -> Option<&Missing> {
        self.missing.iter().find(|missing| missing.slot == slot)
    }

    /// The sets with a slot: their slots, the number of missing members, and the share of the data.
    fn sets_with(&self, slot: usize) -> impl Iterator<Item = (&[usize], usize, f64)> {
        let sets = self.array.sets.iter().filter(move |(set, _)| set.contains(&slot));
        sets.map(|(set, share)| (&set[..], set.iter().filter(|&&slot| self.missing_at(slot).is_some()).count(), *share))
    }

    /// A working member, chosen in proportion to a number of each, and the probability of the choice.
    fn choose(&self, rng: &mut Rng, number: impl Fn(usize) -> f64) -> (usize, f64) {
        let mut sum = 0.0;
        let add = |slot| {
            sum += if self.missing_at(slot).is_some() { 0.0 } else { number(slot) };
            sum
        };
        let sums: Vec<f64> = (0..self.failures.len()).map(add).collect();
        let chosen = rng.unit() * sum;
        let slot = sums.partition_point(|&sum| sum <= chosen);
        (slot, number(slot) / sum)
    }

    /// How often a member is chosen to fail while others are missing: more often if it shares chunks with them.
    fn interest(&self, slot: usize) -> f64 {
        if self.sets_with(slot).any(|(_, missing, _)| missing > 0) { self.failures.len() as f64 } else { 1.0 }
    }

    /// The share of the data that a member's failure loses: what is not rebuilt yet.
    fn lost_share(&self, failed: usize, time: f64) -> f64 {
        let left = |at: &Missing| ((at.finish - time) / at.rebuild).min(1.0);
        let of_slot = |&slot: &usize| self.missing_at(slot).map_or(1.0, left);
        let lost = self.sets_with(failed).filter(|(_, missing, _)| *missing > self.array.tolerated);
        lost.map(|(set, _, share)| set.iter().map(of_slot).fold(share, |least, left| least.min(share * left))).sum()
    }

    /// -ln(1 - p) of the probability p that a rebuild, now at its end, found a sector that is nowhere else.
    fn errors_read(&self, rebuilt: usize, time: f64) -> f64 {
        let critical = self.sets_with(rebuilt).filter(|(_, missing, _)| *missing == self.array.tolerated);
        let read = critical.flat_map(|(set, ..)| set.iter().filter(|&&slot| self.missing_at(slot).is_none()));
        let sum: f64 = read.map(|&slot| self.unreadable[slot]).sum();
        let age = if self.question.scrub_days.is_some() { 1.0 } else { time + self.question.data_age_hours };
        sum * age / self.sets_with(rebuilt).count() as f64 // It has the same part of each set
    }

    /// The time in which disks that do not age would have had as many failures since the beginning.
    fn age(&self, time: f64) -> f64 {
        self.scaled(time, self.question.ageing)
    }

    fn scaled(&self, time: f64, exponent: f64) -> f64 {
        let hours = self.question.hours;
        if exponent == 1.0 { time } else { hours * (time / hours).powf(exponent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An array with parity of `disks` disks of 1 TB, rebuilt in 10 hours.
    fn parity(disks: usize, parities: usize, spares: usize) -> Value {
        let slots: Vec<usize> = (0..disks).collect();
        json!({
            "members": slots, "sets": [[slots, 1.0]], "tolerated": parities, "bytes": (disks - parities) as f64 * 1e12,
            "rebuild_hours": 10.0, "exponential": false, "parallel": false, "spares": vec![0.0; spares],
            "missing": [],
        })
    }

    fn question(arrays: &[Value], disks: usize) -> LossQuestion {
        let draw = json!([[[1.724120e-6, 0.0]], 72.0]);
        let value = json!({
            "hours": 8766.0, "draws": vec![draw; 50], "histories": 200, "arrays": arrays,
            "disks": vec![json!([0, 1e12]); disks], "scrub_days": null, "data_age_hours": 0.0,
            "ageing": 1.0,
        });
        serde_json::from_value(value).unwrap()
    }

    fn any_loss(arrays: &[Value], disks: usize) -> f64 {
        loss_probabilities(&question(arrays, disks)).iter().map(|draw| draw[0]).sum::<f64>() / 50.0
    }

    #[test]
    fn bare_disks_add_to_arrays() {
        let bare = any_loss(&[], 4);
        assert!((bare / 5.866_345e-2 - 1.0).abs() < 1e-6, "{bare}");
        let (alone, both) = (any_loss(&[parity(4, 1, 0)], 4), any_loss(&[parity(4, 1, 0)], 8));
        assert!((both - bare - alone * (1.0 - bare)).abs() < 1e-12 && alone > 1e-5);
    }

    #[test]
    fn spare_on_its_way_serves_one_failure() {
        let question = question(&[parity(5, 2, 1)], 5);
        let mut rng = Rng::new(1);
        let mut lives = Lives::new(&question.arrays[0], &question.draws[0], &question);
        lives.fail(0, 5.0, &mut rng);
        lives.fail(1, 6.0, &mut rng);
        let finished: Vec<f64> = lives.missing.iter().map(|missing| missing.finish).collect();
        let spare = lives.missing[1].ready;
        assert!(spare > 6.0 && lives.spares[0] > spare); // The second one waits for the disk that replaces the spare
        assert_eq!(finished, [15.0, spare.max(15.0) + 10.0]);
        assert_eq!(lives.lost_share(1, 14.0), 0.0);
        lives.fail(2, 14.0, &mut rng);
        assert!((lives.lost_share(2, 14.0) - 0.1).abs() < 1e-9); // Nine tenths are rebuilt
    }

    #[test]
    fn missing_members_are_not_chosen() {
        let question = question(&[parity(5, 2, 0)], 5);
        let mut rng = Rng::new(1);
        let mut lives = Lives::new(&question.arrays[0], &question.draws[0], &question);
        lives.fail(0, 1.0, &mut rng);
        lives.fail(4, 1.0, &mut rng);
        for _ in 0..1000 {
            let (slot, probability) = lives.choose(&mut rng, |slot| slot as f64);
            assert!((1..4).contains(&slot) && (probability - slot as f64 / 6.0).abs() < 1e-12);
        }
    }
}
