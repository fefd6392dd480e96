//! The kernel's codes: what happened to an I/O, and what kind of I/O it is.

use serde::{Deserialize, Serialize};

/// What happened (the low byte of `blk_io_trace.action`). A newtype and not an enum, so that codes of later kernels
/// can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
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

    /// blkparse's letters, e.g. `Q`, `UT`; `?` for codes it does not know.
    pub fn letters(self) -> &'static str {
        match self {
            Action::QUEUE => "Q",
            Action::BACK_MERGE => "M",
            Action::FRONT_MERGE => "F",
            Action::GET_REQUEST => "G",
            Action::SLEEP_REQUEST => "S",
            Action::REQUEUE => "R",
            Action::DISPATCH => "D",
            Action::COMPLETE => "C",
            Action::PLUG => "P",
            Action::UNPLUG => "U",
            Action::UNPLUG_TIMER => "UT",
            Action::INSERT => "I",
            Action::SPLIT => "X",
            Action::BOUNCE => "B",
            Action::REMAP => "A",
            Action::MESSAGE => "m",
            _ => "?",
        }
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
    pub const FS: Rwbs = Rwbs(1 << 8); // A file-system (normal) request
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

    /// blkparse's letters for these bits, e.g. `WS`, `FWFS`; `bytes` decides between `R` and `N`. At most 6 letters.
    pub fn letters(self, bytes: u32) -> RwbsText {
        let mut text = RwbsText::default();
        if self.has(Rwbs::FLUSH) {
            text.push(b'F');
        }
        text.push(if self.has(Rwbs::DISCARD) {
            b'D'
        } else if self.has(Rwbs::WRITE) {
            b'W'
        } else if bytes != 0 {
            b'R'
        } else {
            b'N'
        });
        for (bit, letter) in [(Rwbs::FUA, b'F'), (Rwbs::AHEAD, b'A'), (Rwbs::SYNC, b'S'), (Rwbs::META, b'M')] {
            if self.has(bit) {
                text.push(letter);
            }
        }
        text
    }

    /// The inverse of [`Rwbs::letters`]; `None` if a letter is unknown or in the wrong place.
    pub fn from_letters(letters: &str) -> Option<Rwbs> {
        let mut rest = letters.bytes().peekable();
        let mut bits = Rwbs::default();
        if letters.len() > 1 && rest.peek() == Some(&b'F') {
            bits = bits.with(Rwbs::FLUSH);
            rest.next();
        }
        bits = match rest.next()? {
            b'D' => bits.with(Rwbs::DISCARD).with(Rwbs::WRITE),
            b'W' => bits.with(Rwbs::WRITE),
            b'R' | b'N' => bits.with(Rwbs::READ),
            _ => return None,
        };
        for letter in rest {
            bits = bits.with(match letter {
                b'F' => Rwbs::FUA,
                b'A' => Rwbs::AHEAD,
                b'S' => Rwbs::SYNC,
                b'M' => Rwbs::META,
                _ => return None,
            });
        }
        Some(bits)
    }
}

/// The letters of an [`Rwbs`], without an allocation.
#[derive(Clone, Copy, Default)]
pub struct RwbsText {
    letters: [u8; 6],
    len: u8,
}

impl RwbsText {
    fn push(&mut self, letter: u8) {
        self.letters[self.len as usize] = letter;
        self.len += 1;
    }

    /// The letters as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.len as usize]).unwrap_or("")
    }
}

#[cfg(test)]
mod tests;
