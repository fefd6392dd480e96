//! The kernel's codes: what happened to an I/O, and what kind of I/O it is.

use serde::{Deserialize, Serialize};

/// What happened (the low byte of `blk_io_trace.action`). A newtype and not an enum, so that codes of later kernels
/// can be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Action(pub u8);

impl Action {
    pub const QUEUE: Action = Action(1); // Queued: a bio arrived at the device
    pub const BACK_MERGE: Action = Action(2); // Back-merged into a request that ends where the bio starts
    pub const FRONT_MERGE: Action = Action(3); // Front-merged into a request that starts where the bio ends
    pub const GET_REQUEST: Action = Action(4); // Got a request
    pub const SLEEP_REQUEST: Action = Action(5); // Slept waiting for a request (old kernels)
    pub const REQUEUE: Action = Action(6); // Requeued after dispatch
    pub const DISPATCH: Action = Action(7); // Dispatched (issued) to the driver
    pub const COMPLETE: Action = Action(8); // Completed
    pub const PLUG: Action = Action(9); // Queue plugged
    pub const UNPLUG: Action = Action(10); // Unplugged by an explicit call
    pub const UNPLUG_TIMER: Action = Action(11); // Unplugged by the timer or scheduler
    pub const INSERT: Action = Action(12); // Inserted into the I/O scheduler
    pub const SPLIT: Action = Action(13); // Split; `arg_sector` is where the second part starts
    pub const BOUNCE: Action = Action(14); // Bounced to low memory (old kernels)
    pub const REMAP: Action = Action(15); // Remapped from another device: `arg_device` and `arg_sector` are the source
    pub const DRIVER_DATA: Action = Action(17); // Driver data: opaque bytes for a driver's own tools
    pub const MESSAGE: Action = Action(0x82); // A text message (`BLK_TN_MESSAGE`), its text in the batch's `pdu`

    /// By code, as blkparse prints them.
    const LETTERS: [&str; 16] = ["?", "Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A"];

    /// blkparse's letters, e.g. `Q`, `UT`; `?` for codes it does not know.
    pub fn letters(self) -> &'static str {
        if self == Action::MESSAGE { "m" } else { Self::LETTERS.get(usize::from(self.0)).unwrap_or(&"?") }
    }

    /// The inverse of [`Action::letters`].
    pub fn from_letters(letters: &str) -> Option<Action> {
        (1..=17u8).map(Action).chain([Action::MESSAGE]).find(|a| a.letters() == letters && letters != "?")
    }
}

/// The category bits of an event: the high half of `blk_io_trace.action`, verbatim (`BLK_TC_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Rwbs(pub u16);

impl Rwbs {
    pub const READ: Rwbs = Rwbs(1); // A read
    pub const WRITE: Rwbs = Rwbs(1 << 1); // A write
    pub const FLUSH: Rwbs = Rwbs(1 << 2); // Carries a cache flush before it, or is one
    pub const SYNC: Rwbs = Rwbs(1 << 3); // A process waits for it
    pub const QUEUE: Rwbs = Rwbs(1 << 4); // Category of queueing events
    pub const REQUEUE: Rwbs = Rwbs(1 << 5); // Category of requeues
    pub const ISSUE: Rwbs = Rwbs(1 << 6); // Category of dispatches
    pub const COMPLETE: Rwbs = Rwbs(1 << 7); // Category of completions
    pub const PASSTHROUGH: Rwbs = Rwbs(1 << 9); // A passthrough (SCSI) command
    pub const NOTIFY: Rwbs = Rwbs(1 << 10); // A note, not an event
    pub const AHEAD: Rwbs = Rwbs(1 << 11); // Read-ahead
    pub const META: Rwbs = Rwbs(1 << 12); // File-system metadata
    pub const DISCARD: Rwbs = Rwbs(1 << 13); // A discard (TRIM)
    pub const DRIVER_DATA: Rwbs = Rwbs(1 << 14); // Driver data
    pub const FUA: Rwbs = Rwbs(1 << 15); // Forced unit access: on stable media before it completes

    /// True when any bit of `other` is set.
    pub const fn has(self, other: Rwbs) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of bits.
    pub const fn with(self, other: Rwbs) -> Rwbs {
        Rwbs(self.0 | other.0)
    }

    /// The letters after that of the operation, in their order.
    const LAST_LETTERS: [(Rwbs, char); 4] =
        [(Rwbs::FUA, 'F'), (Rwbs::AHEAD, 'A'), (Rwbs::SYNC, 'S'), (Rwbs::META, 'M')];

    /// blkparse's letters for these bits, e.g. `WS`, `FWFS`; `bytes` decides between `R` and `N`. At most 6 letters.
    pub fn letters(self, bytes: u32) -> String {
        let mut text = String::new();
        if self.has(Rwbs::FLUSH) {
            text.push('F');
        }
        text.push(if self.has(Rwbs::DISCARD) {
            'D'
        } else if self.has(Rwbs::WRITE) {
            'W'
        } else if bytes != 0 {
            'R'
        } else {
            'N'
        });
        text.extend(Self::LAST_LETTERS.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, letter)| letter));
        text
    }

    /// The inverse of [`Rwbs::letters`]; `None` if a letter is unknown or in the wrong place.
    pub fn from_letters(letters: &str) -> Option<Rwbs> {
        let mut rest = letters.chars().peekable();
        let mut bits = Rwbs::default();
        if letters.len() > 1 && rest.next_if_eq(&'F').is_some() {
            bits = bits.with(Rwbs::FLUSH);
        }
        bits = match rest.next()? {
            'D' => bits.with(Rwbs::DISCARD).with(Rwbs::WRITE),
            'W' => bits.with(Rwbs::WRITE),
            'R' | 'N' => bits.with(Rwbs::READ),
            _ => return None,
        };
        for letter in rest {
            bits = bits.with(Self::LAST_LETTERS.iter().find(|(_, known)| *known == letter)?.0);
        }
        Some(bits)
    }
}

#[cfg(test)]
mod tests;
