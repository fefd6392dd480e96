use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn event(time: u64, action: Action, rwbs: Rwbs, sector: u64, sectors: u32) -> Event {
    Event { time, action, rwbs, sector, bytes: sectors * 512, ..Event::default() }
}

fn run(events: &[Event]) -> (Vec<Io>, Pairer) {
    let (mut pairer, mut done) = (Pairer::default(), Vec::new());
    for event in events {
        pairer.add_event(event, BioOrigin::default(), &mut done);
    }
    pairer.finish(&mut done);
    (done, pairer)
}

#[test]
fn bios_merged_into_one_request_share_its_dispatch_and_completion() {
    let w = Rwbs::WRITE;
    let (ios, _) = run(&[
        event(0, Action::QUEUE, w, 100, 8),
        event(1, Action::GET_REQUEST, w, 100, 8),
        event(2, Action::QUEUE, w, 108, 8),
        event(3, Action::BACK_MERGE, w, 108, 8),
        event(4, Action::QUEUE, w, 92, 8),
        event(5, Action::FRONT_MERGE, w, 92, 8),
        event(6, Action::INSERT, w, 92, 24),
        event(7, Action::DISPATCH, w, 92, 24),
        event(90, Action::COMPLETE, w, 92, 24),
    ]);
    assert_eq!(ios.iter().map(|io| io.t_queue).collect::<Vec<_>>(), [4, 0, 2]);
    assert!(ios.iter().all(|io| io.t_dispatch == 7 && io.t_complete == 90));
    assert_eq!(ios.iter().map(|io| io.t_merge).collect::<Vec<_>>(), [5, NEVER, 3]);
}

#[test]
fn a_bio_that_completes_in_pieces_is_complete_with_the_last() {
    let r = Rwbs::READ;
    let (ios, pairer) = run(&[
        event(0, Action::QUEUE, r, 0, 256),
        event(5, Action::COMPLETE, r, 128, 128),
        event(9, Action::COMPLETE, r, 0, 64),
        event(30, Action::COMPLETE, r, 64, 64),
    ]);
    assert_eq!(ios.len(), 1);
    assert_eq!(ios[0].t_complete, 30);
    assert_eq!(pairer.unmatched_completions, 0);
}

#[test]
fn twins_on_one_sector_are_distinguished_by_direction_and_length() {
    let (r, w) = (Rwbs::READ, Rwbs::WRITE);
    let (ios, _) = run(&[
        event(0, Action::QUEUE, r, 8, 8),
        event(1, Action::QUEUE, w, 8, 8),
        event(2, Action::QUEUE, r, 8, 16),
        event(3, Action::QUEUE, r, 8, 8),
        event(10, Action::COMPLETE, r, 8, 16),
        event(11, Action::COMPLETE, w, 8, 8),
        event(12, Action::COMPLETE, r, 8, 8),
        event(13, Action::COMPLETE, r, 8, 8),
    ]);
    let lives: Vec<_> = ios.iter().map(|io| (io.t_queue, io.t_complete)).collect();
    assert_eq!(lives, [(2, 10), (1, 11), (0, 12), (3, 13)]);
}

#[test]
fn one_driver_flush_serves_all_flush_bios_that_wait() {
    let (bio, driver) = (Rwbs::WRITE.with(Rwbs::FLUSH), Rwbs::READ.with(Rwbs::FLUSH));
    let (ios, _) = run(&[
        event(0, Action::QUEUE, bio, 0, 0),
        event(1, Action::QUEUE, bio, 0, 0),
        event(2, Action::DISPATCH, driver, 0, 0),
        event(3, Action::QUEUE, bio, 0, 0),
        event(50, Action::COMPLETE, driver, 0, 0),
        event(51, Action::DISPATCH, driver, 0, 0),
        event(99, Action::COMPLETE, driver, 0, 0),
    ]);
    let lives: Vec<_> = ios.iter().map(|io| (io.t_queue, io.t_complete)).collect();
    assert_eq!(lives, [(0, 50), (1, 50), (3, 99)]);
}

#[test]
fn the_second_completion_of_a_fua_write_ends_nothing() {
    let fua = Rwbs::WRITE.with(Rwbs::FUA);
    let (ios, _) = run(&[
        event(0, Action::QUEUE, fua, 8, 8),
        event(5, Action::COMPLETE, fua, 8, 8),
        event(6, Action::COMPLETE, fua, 8, 0),
    ]);
    assert_eq!(ios.len(), 1);
    assert_eq!(ios[0].t_complete, 5);
}

#[test]
fn a_requeued_request_counts_from_its_last_dispatch() {
    let r = Rwbs::READ;
    let (ios, _) = run(&[
        event(0, Action::QUEUE, r, 8, 8),
        event(1, Action::DISPATCH, r, 8, 8),
        event(2, Action::REQUEUE, r, 8, 8),
        event(7, Action::DISPATCH, r, 8, 8),
        event(9, Action::COMPLETE, r, 8, 8),
    ]);
    assert_eq!((ios[0].t_dispatch, ios[0].requeues), (7, 1));
}

#[test]
fn memory_is_bounded_when_nothing_completes() {
    let (mut pairer, mut done) = (Pairer::default(), Vec::new());
    for number in 0..100_000 {
        pairer.add_event(&event(number, Action::QUEUE, Rwbs::READ, number * 8, 8), BioOrigin::default(), &mut done);
        assert!(pairer.in_flight() <= MAX_IN_FLIGHT);
    }
    pairer.finish(&mut done);
    assert_eq!(done.len(), 100_000);
    assert!(done.iter().all(|io| io.t_complete == NEVER));
}

/// One I/O of a generated trace, with all its times.
#[derive(Clone, Debug)]
struct KnownLife {
    sector: u64,
    sectors: u32,
    write: bool,
    queue: u64,
    get: u64,
    dispatch: u64,
    complete: u64,
}

/// I/Os on few start sectors: up to 40 in flight, a third of them twins.
fn known_lives() -> impl Strategy<Value = Vec<KnownLife>> {
    let life = (0u64..12, 1u32..4, any::<bool>(), 1u64..50, 1u64..20, 1u64..500);
    proptest::collection::vec(life, 1..120).prop_map(|raw| {
        let mut now = 0;
        // No trace distinguishes twins with the same sector, length and direction: they end in order.
        let mut last_alike: BTreeMap<(u64, u32, bool), (u64, u64)> = BTreeMap::new();
        raw.into_iter()
            .map(|(place, length, write, gap, wait, service)| {
                now += gap;
                let (sector, sectors) = (place * 64, length * 8);
                let (queue, get) = (now * 10, now * 10 + 1);
                let last = last_alike.entry((sector, sectors, write)).or_default();
                let dispatch = (get + wait).max(last.0 + 1);
                let complete = (dispatch + service).max(last.1 + 1);
                *last = (dispatch, complete);
                KnownLife { sector, sectors, write, queue, get, dispatch, complete }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn every_latency_of_a_known_trace_is_right(known in known_lives()) {
        let mut events = Vec::new();
        for life in &known {
            let rwbs = if life.write { Rwbs::WRITE } else { Rwbs::READ };
            for (time, action) in [
                (life.queue, Action::QUEUE),
                (life.get, Action::GET_REQUEST),
                (life.dispatch, Action::DISPATCH),
                (life.complete, Action::COMPLETE),
            ] {
                events.push(event(time, action, rwbs, life.sector, life.sectors));
            }
        }
        events.sort_by_key(|e| (e.time, e.action.0));
        let (mut ios, _) = run(&events);
        ios.sort_by_key(|io| io.t_queue);
        let times: Vec<_> = ios.iter().map(|io| (io.t_queue, io.t_get, io.t_dispatch, io.t_complete)).collect();
        let truth: Vec<_> = known.iter().map(|k| (k.queue, k.get, k.dispatch, k.complete)).collect();
        prop_assert_eq!(times, truth);
    }

    #[test]
    fn any_events_are_taken(raw in proptest::collection::vec((0u64..50, 1u8..18, any::<u16>(), 0u64..64, 0u32..20_000), 0..300)) {
        let events: Vec<_> = raw
            .into_iter()
            .map(|(time, action, rwbs, sector, bytes)| Event { bytes, ..event(time, Action(action), Rwbs(rwbs), sector, 0) })
            .collect();
        let queued = events.iter().filter(|e| e.action == Action::QUEUE).count();
        let (ios, _) = run(&events);
        prop_assert_eq!(ios.iter().filter(|io| io.t_queue != NEVER).count(), queued);
    }
}
