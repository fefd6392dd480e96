//! The users of a device (a process, and the device that its I/O came from): how long each one waits, and what of others
//! was in flight meanwhile.

use super::chunk::{Chunk, Panel, ProfiledDevice, Renumbering};
use crate::event::{DeviceId, Op};
use crate::io::{COMMITS, Io, NEVER, RESYNC, Rival, UserKey, WRITEBACK};
use blklab_stats::Merge;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const MOST: usize = 128; // The largest number of users of a device; further ones are not followed
const SHOWN: usize = 32; // Users in a profile
const RIVALS: usize = 8; // Rivals that are kept for each user
const LEVELS: usize = 8; // Levels of I/Os in flight: 0, 1, 2 to 3, 4 to 7 …, 64 and more
const DEEP: usize = 4; // The level from which on a rival is counted: 8 I/Os in flight

/// The I/Os of one user that are in flight.
#[derive(Clone, Copy, Debug)]
struct UserDepth {
    user: UserKey,
    ios: u32,
    commits: u32, // Those of `ios` that are commits
}

/// The I/Os of each user that are in flight on a device; without background I/O.
#[derive(Clone, Debug, Default)]
pub struct UserDepths {
    index: HashMap<(u32, u32), usize>, // By pid and source
    users: Vec<UserDepth>,
    latest: usize,
    deepest: usize,
    commits: u32,
}

impl UserDepths {
    /// Counts an I/O that a user queues. Returns what others had in flight before: the commits, and the rival.
    pub fn queue(&mut self, user: UserKey, commits: bool) -> (u32, Rival) {
        let Some(at) = self.place(user) else { return (self.commits, Rival::default()) };
        let own = self.users[at];
        let deepest = self.users[self.deepest];
        let mut rival = Rival { own: own.ios, ..Rival::default() };
        if self.deepest != at {
            (rival.user, rival.depth) = (deepest.user, deepest.ios);
        }
        let others = self.commits.saturating_sub(own.commits);
        self.commits += u32::from(commits);
        let state = &mut self.users[at];
        state.ios += 1;
        state.commits += u32::from(commits);
        if state.ios > deepest.ios {
            self.deepest = at;
        }
        (others, rival)
    }

    /// Takes out an I/O that has ended.
    pub fn end(&mut self, user: UserKey, commits: bool) {
        let Some(at) = self.find(user) else { return };
        let state = &mut self.users[at];
        state.ios = state.ios.saturating_sub(1);
        state.commits = state.commits.saturating_sub(u32::from(commits));
        self.commits = self.commits.saturating_sub(u32::from(commits));
        if at == self.deepest {
            let deepest = (0..self.users.len()).max_by_key(|&at| self.users[at].ios);
            self.deepest = deepest.unwrap_or_default();
        }
    }

    fn find(&mut self, user: UserKey) -> Option<usize> {
        if self.users.get(self.latest).is_none_or(|latest| latest.user != user) {
            self.latest = *self.index.get(&(user.pid, user.source.0))?;
        }
        Some(self.latest)
    }

    fn place(&mut self, user: UserKey) -> Option<usize> {
        if let Some(at) = self.find(user) {
            return Some(at);
        }
        if self.users.len() >= MOST {
            return None;
        }
        self.latest = self.users.len();
        self.index.insert((user.pid, user.source.0), self.latest);
        self.users.push(UserDepth { user, ios: 0, commits: 0 });
        Some(self.latest)
    }
}

/// I/Os, and the time that they took, added up in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct TimeSum {
    ios: u64,
    ns: u64,
    first: Option<u64>, // When the first was queued
    last: u64,          // When the last completed
}

impl TimeSum {
    fn add(&mut self, io: &Io) {
        self.ios += 1;
        self.ns = self.ns.saturating_add(io.t_complete.saturating_sub(io.t_queue));
        self.first = Some(self.first.map_or(io.t_queue, |first| first.min(io.t_queue)));
        self.last = self.last.max(io.t_complete);
    }

    fn profile(&self) -> TimeSumProfile {
        let mean_ns = (self.ios > 0).then(|| self.ns as f64 / self.ios as f64);
        TimeSumProfile { ios: self.ios, mean_ns, start_ns: self.first, end_ns: self.first.map(|_| self.last) }
    }
}

impl Merge for TimeSum {
    fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.ns = self.ns.saturating_add(other.ns);
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
    }
}

/// I/Os that found a rival with at least 8 I/Os in flight.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct RivalSum {
    user: UserKey,
    time: TimeSum,
    depth: u64, // The rival's I/Os in flight, added up
}

/// One user's I/Os for which a program waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct UserWaits {
    all: TimeSum,
    own: u64, // Its own I/Os in flight when another one was queued, added up
    behind: [TimeSum; 3],
    commits: TimeSum,
    levels: [[TimeSum; LEVELS]; 2],
    rivals: Vec<RivalSum>,
}

impl UserWaits {
    fn add(&mut self, io: &Io) {
        self.all.add(io);
        self.own += u64::from(io.rival.own);
        if io.commits {
            return self.commits.add(io);
        }
        // What is behind background I/O or commits says nothing about rivals.
        if let Some(kind) = [RESYNC, WRITEBACK, COMMITS].into_iter().find(|kind| io.behind[*kind] > 0) {
            return self.behind[kind].add(io);
        }
        let level = (32 - io.rival.depth.leading_zeros() as usize).min(LEVELS - 1);
        self.levels[usize::from(io.op() != Op::Read)][level].add(io);
        if level >= DEEP {
            self.add_rival(&RivalSum::of(io));
        }
    }

    fn add_rival(&mut self, sum: &RivalSum) {
        let has_room = self.rivals.len() < RIVALS;
        match self.rivals.iter_mut().find(|rival| rival.user == sum.user) {
            Some(rival) => rival.merge(sum),
            None if has_room => self.rivals.push(*sum),
            None => {}
        }
    }
}

impl RivalSum {
    fn of(io: &Io) -> RivalSum {
        let mut time = TimeSum::default();
        time.add(io);
        RivalSum { user: io.rival.user, time, depth: u64::from(io.rival.depth) }
    }

    fn merge(&mut self, other: &RivalSum) {
        self.time.merge(&other.time);
        self.depth += other.depth;
    }
}

impl Merge for UserWaits {
    fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        self.own += other.own;
        self.behind.merge(&other.behind);
        self.commits.merge(&other.commits);
        self.levels.merge(&other.levels);
        other.rivals.iter().for_each(|rival| self.add_rival(rival));
    }
}

/// Users by their key, in the order of their first I/O that ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(UserKey, UserWaits)>", into = "Vec<(UserKey, UserWaits)>")]
struct UserTable {
    index: HashMap<UserKey, usize>,
    latest: usize,
    users: Vec<(UserKey, UserWaits)>,
}

impl From<Vec<(UserKey, UserWaits)>> for UserTable {
    fn from(users: Vec<(UserKey, UserWaits)>) -> UserTable {
        let mut table = UserTable::default();
        users.iter().for_each(|(user, waits)| table.add(*user, |own| own.merge(waits)));
        table
    }
}

impl From<UserTable> for Vec<(UserKey, UserWaits)> {
    fn from(table: UserTable) -> Self {
        table.users
    }
}

impl UserTable {
    fn add(&mut self, user: UserKey, change: impl FnOnce(&mut UserWaits)) {
        if self.users.get(self.latest).is_none_or(|(latest, _)| *latest != user) {
            let Some(at) = self.place(user) else { return };
            self.latest = at;
        }
        change(&mut self.users[self.latest].1);
    }

    fn place(&mut self, user: UserKey) -> Option<usize> {
        if let Some(&at) = self.index.get(&user) {
            return Some(at);
        }
        if self.users.len() >= MOST {
            return None;
        }
        self.users.push((user, UserWaits::default()));
        self.index.insert(user, self.users.len() - 1);
        Some(self.users.len() - 1)
    }
}

impl Merge for UserTable {
    fn merge(&mut self, other: &Self) {
        other.users.iter().for_each(|(user, waits)| self.add(*user, |own| own.merge(waits)));
    }
}

/// The users of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Users {
    table: UserTable,
    callers: Vec<(u32, u32, u64)>, // Who commits, for which process, and how often
    shallow: [TimeSum; 2],         // Reads, and others, of all users that found few I/Os in flight
    idle: [TimeSum; 2],            // The same of those that found none in flight
}

const MOST_CALLERS: usize = 64;
const SHALLOW: u32 = 3; // I/Os in flight up to which a queue is short

impl Users {
    fn add_caller(&mut self, process: u32, caller: u32, commits: u64) {
        let has_room = self.callers.len() < MOST_CALLERS;
        match self.callers.iter_mut().find(|entry| (entry.0, entry.1) == (process, caller)) {
            Some(entry) => entry.2 += commits,
            None if has_room => self.callers.push((process, caller, commits)),
            None => {}
        }
    }
}

impl Merge for Users {
    fn merge(&mut self, other: &Self) {
        self.table.merge(&other.table);
        self.shallow.merge(&other.shallow);
        self.idle.merge(&other.idle);
        other.callers.iter().for_each(|&(process, caller, commits)| self.add_caller(process, caller, commits));
    }
}

/// Some I/Os and their mean time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct TimeSumProfile {
    /// I/Os.
    pub ios: u64,
    /// Mean Q2C, in ns; `null` if there are none.
    pub mean_ns: Option<f64>,
    /// When the first was queued, in ns since the trace began; `null` if there are none.
    pub start_ns: Option<u64>,
    /// When the last completed, in ns since the trace began; `null` if there are none.
    pub end_ns: Option<u64>,
}

/// I/Os of a user by the number of I/Os that the deepest other user had in flight.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct RivalLevel {
    /// Smallest number of the other user's I/Os in flight; the level ends below that of the next one.
    pub low: u64,
    /// Reads.
    pub read: TimeSumProfile,
    /// Everything else.
    pub write: TimeSumProfile,
}

/// Another user with at least 8 I/Os in flight, which a user's I/Os found.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct RivalProfile {
    /// Name of the other user's process.
    pub process: String,
    /// Its process id.
    pub pid: u32,
    /// The device that its I/O was remapped from, `major,minor` or `direct`.
    pub source: String,
    /// Mean number of its I/Os in flight.
    pub depth: f64,
    /// The I/Os that found it.
    pub found: TimeSumProfile,
}

/// A process and the device that its I/O came from, and what its I/Os waited behind. Only I/Os count for which a program
/// waits: reads, synchronous writes and flushes.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct UserProfile {
    /// Name of the process.
    pub process: String,
    /// Process id.
    pub pid: u32,
    /// The device that the I/O was remapped from, `major,minor` or `direct`.
    pub source: String,
    /// All its I/Os.
    pub all: TimeSumProfile,
    /// Mean number of I/Os that the user itself had in flight when it queued another one.
    pub own_depth: f64,
    /// Its commits: flushes, writes with a flush or forced unit access, and what a filesystem's journal writes.
    pub commits: TimeSumProfile,
    /// Other I/Os that found writeback in flight.
    pub behind_writeback: TimeSumProfile,
    /// Other I/Os that found I/O of md's resync in flight.
    pub behind_resync: TimeSumProfile,
    /// Other I/Os that found commits of another process in flight.
    pub behind_commits: TimeSumProfile,
    /// The rest, by the I/Os in flight of the other user that had most of them.
    pub by_rival_depth: Vec<RivalLevel>,
    /// The other users with at least 8 I/Os in flight, that with most I/Os behind it first.
    pub rivals: Vec<RivalProfile>,
}

/// How often a process commits for another one.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct CallerProfile {
    /// Name of the process that queues the flushes; `jbd2/…` is the journal of ext4.
    pub process: String,
    /// Name of the process whose synchronous write came before; its own name if it is no thread of a filesystem.
    pub caller: String,
    /// I/Os with a flush.
    pub commits: u64,
}

/// The users of a device.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct UsersProfile {
    /// The users that wait longest; at most 32.
    pub users: Vec<UserProfile>,
    /// Who commits, the most frequent first.
    pub callers: Vec<CallerProfile>,
    /// Reads of all users that found at most 3 I/Os in flight, and no background I/O.
    pub shallow_reads: TimeSumProfile,
    /// Everything else, without commits, that found at most 3 I/Os in flight, and no background I/O.
    pub shallow_writes: TimeSumProfile,
    /// Reads of all users that found nothing in flight.
    pub idle_reads: TimeSumProfile,
    /// Writes of all users that found nothing in flight, with commits that have data.
    pub idle_writes: TimeSumProfile,
}

fn source_name(source: DeviceId) -> String {
    if source == DeviceId::default() { "direct".into() } else { source.to_string() }
}

impl UserWaits {
    fn profile(&self, user: &UserKey, device: &ProfiledDevice) -> UserProfile {
        let level = |at: usize| RivalLevel {
            low: if at == 0 { 0 } else { 1 << (at - 1) },
            read: self.levels[0][at].profile(),
            write: self.levels[1][at].profile(),
        };
        let mut rivals = self.rivals.clone();
        rivals.sort_by_key(|rival| std::cmp::Reverse(rival.time.ios));
        let rivals = rivals.iter().map(|rival| RivalProfile {
            process: (device.process)(rival.user.process),
            pid: rival.user.pid,
            source: source_name(rival.user.source),
            depth: rival.depth as f64 / rival.time.ios.max(1) as f64,
            found: rival.time.profile(),
        });
        UserProfile {
            process: (device.process)(user.process),
            pid: user.pid,
            source: source_name(user.source),
            all: self.all.profile(),
            own_depth: self.own as f64 / self.all.ios.max(1) as f64,
            commits: self.commits.profile(),
            behind_writeback: self.behind[WRITEBACK].profile(),
            behind_resync: self.behind[RESYNC].profile(),
            behind_commits: self.behind[COMMITS].profile(),
            by_rival_depth: (0..LEVELS).map(level).collect(),
            rivals: rivals.collect(),
        }
    }
}

impl Panel for Users {
    type Profile = UsersProfile;
    const DETAIL: bool = true;

    fn renumber(&mut self, numbers: &Renumbering) {
        let key = |user: UserKey| UserKey {
            process: numbers.process(user.process),
            source: numbers.device(user.source),
            ..user
        };
        let mut table = UserTable::default();
        for (user, mut waits) in std::mem::take(&mut self.table).users {
            waits.rivals.iter_mut().for_each(|rival| rival.user = key(rival.user));
            table.add(key(user), |own| own.merge(&waits));
        }
        self.table = table;
        for (process, caller, commits) in std::mem::take(&mut self.callers) {
            self.add_caller(numbers.process(process), numbers.process(caller), commits);
        }
    }

    fn observe(&mut self, chunk: &Chunk) {
        for io in chunk.ended.iter().filter(|io| io.t_queue != NEVER && io.t_complete != NEVER) {
            if io.flushes() {
                self.add_caller(io.process, io.caller, 1);
            }
            if io.background().is_none() {
                self.table.add(io.user(), |user| user.add(io));
                if io.depth == 0 && io.bytes > 0 {
                    self.idle[usize::from(io.op() != Op::Read)].add(io);
                }
                if io.depth <= SHALLOW && io.behind == [0; 3] && !io.commits {
                    self.shallow[usize::from(io.op() != Op::Read)].add(io);
                }
            }
        }
    }

    fn profile(&self, device: &ProfiledDevice) -> UsersProfile {
        let mut users: Vec<_> = self.table.users.iter().collect();
        users.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.all.ns));
        let mut callers = self.callers.clone();
        callers.sort_by_key(|entry| std::cmp::Reverse(entry.2));
        let caller = |&(process, caller, commits): &(u32, u32, u64)| CallerProfile {
            process: (device.process)(process),
            caller: (device.process)(caller),
            commits,
        };
        UsersProfile {
            users: users.into_iter().take(SHOWN).map(|(user, waits)| waits.profile(user, device)).collect(),
            callers: callers.iter().map(caller).collect(),
            shallow_reads: self.shallow[0].profile(),
            shallow_writes: self.shallow[1].profile(),
            idle_reads: self.idle[0].profile(),
            idle_writes: self.idle[1].profile(),
        }
    }
}

#[cfg(test)]
mod tests;
