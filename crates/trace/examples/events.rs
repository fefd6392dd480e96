use blklab_trace::{
    blkparse::{line::write_line, summary::Summary},
    event::EventBatch,
    open::open,
    process::ProcessTable,
};
use std::io::Write;
fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut s = open(&paths, None).unwrap();
    let mut b = EventBatch::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut p = ProcessTable::default();
    let names: Vec<String> = s.info().inputs.iter().map(|i| i.name.clone()).collect();
    let mut sum = Summary::new(names.iter().map(String::as_str));
    loop {
        b.clear();
        if !s.fill(&mut b).unwrap() {
            break;
        }
        let mut n = b.names.iter().peekable();
        for (i, e) in b.events.iter().enumerate() {
            while let Some(x) = n.next_if(|x| x.before <= i) {
                p.learn(x.pid, &x.name)
            }
            write_line(&mut out, e, b.pdu_of(e), &p).unwrap();
            sum.add(e);
        }
        for x in n {
            p.learn(x.pid, &x.name)
        }
    }
    sum.write(&mut out).unwrap();
    for i in &s.info().inputs {
        for f in &i.files {
            writeln!(out, "Input file {f} added").unwrap()
        }
    }
    eprintln!("{:?}", s.info());
}
