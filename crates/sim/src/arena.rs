//! Numbered things that come and go: bios and requests. A number is given again once its thing is forgotten, so room
//! does not grow with simulated time.

/// No bio, no request, no task: the end of a list.
pub const NONE: u32 = u32::MAX;

/// A thing that has a number of its own kind in it, which names the next free one while it is free itself.
pub trait Linked {
    /// That number.
    fn link(&mut self) -> &mut u32;
}

/// All things of a kind that are in use.
#[derive(Debug)]
pub struct Arena<T> {
    slots: Vec<T>,
    /// The first free slot; each names the next by its link.
    free: u32,
    #[cfg(test)]
    used: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            #[cfg(test)]
            used: 0,
        }
    }
}

impl<T: Linked> Arena<T> {
    /// Stores a thing and returns its number.
    #[inline]
    pub fn add(&mut self, thing: T) -> u32 {
        #[cfg(test)]
        {
            self.used += 1;
        }
        let number = self.free;
        if let Some(slot) = self.slots.get_mut(number as usize) {
            self.free = *slot.link();
            *slot = thing;
            return number;
        }
        self.slots.push(thing);
        self.slots.len() as u32 - 1
    }

    /// Forgets a thing.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        #[cfg(test)]
        {
            self.used -= 1;
        }
        *self.slots[number as usize].link() = self.free;
        self.free = number;
    }

    /// How many are in use.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.used
    }

    /// How many there were at a time at most.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.slots.len()
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.slots[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.slots[number as usize]
    }
}
