use super::*;
use crate::event::{Action, DeviceId, Rwbs};

fn io(at: u64, took: u64, sector: u64) -> [Event; 2] {
    let queued = Event {
        time: at,
        sector,
        bytes: 4096,
        pid: 7,
        device: DeviceId::new(8, 0),
        action: Action::QUEUE,
        rwbs: Rwbs::READ.with(Rwbs::QUEUE),
        ..Event::default()
    };
    let completed =
        Event { time: at + took, action: Action::COMPLETE, rwbs: Rwbs::READ.with(Rwbs::COMPLETE), ..queued };
    [queued, completed]
}

fn block(events: Vec<Event>) -> EventBlock {
    EventBlock { events, names: vec![(7, b"fio".to_vec())], ..EventBlock::default() }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn window_moves_with_the_events_and_sorts_those_of_other_cpus() {
    let mut window = LiveWindow::new(5 * SECOND);
    assert!(window.settled(SECOND).is_none());
    // Completions come first, as from another CPU.
    let mut all: Vec<Event> = (0..1000).flat_map(|n| io(100 * SECOND + n * SECOND / 100, 2_000_000, 8 * n)).collect();
    all.sort_by_key(|event| (event.time / SECOND, event.action == Action::QUEUE));
    window.add(&block(all));
    let mut settled = window.settled(SECOND).unwrap();
    assert_eq!(settled.length, 5 * SECOND);
    let profile = settled.profile(1).unwrap();
    let device = &profile.devices[0];
    // Of one more, only the completion is in the window.
    assert_eq!((device.life["read"].completed, device.flow.unmatched_completions), (499, 1));
    assert_eq!(device.life["read"].latency_ns["q2c"].p50, Some(2_000_000));
    assert_eq!(device.load.processes[0].name, "fio");
}

#[test]
fn idle_time_empties_the_window_and_new_events_fill_it_again() {
    let mut window = LiveWindow::new(5 * SECOND);
    window.add(&block(io(10 * SECOND, 1000, 0).into()));
    assert!(window.settled(0).is_none(), "not settled yet");
    assert!(window.settled(2 * SECOND).is_some());
    assert!(window.settled(6 * SECOND).is_none());
    window.add(&block(io(40 * SECOND, 1000, 0).into()));
    window.add(&block(io(42 * SECOND, 1000, 0).into()));
    let profile = window.settled(SECOND).unwrap().profile(2).unwrap();
    assert_eq!(profile.devices[0].life["read"].completed, 1);
}

#[test]
fn at_high_rates_the_window_is_shorter_and_memory_is_bounded() {
    let mut window = LiveWindow::new(5 * SECOND);
    for n in 0..(3 * MOST_EVENTS as u64 / 2000) {
        window.add(&block((0..1000).flat_map(|k| io(n * 1_000_000 + k * 1000, 500, 8 * k)).collect()));
    }
    let settled = window.settled(SECOND).unwrap();
    assert!(settled.length < 5 * SECOND);
    assert!(settled.events.len() <= MOST_EVENTS && window.events.capacity() <= 4 * MOST_EVENTS);
}
