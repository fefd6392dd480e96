use super::*;
use crate::event::{Event, Rwbs};
use crate::pair::new_io;

fn user(pid: u32) -> UserKey {
    UserKey { pid, process: pid, source: DeviceId(0) }
}

#[test]
fn the_rival_is_the_other_user_with_most_ios_in_flight() {
    let mut depths = UserDepths::default();
    for _ in 0..5 {
        depths.queue(user(1), false);
    }
    depths.queue(user(2), true);
    assert_eq!(depths.queue(user(3), false), (1, Rival { user: user(1), depth: 5, own: 0 }));
    // A user's own commits and its own queue are not what others have in flight.
    assert_eq!(depths.queue(user(2), false), (0, Rival { user: user(1), depth: 5, own: 1 }));
    assert_eq!(depths.queue(user(1), false), (1, Rival { own: 5, ..Rival::default() }));
    (0..6).for_each(|_| depths.end(user(1), false));
    assert_eq!(depths.queue(user(3), false).1, Rival { user: user(2), depth: 2, own: 1 });
}

#[test]
fn users_beyond_the_limit_are_neither_rivals_nor_followed() {
    let mut depths = UserDepths::default();
    for pid in (0..200).chain([199; 50]) {
        depths.queue(user(pid), false);
    }
    assert_eq!(depths.queue(user(0), false).1.depth, 0);
    depths.end(user(199), false);
    assert_eq!(depths.queue(user(1), false).1.depth, 2);
}

/// An I/O of user 2 that took 10 ns per I/O that user 1 had in flight.
fn io(time: u64, rival: u32, commits: u32) -> Io {
    let event = Event { pid: 2, rwbs: Rwbs::READ, bytes: 4096, ..Event::default() };
    let mut io = Io { t_queue: time, t_complete: time + 10 * u64::from(rival), process: 2, ..new_io(&event) };
    io.rival = Rival { user: user(1), depth: rival, own: 0 };
    io.behind[COMMITS] = commits;
    io
}

fn observed(ios: &[Io]) -> Users {
    let mut users = Users::default();
    users.observe(&Chunk { ended: ios.to_vec(), ..Chunk::default() });
    users
}

#[test]
fn merged_users_are_those_of_the_whole() {
    let ios: Vec<Io> = (0..90).map(|at| io(1000 * u64::from(at), at % 40, u32::from(at % 7 == 0))).collect();
    let device = ProfiledDevice { number: "8,0", name: None, p50: None, process: &|process| format!("p{process}") };
    let mut merged = observed(&ios[..30]);
    merged.merge(&observed(&ios[30..]));
    let whole = observed(&ios).profile(&device);
    assert_eq!(merged.profile(&device), whole);
    let [user] = whole.users.as_slice() else { panic!("{:?}", whole.users) };
    assert_eq!((user.all.ios, user.behind_commits.ios), (90, 13));
    assert_eq!((whole.idle_reads.ios, whole.idle_writes.ios), (90, 0));
    let deep = ios.iter().filter(|io| io.rival.depth >= 8 && io.behind[COMMITS] == 0).count() as u64;
    assert_eq!(user.rivals[0].found.ios, deep);
    assert_eq!(user.by_rival_depth[4..].iter().map(|level| level.read.ios).sum::<u64>(), deep);
}
