use super::*;
use proptest::prelude::*;

impl EventQueue {
    /// The largest number of planned events.
    pub fn peak_size(&self) -> usize {
        self.entries.len() + self.far.capacity()
    }
}

fn timer(number: u32) -> Event {
    Event::timer(number as u16, number)
}

proptest! {
    #[test]
    fn events_come_by_time_and_then_in_order_of_planning(
        steps in prop::collection::vec((0u32..24, any::<u64>(), prop::bool::weighted(0.6)), 1..400),
    ) {
        let mut events = EventQueue::default();
        let mut expected_events: Vec<(Time, u32)> = Vec::new();
        let mut now = 0;
        for (number, (bits, noise, plan)) in (0u32..).zip(steps) {
            if plan {
                // Near and far times, and many equal ones.
                let time = now + (noise & ((1 << bits) - 1));
                events.schedule(time, timer(number));
                expected_events.push((time, number));
            } else {
                expected_events.sort_unstable();
                let expected = (!expected_events.is_empty()).then(|| expected_events.remove(0));
                let event = events.next();
                prop_assert_eq!(event, expected.map(|(time, n)| (time, timer(n))));
                now = event.map_or(now, |(time, _)| time);
            }
        }
        expected_events.sort_unstable();
        for (time, number) in expected_events {
            prop_assert_eq!(events.next(), Some((time, timer(number))));
        }
        prop_assert_eq!(events.next(), None);
    }
}
