//! A job that reads a file in order through the page cache: what its calls wait for (mm/filemap.c, `filemap_read`).

use std::collections::VecDeque;

use crate::events::Time;
use crate::task::read_ahead::{PAGE, ReadAhead, Window};

/// Pages of the largest bio of a file (`BIO_MAX_VECS`).
pub const BIO_PAGES: u64 = 256;

/// What a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStep {
    Request(Window),                    // Submit the reads of a window, without waiting for them
    Sleep,                              // Until the bio of the next page is done
    Copy(u64),                          // Copy these bytes to the program
    Return { bytes: u32, start: Time }, // The call is done
}

/// A bio that fills pages.
#[derive(Clone, Copy, Debug)]
struct PageBio {
    io: u32,
    begin: u64, // Its first page
    end: u64,   // The page after its last
    done: bool,
}

/// A file that one job reads. It was not in the page cache when it was opened.
#[derive(Debug)]
pub struct FileReader {
    pub boundary: u64, // Sectors that no bio crosses (a chunk), as in old kernels; 0: bios are split below
    pages: u64,        // Pages of the file
    windows: [u64; 2], // The largest window, and that of calls for more, in pages
    read_ahead: ReadAhead,
    position: u64,                  // The byte that the call copies next
    call: Option<(u64, u64, Time)>, // The running call: first byte, the byte after the last, when it began
    cached: u64,                    // The page after those that were read or are being read
    mark: Option<u64>,
    bios: VecDeque<PageBio>, // Bios with pages that the program has not read, in the order of the file
}

impl FileReader {
    /// A file of `bytes`; `windows` are the largest window, and that of calls for more, in pages.
    pub fn new(bytes: u64, windows: [u64; 2], boundary: u64) -> Self {
        Self {
            boundary,
            pages: bytes.div_ceil(PAGE),
            windows,
            read_ahead: ReadAhead::new(windows[0], windows[1]),
            position: 0,
            call: None,
            cached: 0,
            mark: None,
            bios: VecDeque::new(),
        }
    }

    /// Whether a call runs.
    pub fn is_in_call(&self) -> bool {
        self.call.is_some()
    }

    /// The program calls read(2). If it goes back to the beginning, it has opened the file again, which fio also drops
    /// from the page cache (`invalidate=1`).
    pub fn begin_call(&mut self, byte: u64, bytes: u32, now: Time) {
        if byte != self.position {
            self.read_ahead = ReadAhead::new(self.windows[0], self.windows[1]);
            (self.position, self.cached, self.mark) = (byte, byte / PAGE, None);
            self.bios.clear();
        }
        self.call = Some((byte, byte + u64::from(bytes), now));
    }

    /// What the running call does next.
    pub fn next_step(&mut self) -> ReadStep {
        let Some((begin, end, start)) = self.call else { return ReadStep::Sleep };
        if self.position >= end {
            self.call = None;
            return ReadStep::Return { bytes: (end - begin) as u32, start };
        }
        let page = self.position / PAGE;
        let wanted = end.div_ceil(PAGE) - page;
        if page >= self.cached {
            let window = self.read_ahead.miss(page, wanted);
            return ReadStep::Request(self.clip(window));
        }
        if self.mark == Some(page) {
            let window = self.read_ahead.reach_mark(page, wanted);
            let window = self.clip(window);
            if window.pages > 0 {
                return ReadStep::Request(window);
            }
        }
        while self.bios.front().is_some_and(|bio| bio.done && bio.end <= page) {
            self.bios.pop_front();
        }
        let ready = self.first_unread().map_or(self.cached, |bio| bio.begin);
        if ready <= page {
            return ReadStep::Sleep;
        }
        let stop = self.mark.map_or(ready, |mark| if mark > page { ready.min(mark) } else { ready });
        ReadStep::Copy(end.min(stop * PAGE) - self.position)
    }

    /// The program has copied these bytes.
    pub fn copy(&mut self, bytes: u64) {
        self.position += bytes;
        self.read_ahead.advance(self.position / PAGE);
    }

    /// A bio reads these pages.
    pub fn add_bio(&mut self, io: u32, begin: u64, end: u64) {
        self.bios.push_back(PageBio { io, begin, end, done: false });
    }

    /// A bio is done. True if the call waits for its pages.
    pub fn end_bio(&mut self, io: u32) -> bool {
        let awaited = self.first_unread().map(|bio| bio.io);
        // Numbers of I/Os that are done are given again.
        if let Some(bio) = self.bios.iter_mut().find(|bio| !bio.done && bio.io == io) {
            bio.done = true;
        }
        self.is_in_call() && awaited == Some(io)
    }

    fn first_unread(&self) -> Option<&PageBio> {
        self.bios.iter().find(|bio| !bio.done)
    }

    /// Nothing is read beyond the end of the file.
    fn clip(&mut self, window: Window) -> Window {
        let pages = window.pages.min(self.pages.saturating_sub(window.start));
        self.cached = self.cached.max(window.start + pages);
        self.mark = window.mark.filter(|&mark| mark < window.start + pages);
        Window { pages, ..window }
    }
}
