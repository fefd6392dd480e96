//! The kernel's read-ahead (mm/readahead.c, Linux 6.1): which pages are read when a program reads a file in order.
//!
//! A window of pages is read at once. One of its pages has a mark; when the program reaches it, the kernel submits the
//! next window, which is larger until the limit is reached (`ondemand_readahead`).

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Pages that the kernel reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u64,        // The first page
    pub pages: u64,        // How many
    pub mark: Option<u64>, // The page that submits the next window (`PG_readahead`)
}

/// The state of one open file (`struct file_ra_state`), in pages.
#[derive(Clone, Debug, Default)]
pub struct ReadAhead {
    most: u64,         // The largest window (`ra_pages`); 0: no read-ahead
    most_at_once: u64, // The largest window for a call that asks for more than `most` (`io_pages`); 0: `most`
    start: u64,        // The newest window
    size: u64,         // Its pages
    async_size: u64,   // Its pages from the mark on
    next: Option<u64>, // The page at which the program's last read ended (`prev_pos`)
}

impl ReadAhead {
    /// A file that was just opened. Windows have `most` pages; a call for more pages gets at most `most_at_once`.
    pub fn new(most: u64, most_at_once: u64) -> Self {
        Self { most, most_at_once, ..Self::default() }
    }

    /// The program has read all bytes before this page.
    pub fn advance(&mut self, page: u64) {
        self.next = Some(page);
    }

    /// The program needs a page that is not in the page cache, and `wanted` pages in all (`page_cache_sync_ra`).
    pub fn miss(&mut self, page: u64, wanted: u64) -> Window {
        if self.most == 0 {
            return Window { start: page, pages: 1, mark: None }; // `force_page_cache_ra` of one page
        }
        let most = self.most_for(wanted);
        let is_next = self.next.is_some_and(|next| page.wrapping_sub(next) <= 1);
        if page > 0 && page == self.start + self.size {
            self.move_on(most);
        } else if page == 0 || wanted > most || is_next {
            let size = first_size(wanted, most);
            (self.start, self.size) = (page, size);
            self.async_size = if size > wanted { size - wanted } else { size };
        } else {
            return Window { start: page, pages: wanted, mark: None }; // It can be a random read
        }
        self.submit(page, most)
    }

    /// The program has reached the marked page (`page_cache_async_ra`).
    pub fn reach_mark(&mut self, page: u64, wanted: u64) -> Window {
        let most = self.most_for(wanted);
        self.move_on(most);
        self.submit(page, most)
    }

    fn most_for(&self, wanted: u64) -> u64 {
        if wanted > self.most { wanted.min(self.most_at_once).max(self.most) } else { self.most }
    }

    fn move_on(&mut self, most: u64) {
        self.start += self.size;
        self.size = self.size.max(next_size(self.size, most));
        self.async_size = self.size;
    }

    /// A window whose mark would be the page that is read now has the next window in it as well.
    fn submit(&mut self, page: u64, most: u64) -> Window {
        if page == self.start && self.size == self.async_size {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.async_size = more;
                self.size += more;
            } else {
                (self.size, self.async_size) = (most, most / 2);
            }
        }
        let mark = (self.async_size > 0).then(|| self.start + self.size - self.async_size);
        Window { start: self.start, pages: self.size, mark }
    }
}

/// The pages of a file's first window (`get_init_ra_size`).
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    match size {
        _ if size <= most / 32 => size * 4,
        _ if size <= most / 4 => size * 2,
        _ => most,
    }
}

/// The pages of the window after one of `size` pages (`get_next_ra_size`).
fn next_size(size: u64, most: u64) -> u64 {
    match size {
        _ if size < most / 16 => size * 4,
        _ if size <= most / 2 => size * 2,
        _ => most,
    }
}

#[cfg(test)]
mod tests;
