//! The rate of bcache's writeback (`writeback.c`, `writeback.h`).

const SECOND_NS: u64 = 1_000_000_000;
/// Time between computations of the rate (`WRITEBACK_RATE_UPDATE_SECS_DEFAULT`).
const UPDATE_S: i64 = 5;
/// How long the controller waits after everything was written (`writeback_delay`).
const DELAY_NS: u64 = 30 * SECOND_NS;
/// Idle for this long, it writes at full speed (six updates of the rate).
const IDLE_NS: u64 = 30 * SECOND_NS;

/// The proportional-integral controller, in sectors.
#[derive(Clone, Debug)]
pub struct Controller {
    target: i64,
    integral: i64,
    rate: i64,
    next_update_ns: u64,
    last_ns: u64,
    paused_until_ns: u64,
    credit: i128, // below 0 after more was written than allowed; what may be written now, in sectors × ns
}

impl Controller {
    /// A controller that leaves this many sectors dirty.
    pub fn new(target: u64) -> Self {
        Self {
            target: target as i64,
            integral: 0,
            rate: 8,
            next_update_ns: 0,
            last_ns: 0,
            paused_until_ns: 0,
            credit: 0,
        }
    }

    /// The rate, in sectors a second.
    pub fn rate(&self) -> u64 {
        self.rate as u64
    }

    /// Sectors that may be written back until `now_ns`; all of them if there was no I/O for half a minute.
    pub fn budget(&mut self, now_ns: u64, last_io_ns: u64, dirty: u64) -> u64 {
        while self.next_update_ns <= now_ns {
            let at = self.next_update_ns;
            self.accrue(at);
            self.update(dirty);
            // Long pauses: the integral is bounded by them anyway.
            self.next_update_ns = (at + UPDATE_S as u64 * SECOND_NS).max(now_ns.saturating_sub(3600 * SECOND_NS));
        }
        if now_ns.saturating_sub(last_io_ns) >= IDLE_NS {
            self.last_ns = now_ns;
            return u64::MAX;
        }
        self.accrue(now_ns);
        (self.credit.max(0) / i128::from(SECOND_NS)) as u64
    }

    fn accrue(&mut self, now_ns: u64) {
        let from = self.last_ns.max(self.paused_until_ns);
        self.credit += i128::from(now_ns.saturating_sub(from)) * i128::from(self.rate);
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// `__update_writeback_rate`: (dirty − target) / 40 + integral / 10000, at least 8 sectors.
    fn update(&mut self, dirty: u64) {
        let error = dirty as i64 - self.target;
        // The integral falls only while it is positive.
        if error > 0 || self.integral > 0 {
            self.integral += error * UPDATE_S;
        }
        self.rate = (error / 40 + self.integral / 10_000).max(8);
    }

    /// Sectors were written back.
    pub fn wrote(&mut self, sectors: u64) {
        self.credit -= i128::from(sectors) * i128::from(SECOND_NS);
    }

    /// A pass over all dirty data is done: wait.
    pub fn end_pass(&mut self, now_ns: u64) {
        (self.paused_until_ns, self.credit) = (now_ns.saturating_add(DELAY_NS), 0);
    }
}
