//! Writes a synthetic blktrace set: `generate NAME IOS [SEED [KIB [DEVICES]]]`, two CPUs, five events (Q G I D C) an I/O.
//!
//! 70 % reads of 4 to 64 KiB, of 4 to MAX KiB (KIB is `4-MAX`), or all of KIB KiB; a quarter of the I/Os sequential, the
//! rest skewed over 8 GiB, 32 in flight; each on any of DEVICES devices. The same arguments give the same bytes. Used by
//! the benchmark.

use blklab_trace::blktrace::record::{MAGIC, Record};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Result, Write};

const DEVICE: u32 = 254 << 20;
const BLOCKS: u64 = 2 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Pending = Reverse<(u64, u64, (u32, u32), u32, u64, u32)>; // (time, tie-breaker, (cpu, device), action, sector, bytes)

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, ios, options @ ..] = arguments.as_slice() else {
        eprintln!("usage: generate NAME IOS [SEED [KIB [DEVICES]]]");
        std::process::exit(2);
    };
    let ios: u64 = ios.parse().expect("IOS is a number");
    let mut random = Random(options.first().map_or(1, |s| s.parse().expect("SEED is a number")));
    let blocks_of = |kib: &str| kib.parse::<u64>().expect("KIB is a number, or 4- and a number") / 4;
    let (fixed, most) = match options.get(1).map(|kib| (kib, kib.strip_prefix("4-"))) {
        Some((_, Some(most))) => (None, blocks_of(most)),
        Some((kib, None)) => (Some(blocks_of(kib)), 16),
        None => (None, 16),
    };
    let devices: u64 = options.get(2).map_or(1, |s| s.parse().expect("DEVICES is a number"));
    let mut files = Vec::new();
    for cpu in 0..2 {
        files.push(BufWriter::with_capacity(1 << 20, File::create(format!("{name}.blktrace.{cpu}"))?));
    }
    let mut sequence = [0u32; 2];
    let mut emit = |time: u64, (cpu, device): (u32, u32), action: u32, sector: u64, bytes: u32| -> Result<()> {
        sequence[cpu as usize] += 1;
        let record = Record {
            magic: MAGIC,
            sequence: sequence[cpu as usize],
            time: 1_000_000_000 + time,
            sector,
            bytes,
            action,
            pid: 1000 + cpu,
            device: DEVICE + device,
            cpu,
            error: 0,
            pdu_len: 0,
        };
        files[cpu as usize].write_all(&record.encode())
    };
    let mut pending: BinaryHeap<Pending> = BinaryHeap::new();
    let (mut now, mut cursor) = (0u64, 0u64);
    for number in 0..ios {
        now += 2_000 + random.next() % 16_000;
        let cpu = (random.next() & 1) as u32;
        let direction = if random.unit() < 0.7 { 1 } else { 2 };
        let blocks = fixed.unwrap_or(1 + if random.unit() < 0.6 { 0 } else { random.next() % most });
        let block = if random.unit() < 0.25 { cursor } else { ((random.unit().powi(4)) * BLOCKS as f64) as u64 };
        cursor = (block + blocks) % BLOCKS;
        let (sector, bytes) = (block * 8, (blocks * 4096) as u32);
        let device = if devices > 1 { (random.next() % devices) as u32 } else { 0 };
        let dispatch = now + 3_000 + random.next() % 4_000;
        let complete = dispatch + 80_000 + (random.unit().powi(3) * 400_000.0) as u64;
        for (time, code, category) in
            [(now, 1, 0x10), (now + 700, 4, 0x10), (now + 1_500, 12, 0x10), (dispatch, 7, 0x40), (complete, 8, 0x80)]
        {
            let action = code | (category | direction) << 16;
            let cpu = if code == 8 { (random.next() & 1) as u32 } else { cpu };
            pending.push(Reverse((time, number << 3 | u64::from(code), (cpu, device), action, sector, bytes)));
        }
        while let Some(&Reverse((time, _, place, action, sector, bytes))) = pending.peek()
            && time <= now
        {
            pending.pop();
            emit(time, place, action, sector, bytes)?;
        }
    }
    while let Some(Reverse((time, _, place, action, sector, bytes))) = pending.pop() {
        emit(time, place, action, sector, bytes)?;
    }
    files.iter_mut().try_for_each(Write::flush)
}
