//! Where tasks wait: the kernel's `wait_queue_head_t`.

use std::collections::VecDeque;

use super::Simulation;

/// Tasks that sleep until they are woken, in the order in which they came.
#[derive(Debug, Default)]
pub struct WaitList(VecDeque<u32>);

impl WaitList {
    /// A task waits here.
    #[inline]
    pub fn add(&mut self, task: u32) {
        self.0.push_back(task);
    }

    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All that wait elsewhere wait here.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Wakes everybody.
    #[inline]
    pub fn wake_all(&mut self, sim: &mut Simulation) {
        self.wake(usize::MAX, sim);
    }

    /// Wakes as many as `most`, the first first.
    #[inline]
    pub fn wake(&mut self, most: usize, sim: &mut Simulation) {
        for task in self.0.drain(..most.min(self.0.len())) {
            sim.wake_up(task);
        }
    }

    /// How much room there is.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.0.capacity()
    }
}
