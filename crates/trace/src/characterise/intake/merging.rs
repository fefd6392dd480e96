//! Intakes of independent traces: stored, merged, and added up over devices.

use super::{DeviceState, Intake, MAX_DEVICES, MAX_NAMES, UNKNOWN, index_of};
use crate::characterise::chunk::{Chunk, Renumbering};
use crate::event::{DeviceId, Event};
use crate::filter::Filter;
use crate::source::TraceInfo;
use blklab_stats::Merge;
use std::collections::HashMap;

const MOST_FILES: usize = 100; // Names of files that are kept for each input
const ALL: &str = "all devices"; // The name of the sum of all devices

impl Intake {
    /// Adds another trace's devices; both traces have ended. Devices with the same name, or number if they have no
    /// name, are the same. Returns the new numbers, and the new index of each device.
    pub fn merge(&mut self, other: &Intake) -> (Renumbering, Vec<Option<usize>>) {
        let index = |name: &String| index_of(name, &mut self.names, &mut self.name_index);
        let processes = other.names.iter().map(index).collect();
        let mut numbers = Renumbering { processes, ..Renumbering::default() };
        self.total += other.total;
        self.beyond_devices += other.beyond_devices;
        self.first_time = [self.first_time, other.first_time].into_iter().flatten().min();
        self.last_time = self.last_time.max(other.last_time);
        let inputs = self.merge_info(&other.info);
        self.merged = self.info.inputs.iter().all(|input| input.name.is_empty());
        let place = |theirs: &DeviceState| {
            let input = inputs.get(usize::from(theirs.input)).copied().unwrap_or_default();
            let place = self.place_for(other.device_name(theirs), theirs, input);
            match place {
                Some(at) => {
                    numbers.devices.insert(theirs.device, self.states[at].device);
                    self.states[at].merge(theirs);
                }
                None => self.beyond_devices += theirs.summary.events,
            }
            place
        };
        let places = other.states.iter().map(place).collect();
        (numbers, places)
    }

    /// The name of a device, or an empty one.
    fn device_name<'a>(&'a self, state: &DeviceState) -> &'a str {
        self.info.device_name(state.device, state.input)
    }

    /// The index of the device that is another trace's device; a new one if it is unknown and there is room.
    fn place_for(&mut self, name: &str, theirs: &DeviceState, input: u16) -> Option<usize> {
        let same = |mine: &DeviceState| match (self.device_name(mine), name) {
            ("", "") => mine.device == theirs.device,
            (mine, name) => mine == name,
        };
        if let Some(at) = self.states.iter().position(same) {
            return Some(at);
        }
        if self.states.len() >= 2 * MAX_DEVICES {
            return None;
        }
        let mut device = theirs.device;
        while self.states.iter().any(|mine| mine.device == device) {
            device = DeviceId(device.0.wrapping_add(1));
        }
        if !name.is_empty() && self.info.inputs.get(usize::from(input)).is_none_or(|input| input.name.is_empty()) {
            self.info.device_names.push((device.0, name.to_owned()));
        }
        let chunk = Chunk::new(self.states.len(), theirs.chunk.first_block);
        self.add_state(&Event { device, input, ..Event::default() });
        let state = self.states.last_mut()?;
        (state.wanted, state.start, state.chunk) = (theirs.wanted, theirs.start, chunk);
        state.chunk.start = theirs.chunk.start;
        Some(self.states.len() - 1)
    }

    /// Adds another trace's information; returns the new number of each of its inputs.
    fn merge_info(&mut self, other: &TraceInfo) -> Vec<u16> {
        let mine = &mut self.info;
        if mine.format != other.format {
            mine.format = "mixed".into();
        }
        let (known, theirs) = (&mut mine.capabilities, other.capabilities);
        known.layers &= theirs.layers;
        known.processes &= theirs.processes;
        known.directions &= theirs.directions;
        known.completions &= theirs.completions;
        known.clock_ns = known.clock_ns.zip(theirs.clock_ns).map(|(mine, theirs)| mine.max(theirs));
        mine.start_unix_ns = mine.start_unix_ns.zip(other.start_unix_ns).map(|(mine, theirs)| mine.min(theirs));
        mine.bytes_read += other.bytes_read;
        mine.messages += other.messages;
        mine.out_of_order += other.out_of_order;
        mine.sequence_gaps += other.sequence_gaps;
        mine.dropped = [mine.dropped, other.dropped].into_iter().flatten().reduce(u64::saturating_add);
        if mine.stack.is_empty() {
            mine.stack.clone_from(&other.stack);
        }
        other.warnings.iter().for_each(|warning| mine.warn(&warning.path, &warning.message));
        let mut number = |input: &crate::source::Input| {
            let known = mine.inputs.iter().position(|known| known.name == input.name);
            let at = known.unwrap_or_else(|| {
                mine.inputs.push(crate::source::Input { name: input.name.clone(), files: Vec::new() });
                mine.inputs.len() - 1
            });
            let files = &mut mine.inputs[at].files;
            files.extend(input.files.iter().take(MOST_FILES.saturating_sub(files.len())).cloned());
            u16::try_from(at).unwrap_or(u16::MAX)
        };
        other.inputs.iter().map(&mut number).collect()
    }

    /// The indices of the wanted devices whose I/Os do not come from other devices of the trace; `is_fed_by` says
    /// whether they do.
    pub fn entrances(&self, is_fed_by: impl Fn(usize, &[DeviceId]) -> bool) -> Vec<usize> {
        let others = |at: usize| -> Vec<DeviceId> {
            let others = self.states.iter().filter(|state| state.wanted && state.device != self.states[at].device);
            others.map(|state| state.device).collect()
        };
        let wanted = (0..self.states.len()).filter(|&at| self.states[at].wanted && self.states[at].summary.events > 0);
        wanted.filter(|&at| !is_fed_by(at, &others(at))).collect()
    }

    /// An intake with one device, the sum of some.
    pub fn sum(&self, devices: &[usize]) -> Intake {
        let mut sum = Intake::new(self.filter.clone(), "");
        sum.info = TraceInfo { inputs: Vec::new(), device_names: vec![(0, ALL.into())], ..self.info.clone() };
        sum.names.clone_from(&self.names);
        sum.name_index.clone_from(&self.name_index);
        (sum.total, sum.beyond_devices) = (self.total, self.beyond_devices);
        (sum.first_time, sum.last_time) = (self.first_time, self.last_time);
        for state in devices.iter().map(|&at| &self.states[at]) {
            if sum.states.is_empty() {
                sum.add_state(&Event::default());
                sum.states[0].start = state.start;
                sum.states[0].chunk.start = state.chunk.start;
            }
            sum.states[0].wanted = true;
            sum.states[0].merge(state);
        }
        sum
    }
}

impl DeviceState {
    /// Adds another trace's device; both traces have ended.
    fn merge(&mut self, other: &DeviceState) {
        self.wanted |= other.wanted;
        self.pairer.unmatched_completions += other.pairer.unmatched_completions;
        self.pairer.given_up += other.pairer.given_up;
        self.summary.absorb(&other.summary);
        self.in_flight.merge(&other.in_flight);
        self.dispatched.merge(&other.dispatched);
        self.dispatches.merge(&other.dispatches);
        self.took.merge(&other.took);
        self.completed += other.completed;
        self.observed.merge(&other.observed);
        for (devices, begin) in &other.begins {
            let known = self.begins.entry(*devices).or_insert(*begin);
            *known = known.filter(|known| Some(*known) == *begin);
        }
    }
}

/// The fields of an intake that are stored, in their order.
pub(super) type StoredIntake = (Filter, TraceInfo, Vec<DeviceState>, Vec<String>, u64, u64, Option<u64>, u64);

impl TryFrom<StoredIntake> for Intake {
    type Error = &'static str;

    fn try_from(stored: StoredIntake) -> Result<Self, Self::Error> {
        let (filter, info, states, names, total, beyond_devices, first_time, last_time) = stored;
        let name_index: HashMap<String, u32> = names.iter().cloned().zip(0..).collect();
        let index_by_device: HashMap<DeviceId, usize, _> = states.iter().map(|state| state.device).zip(0..).collect();
        let is_valid = names.first().is_some_and(|name| name == UNKNOWN)
            && names.len() <= MAX_NAMES
            && name_index.len() == names.len()
            && states.len() <= 2 * MAX_DEVICES
            && index_by_device.len() == states.len()
            && states.iter().zip(0..).all(|(state, at)| state.chunk.device == at);
        let merged = info.inputs.iter().all(|input| input.name.is_empty());
        let intake = Intake {
            info,
            states,
            names,
            name_index,
            index_by_device,
            merged,
            total,
            beyond_devices,
            first_time,
            last_time,
            ..Intake::new(filter, "")
        };
        is_valid.then_some(intake).ok_or("not the devices and names of a trace")
    }
}
