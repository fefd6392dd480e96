//! x
use blklab_trace::{event::EventBatch, open::open};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let t = std::time::Instant::now();
    let mut s = open(&a, None).unwrap();
    let mut b = EventBatch::default();
    let mut n = 0;
    while s.fill(&mut b).unwrap() {
        n += b.events.len();
        b.clear();
    }
    let e = t.elapsed().as_secs_f64();
    eprintln!("read {} events, {:.3} s, {:.2} M/s", n, e, n as f64 / e / 1e6);
}
