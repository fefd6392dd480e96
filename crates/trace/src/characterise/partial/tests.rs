use super::*;
use crate::characterise::DeviceProfile;
use crate::characterise::{Options, characterise};
use crate::event::{Action, DeviceId, Event, EventBatch, ProcessName, Rwbs};
use crate::filter::Filter;
use crate::open::open;
use crate::source::{Capabilities, Input, Source, TraceInfo};
use proptest::prelude::*;
use serde_json::{Value, to_value};

/// A source of events that were made up, in batches of `batch` events.
struct MadeUp {
    events: Vec<Event>,
    next: usize,
    batch: usize,
    info: TraceInfo,
}

impl Source for MadeUp {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let end = self.events.len().min(self.next + self.batch);
        let added = end - self.next;
        for (before, event) in (batch.events.len()..).zip(&self.events[self.next..end]) {
            if event.sequence % 7 == 0 {
                let name = format!("task{}", event.pid).into_bytes();
                batch.names.push(ProcessName { before, pid: event.pid, name });
            }
        }
        batch.events.extend_from_slice(&self.events[self.next..end]);
        self.next = end;
        Ok(added > 0)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

fn source(events: &[Event], batch: usize) -> MadeUp {
    let info = TraceInfo {
        format: "blktrace".into(),
        capabilities: Capabilities::BLKTRACE,
        inputs: vec![Input { name: String::new(), files: vec!["made-up".into()] }],
        ..TraceInfo::default()
    };
    MadeUp { events: events.to_vec(), next: 0, batch, info }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        blklab_stats::hash64(self.0) % below
    }
}

/// Events in any order, on few sectors, so that bios meet: twins, merges, splits, flushes, unknown completions.
fn any_events(seed: u64, count: usize) -> Vec<Event> {
    let mut random = Random(seed << 20);
    let actions = [
        Action::QUEUE,
        Action::QUEUE,
        Action::QUEUE,
        Action::COMPLETE,
        Action::COMPLETE,
        Action::DISPATCH,
        Action::INSERT,
        Action::GET_REQUEST,
        Action::BACK_MERGE,
        Action::REQUEUE,
        Action::REMAP,
        Action::PLUG,
    ];
    let mut time = 0;
    let mut event = |sequence| {
        let scale = random.below(24);
        time += random.below(1 << scale);
        let device = DeviceId::new(8, random.below(3) as u32 * 16);
        let directions = [Rwbs::READ, Rwbs::WRITE, Rwbs::WRITE.with(Rwbs::DISCARD), Rwbs::WRITE.with(Rwbs::SYNC)];
        let blocks = random.below(4) as u32;
        Event {
            time,
            sector: random.below(64) * 8,
            bytes: blocks * 4096,
            device,
            sequence,
            pid: random.below(5) as u32,
            cpu: random.below(3) as u16,
            rwbs: if blocks == 0 { Rwbs::FLUSH } else { directions[random.below(4) as usize] },
            error: if random.below(50) == 0 { 65531 } else { 0 },
            action: actions[random.below(actions.len() as u64) as usize],
            arg_device: DeviceId::new(9, 0),
            target_device: device,
            ..Event::default()
        }
    };
    (0..count as u32).map(&mut event).collect()
}

/// I/Os one after the other, complete at the end; those of one process in eight are large.
fn whole_ios(seed: u64, count: usize) -> Vec<Event> {
    let mut random = Random(seed << 20);
    let mut time = 0;
    let mut events = Vec::new();
    for number in 0..count as u32 {
        let pid = random.below(8) as u32;
        let direction = if random.below(3) == 0 { Rwbs::WRITE } else { Rwbs::READ };
        let (sector, bytes) = (random.below(1 << 20) * 8, 4096 * if pid == 0 { 64 } else { 1 });
        let device = DeviceId::new(8, random.below(2) as u32 * 16);
        for action in [Action::QUEUE, Action::DISPATCH, Action::COMPLETE] {
            let scale = random.below(20);
            time += 1 + random.below(1 << scale);
            let sequence = number * 7;
            events.push(Event {
                time,
                sector,
                bytes,
                device,
                pid,
                sequence,
                rwbs: direction,
                action,
                ..Event::default()
            });
        }
    }
    events
}

fn filters() -> Vec<Filter> {
    let open = Filter::default();
    vec![
        Filter { min_latency_ns: Some(1 << 20), ..open.clone() },
        Filter { processes: vec!["task1".into()], ops: vec!["write".into()], ..open.clone() },
        Filter { since_ns: Some(1 << 26), until_ns: Some(1 << 30), devices: vec!["8,0".into()], ..open.clone() },
        open,
    ]
}

fn read(source: &mut dyn Source, filter: &Filter, host: &str, threads: usize) -> Characterisation {
    let options = Options { host: host.into(), ..Options::default() };
    Characterisation::of(source, filter.clone(), options, threads, &mut |_| true).unwrap().ended()
}

fn whole(events: &[Event], host: &str) -> Characterisation {
    read(&mut source(events, 500), &Filter::default(), host, 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn stored_traces_have_the_same_profile(
        seed in 0u64..1 << 40, count in 0usize..6000, batch in 1usize..900, filter in 0usize..4,
    ) {
        let events = any_events(seed, count);
        let filter = &filters()[filter];
        let one_pass =
            characterise(&mut source(&events, 500), filter.clone(), Options::default(), 1, &mut |_| true).unwrap();
        let threads = 1 + (seed % 2) as usize;
        let trace = read(&mut source(&events, batch), filter, "", threads);
        let stored = Characterisation::from_bytes(&trace.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(to_value(one_pass).unwrap(), to_value(stored.profile()).unwrap());
    }

    #[test]
    fn merged_traces_equal_one_pass(seed in 0u64..1 << 40, counts in prop::collection::vec(1usize..3000, 2..5)) {
        let parts: Vec<Vec<Event>> = (0..).zip(&counts).map(|(part, &count)| whole_ios(seed + part, count)).collect();
        let mut all: Vec<Event> = Vec::new();
        for part in &parts {
            let start = all.last().map_or(0, |event| event.time);
            all.extend(part.iter().map(|event| Event { time: start + event.time, ..*event }));
        }
        let mut merged = whole(&parts[0], "a");
        for part in &parts[1..] {
            merged.merge(Characterisation::from_bytes(&whole(part, "a").to_bytes().unwrap()).unwrap());
        }
        let [one_pass, merged] = [whole(&all, ""), merged].map(|trace| to_value(trace.profile()).unwrap());
        prop_assert_eq!(&one_pass["events"], &merged["events"]);
        for (whole, parts) in std::iter::zip(one_pass["devices"].as_array().unwrap(), merged["devices"].as_array().unwrap()) {
            for exact in ["device", "events", "load", "life", "hotness"] {
                prop_assert_eq!(&whole[exact], &parts[exact], "{}", exact);
            }
            prop_assert_eq!(&whole["pattern"]["arrivals"]["count"], &parts["pattern"]["arrivals"]["count"]);
        }
    }

    #[test]
    fn damaged_bytes_are_refused(seed in 0u64..1 << 40, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = whole(&whole_ios(seed, 50), "a").to_bytes().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let read = Characterisation::from_bytes(&bytes).map(|read| read.profile().events);
        // Only the number of blklab's version, and a few bits of zstd's header, mean nothing.
        prop_assert!(matches!(read, Err(_) | Ok(150)));
        prop_assert!(Characterisation::from_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn any_content_is_read_or_refused(seed in 0u64..1 << 40, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let trace = whole(&any_events(seed, 300), "");
        let mut content = postcard::to_allocvec(&trace.intake).unwrap();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let _ = postcard::from_bytes::<Intake>(&content);
    }
}

#[test]
fn the_same_device_of_two_hosts_is_two_devices() {
    let events = whole_ios(1, 2000);
    let [mut a, b] = ["a", "b"].map(|host| whole(&events, host).sum());
    let single = to_value(whole(&events, "a").sum().profile()).unwrap();
    let mut again = whole(&events, "a").sum();
    again.merge(whole(&events, "a").sum());
    a.merge(b);
    let (both, again) = (to_value(a.profile()).unwrap(), to_value(again.profile()).unwrap());
    let unique = |profile: &Value| profile["devices"][0]["hotness"]["unique_blocks"].as_u64().unwrap();
    assert_eq!(unique(&both), 2 * unique(&single));
    assert_eq!(unique(&again), unique(&single));
    let read = |profile: &Value| profile["devices"][0]["load"]["ops"]["read"]["ios"].as_u64().unwrap();
    assert_eq!(read(&both), 2 * read(&single));
    assert_eq!(both["trace"]["device_names"], serde_json::json!([[0, "all devices"]]));
    assert_eq!(both["devices"].as_array().unwrap().len(), 1);
}

#[test]
fn members_of_an_array_do_not_count_twice() {
    let path = format!("{}/../../tests/data/traces/pgbench-raid1", env!("CARGO_MANIFEST_DIR"));
    let mut source = open(&[path], None).unwrap();
    let trace = read(&mut *source, &Filter::default(), "a", 1);
    let devices = Characterisation::from_bytes(&trace.to_bytes().unwrap()).unwrap().profile().devices;
    let bytes = |profile: &DeviceProfile| profile.load.ops.values().map(|op| op.counts.bytes).sum::<u64>();
    // Two logical volumes on an array of two disks.
    let volumes = devices.iter().filter(|device| device.flow.name.as_deref().unwrap().starts_with("dm-"));
    let sum = trace.sum().profile();
    assert_eq!(sum.devices.len(), 1);
    assert_eq!(bytes(&sum.devices[0]), volumes.map(bytes).sum::<u64>());
}

#[test]
fn errors_name_the_version() {
    let error = |bytes: &[u8]| Characterisation::from_bytes(bytes).err().unwrap().to_string();
    assert_eq!(error(b"x"), "partial profile: not a partial profile of blklab");
    assert!(error(b"blklab partial profile 99 2.0.0\n").contains("written by blklab 2.0.0"));
}

#[test]
fn many_devices_have_the_same_profile_with_threads_and_in_brief() {
    let mut events = any_events(7, 12_000);
    for (number, event) in (0u32..).zip(&mut events) {
        // The last of 40 devices has most of the events: its chunks do not wait for the end.
        let device = if number < 40 { number } else { (number * 7 % 100).min(39) };
        (event.device, event.target_device) = (DeviceId::new(8, device), DeviceId::new(8, device));
    }
    let read = |threads, in_full| {
        let options = Options { in_full, ..Options::default() };
        characterise(&mut source(&events, 500), Filter::default(), options, threads, &mut |_| true).unwrap()
    };
    let (mut full, mut brief) = (read(1, None), read(1, Some((20, 5))));
    assert_eq!(to_value(&full).unwrap(), to_value(read(2, None)).unwrap());
    assert_eq!(full.focus, brief.focus);
    let ios = |device: &DeviceProfile| device.load.ops.values().map(|op| op.counts.ios).sum::<u64>();
    for profile in [&mut full, &mut brief] {
        profile.devices.sort_by_key(|device| std::cmp::Reverse(ios(device)));
    }
    assert!(ios(&full.devices[0]) > 1200);
    for (device, brief) in std::iter::zip(&mut full.devices, &brief.devices).skip(5) {
        assert_eq!(brief.hotness.accesses, 0);
        device.hotness = brief.hotness.clone();
        device.over_time = brief.over_time.clone();
        device.offsets = brief.offsets.clone();
        device.processes_over_time = brief.processes_over_time.clone();
        device.latency_blocks = brief.latency_blocks.clone();
        device.users = brief.users.clone();
    }
    assert!(full.devices == brief.devices);
}
