use super::Array;

impl Array {
    /// Panics if anything is in flight.
    pub fn assert_idle(&mut self) {
        assert!(self.members.slots.iter().all(|slot| slot.pending == 0));
        assert!(self.sync.is_none() && self.barrier.is_none(), "the sync waits for ever");
        if let Some(bitmap) = &self.bitmap {
            bitmap.assert_idle();
        }
        if let Some(stripes) = self.stripes() {
            stripes.assert_idle();
        }
    }
}
