use blklab_trace::{characterise::characterise, filter::Filter, open::open};
fn main() {
    let mut a: Vec<String> = std::env::args().skip(1).collect();
    let threads: usize = a.remove(0).parse().unwrap();
    let mut s = open(&a, None).unwrap();
    let t = std::time::Instant::now();
    let p = characterise(&mut *s, Filter::default(), threads, &mut |_| true).unwrap();
    let e = t.elapsed().as_secs_f64();
    eprintln!("{} events, {:.3} s, {:.2} M/s", p.events, e, p.events as f64 / e / 1e6);
    println!("{}", serde_json::to_string(&p).unwrap());
}
