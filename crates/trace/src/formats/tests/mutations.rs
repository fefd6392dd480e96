//! A little fuzzing in every test run: valid samples with bytes flipped, removed, repeated and inserted.
//! `scripts/fuzz` does more. The seed is fixed; BLKLAB_MUTATIONS sets the number of mutations of each sample.

use super::samples;
use crate::event::EventBatch;
use crate::export::convert;
use crate::export::parquet::parquet_events;
use crate::formats::FORMATS;
use crate::open::open;
use crate::tests::{TestDirectory, read, read_bytes};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = b"\x00\xff\x7f\n, 0-9]["[self.below(11)],
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + self.below(40)).min(bytes.len()))),
                4 => {
                    let piece = bytes[at..(at + self.below(60)).min(bytes.len())].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                5 => {
                    let digits = std::iter::repeat_n(b'9', self.below(25));
                    bytes.splice(at..at, digits);
                }
                _ => {
                    for byte in bytes.iter_mut().skip(at).take(8) {
                        *byte = 0xff;
                    }
                }
            }
        }
    }
}

fn rounds() -> usize {
    std::env::var("BLKLAB_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in [
        "msr.csv",
        "alibaba.csv",
        "tencent.csv",
        "systor17.csv",
        "fiu.txt",
        "vscsi1.bin",
        "vscsi2.bin",
        "oracle-general.bin",
        "fio-v2.iolog",
        "fio-v3.iolog",
        "blkparse.txt",
        "blktrace.bin",
        "blktrace-be.bin",
    ] {
        all.push((name.to_owned(), std::fs::read(samples::path(name)).unwrap()));
    }
    all
}

#[test]
fn readers_survive_damaged_samples() {
    let mut random = Random(1);
    for (name, sample) in all() {
        for round in 0..rounds() {
            let mut bytes = sample.clone();
            random.mutate(&mut bytes);
            // Read in the recognised format, and in another one.
            let other = &FORMATS[random.below(FORMATS.len())];
            let recognised = FORMATS.iter().filter(|f| (f.sniff)(&bytes));
            for format in recognised.chain([other]) {
                if let Ok(trace) = read_bytes(format, &bytes) {
                    let events = trace.events.len();
                    assert!(events <= bytes.len(), "{name} as {}, round {round}: {events}", format.name);
                }
            }
        }
    }
}

#[test]
fn parquet_survives_damage() {
    let directory = TestDirectory::new();
    let path = directory.file("sample.parquet");
    let mut source = open(&[samples::path("blkparse.txt")], None).unwrap();
    convert(&mut *source, None, parquet_events(path.as_ref()).unwrap(), &mut |_| true).unwrap();
    let sample = std::fs::read(&path).unwrap();
    let mut random = Random(2);
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..rounds() {
        let mut bytes = sample.clone();
        random.mutate(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut source) = open(std::slice::from_ref(&path), Some("parquet")) {
            let _ = read(&mut *source);
        }
    }
    std::panic::set_hook(silent);
}

#[test]
fn random_bytes_and_prose_are_no_trace() {
    let mut random = Random(3);
    for length in [1, 23, 24, 48, 96, 4096, 65_536] {
        for _ in 0..50 {
            let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            assert_eq!(FORMATS.iter().find(|f| (f.sniff)(&bytes)).map(|f| f.name), None);
        }
        for same in [0u8, 1, 0xff, b' ', b'\n', b'0', b','] {
            let bytes = vec![same; length];
            assert_eq!(FORMATS.iter().find(|f| (f.sniff)(&bytes)).map(|f| f.name), None);
        }
    }
    for text in ["a,b,c,d,e\n1,2,3,4,5\n", "Lorem ipsum\ndolor sit amet\n", "1 2 3\n4 5 6\n", "{\"a\": 1}\n"] {
        assert_eq!(FORMATS.iter().find(|f| (f.sniff)(text.as_bytes())).map(|f| f.name), None);
    }
}

#[test]
fn a_batch_is_of_moderate_size() {
    let text = "1,W,0,512,5\n".repeat(100_000);
    let format = FORMATS.iter().find(|f| f.name == "alibaba").unwrap();
    let input = crate::source::OpenInput { name: String::new(), files: vec![crate::tests::file("x", text.as_bytes())] };
    let mut source = format.open(vec![input]).unwrap();
    let mut batch = EventBatch::default();
    while source.fill(&mut batch).unwrap() {
        assert!(batch.events.len() <= EventBatch::TARGET + 2);
        batch.clear();
    }
}
