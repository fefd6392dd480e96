//! Storage of bios and requests by number. The number of a removed item is used again, so memory does not grow with
//! simulated time.

#[cfg(test)]
mod tests;

/// No bio, no request, no task: the end of a list.
pub const NONE: u32 = u32::MAX;

/// An item with a `u32` field that links it to another item. While its slot is free, the field names the next free
/// slot.
pub trait ArenaItem {
    fn link(&mut self) -> &mut u32;
}

/// Items without such a field.
#[derive(Debug)]
pub struct Numbered<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Numbered<T> {
    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Stores an item and returns its number.
    pub fn add(&mut self, item: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(item);
        number
    }

    pub fn get(&mut self, number: u32) -> &mut T {
        self.slots[number as usize].as_mut().expect("the number of an item in use")
    }

    /// Removes an item: its number is used again.
    pub fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        self.slots[number as usize].take().expect("the number of an item in use")
    }
}

/// All items of a kind that are in use.
pub struct Arena<T> {
    slots: Vec<T>,
    free: u32, // The first free slot; each names the next by its link
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }
}

impl<T: ArenaItem> Arena<T> {
    /// Stores an item and returns its number.
    pub fn add(&mut self, item: T) -> u32 {
        let number = self.free;
        if let Some(slot) = self.slots.get_mut(number as usize) {
            self.free = *slot.link();
            *slot = item;
            return number;
        }
        self.slots.push(item);
        self.slots.len() as u32 - 1
    }

    /// Frees an item's slot.
    pub fn remove(&mut self, number: u32) {
        *self.slots[number as usize].link() = self.free;
        self.free = number;
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;
    fn index(&self, number: u32) -> &T {
        &self.slots[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.slots[number as usize]
    }
}
