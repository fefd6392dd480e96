//! Tests of the numbers of items, and what tests ask of the storage.

use super::{Arena, ArenaItem, Numbered};
use proptest::prelude::*;

impl<T> Numbered<T> {
    /// The largest number of items at a time.
    pub fn peak_size(&self) -> usize {
        self.slots.len()
    }
}

impl<T> Arena<T> {
    /// The largest number of items at a time.
    pub fn peak_size(&self) -> usize {
        self.slots.len()
    }
}

impl<T: ArenaItem + Copy> Arena<T> {
    pub fn in_use(&self) -> usize {
        let next = |free: &u32| self.slots.get(*free as usize).copied().map(|mut item| *item.link());
        self.slots.len() + 1 - std::iter::successors(Some(self.free), next).count()
    }
}

/// An item that is only its link.
#[derive(Clone, Copy)]
struct Link(u32);

impl ArenaItem for Link {
    fn link(&mut self) -> &mut u32 {
        &mut self.0
    }
}

proptest! {
    #[test]
    fn numbers_of_removed_items_are_used_again(steps in prop::collection::vec(any::<(bool, u8)>(), 1..200)) {
        let (mut arena, mut numbered) = (Arena::default(), Numbered::default());
        let (mut used, mut most) = (Vec::new(), 0);
        for (add, which) in steps {
            if add || used.is_empty() {
                let number = arena.add(Link(u32::from(which)));
                prop_assert_eq!(numbered.add(which), number);
                prop_assert!(!used.iter().any(|(other, _)| *other == number));
                used.push((number, which));
            } else {
                let (number, item) = used.swap_remove(usize::from(which) % used.len());
                prop_assert_eq!(arena[number].0, u32::from(item));
                prop_assert_eq!(numbered.remove(number), item);
                arena.remove(number);
            }
            most = most.max(used.len());
            prop_assert_eq!((arena.in_use(), numbered.is_empty()), (used.len(), used.is_empty()));
        }
        prop_assert_eq!((arena.peak_size(), numbered.peak_size()), (most, most));
    }
}
