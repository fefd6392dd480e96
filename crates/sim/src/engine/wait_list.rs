//! Lists of waiting tasks: the kernel's `wait_queue_head_t`.

use std::collections::VecDeque;

use super::Simulation;

/// Sleeping tasks, in order of arrival.
#[derive(Debug, Default)]
pub struct WaitList(VecDeque<u32>);

impl WaitList {
    /// Adds a task.
    pub fn add(&mut self, task: u32) {
        self.0.push_back(task);
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Moves all tasks of another list to the end of this list.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Wakes all tasks.
    pub fn wake_all(&mut self, sim: &mut Simulation) {
        self.wake(usize::MAX, sim);
    }

    /// Wakes at most `most` tasks, in order of arrival.
    pub fn wake(&mut self, most: usize, sim: &mut Simulation) {
        for task in self.0.drain(..most.min(self.0.len())) {
            sim.wake_up(task);
        }
    }

    /// The capacity.
    #[cfg(test)]
    pub fn peak_size(&self) -> usize {
        self.0.capacity()
    }
}
