//! Any events that a trace can contain.

use crate::event::{Action, DeviceId, Event, EventBatch, ProcessName, Rwbs};
use crate::tests::trace_of;
use proptest::collection::vec;
use proptest::prelude::*;

const ACTIONS: [Action; 15] = [
    Action::QUEUE,
    Action::BACK_MERGE,
    Action::FRONT_MERGE,
    Action::GET_REQUEST,
    Action::SLEEP_REQUEST,
    Action::REQUEUE,
    Action::DISPATCH,
    Action::COMPLETE,
    Action::PLUG,
    Action::UNPLUG,
    Action::UNPLUG_TIMER,
    Action::INSERT,
    Action::SPLIT,
    Action::BOUNCE,
    Action::REMAP,
];

fn device() -> impl Strategy<Value = DeviceId> {
    (0u32..4096, 0u32..1 << 20).prop_map(|(major, minor)| DeviceId::new(major, minor))
}

/// An event and its extra bytes; `time` is the distance to the one before.
fn event() -> impl Strategy<Value = (Event, Vec<u8>)> {
    let place = (0..1u64 << 50, prop_oneof![Just(0u32), Just(4096), 0..1u32 << 31], device());
    let who = (0u16..4, any::<u32>(), 0u32..6, any::<u16>());
    let numbers = (0usize..17, any::<u16>(), any::<u64>(), device(), vec(any::<u8>(), 0..20));
    let text = "[ -~]{0,30}\n?";
    (1u64..2_000_000_000, place, who, numbers, text).prop_map(|(time, place, who, numbers, text)| {
        let ((sector, bytes, device), (cpu, sequence, pid, error)) = (place, who);
        let (kind, bits, arg_sector, arg_device, pdu) = numbers;
        let mut event = Event { time, sector, bytes, device, cpu, sequence, pid, ..Event::default() };
        // Letters of the direction, and FUA, read-ahead, sync, meta, flush, discard.
        let direction = if bits & 1 == 0 { Rwbs::READ } else { Rwbs::WRITE };
        event.rwbs = Rwbs(bits & 0b1011_1000_0000_1100).with(direction);
        if event.rwbs.has(Rwbs::DISCARD) {
            event.rwbs = event.rwbs.with(Rwbs::WRITE);
        }
        let Some(&action) = ACTIONS.get(kind) else {
            if kind == 15 {
                event.action = Action::MESSAGE;
                event.rwbs = Rwbs::NOTIFY;
                return (event, text.into_bytes());
            }
            event.action =
                [Action::DISPATCH, Action::COMPLETE, Action::INSERT, Action::REQUEUE][usize::from(bits >> 8) % 4];
            event.rwbs = event.rwbs.with(Rwbs::PASSTHROUGH);
            event.error = error;
            return (event, pdu);
        };
        event.action = action;
        if matches!(action, Action::COMPLETE | Action::REQUEUE) {
            event.error = error;
        }
        if matches!(action, Action::REMAP | Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER) {
            event.arg_sector = arg_sector;
        }
        if action == Action::REMAP {
            event.arg_device = arg_device;
            event.target_device = if bits & 2 == 0 { device } else { DeviceId(0) };
        }
        (event, Vec::new())
    })
}

/// Events at rising times, from 0, with names for some of the processes.
pub fn batch() -> impl Strategy<Value = EventBatch> {
    let name = "[ -~]{1,15}|[a-cé]{1,7}";
    (vec(event(), 1..60), vec((0usize..60, 0u32..6, name), 0..8)).prop_map(|(events, mut names)| {
        let mut batch = EventBatch::default();
        let mut time = 0;
        for (index, (mut event, pdu)) in events.into_iter().enumerate() {
            time += if index == 0 { 0 } else { event.time };
            event.time = time;
            if !pdu.is_empty() {
                batch.attach(&mut event, &pdu);
            }
            batch.events.push(event);
        }
        names.sort_by_key(|name| name.0);
        let names = names.into_iter().map(|(before, pid, name)| ProcessName { before, pid, name: name.into_bytes() });
        batch.names.extend(names.filter(|name| name.before < batch.events.len()));
        batch
    })
}

/// The text when every name is known from the start, as after reading blktrace binary in blocks.
pub fn text_with_all_names(batch: &EventBatch) -> String {
    let mut batch = batch.clone();
    for name in &mut batch.names {
        name.before = 0;
    }
    trace_of(&batch).text
}
