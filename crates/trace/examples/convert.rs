//! Converts a trace: `convert TO INPUT OUTPUT`, TO one of parquet, iolog2, iolog3, merged, cpus, null.

use blklab_trace::blktrace::record::Order;
use blklab_trace::export::{self, BlktraceLayout, IologVersion};
use blklab_trace::{event::EventBatch, open::open};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [to, input, output] = arguments.as_slice() else { return Err("expected TO INPUT OUTPUT".into()) };
    let began = Instant::now();
    let mut source = open(std::slice::from_ref(input), None)?;
    let output = Path::new(output);
    let exporter = match to.as_str() {
        "parquet" => export::parquet_events(output)?,
        "iolog2" => export::iolog(output, IologVersion::V2)?,
        "iolog3" => export::iolog(output, IologVersion::V3)?,
        "merged" => export::blktrace(output, BlktraceLayout::Merged, Order::Little)?,
        "cpus" => export::blktrace(output, BlktraceLayout::PerCpu, Order::Little)?,
        "null" => {
            let (mut batch, mut events) = (EventBatch::default(), 0);
            while source.fill(&mut batch)? {
                events += batch.events.len();
                batch.clear();
            }
            let seconds = began.elapsed().as_secs_f64();
            println!("{events} events read, {:.2} M/s, {:?}", events as f64 / seconds / 1e6, source.info());
            return Ok(());
        }
        _ => return Err(format!("{to}: not known").into()),
    };
    let report = export::convert(&mut *source, exporter)?;
    let rate = report.taken as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{report:?}\n{rate:.2} M events/s, {:?}", source.info().warnings);
    Ok(())
}
