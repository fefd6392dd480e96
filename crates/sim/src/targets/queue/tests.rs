use super::DiskQueue;

impl DiskQueue {
    /// Panics if a request is in flight.
    pub fn assert_idle(&self) {
        assert_eq!(self.requests.in_use(), 0, "requests");
    }

    /// The size of the queue's collections.
    pub fn peak_size(&self) -> usize {
        self.requests.peak_size() + self.tag_waiters.0.capacity() + self.throttle_waiters.0.capacity()
    }
}
