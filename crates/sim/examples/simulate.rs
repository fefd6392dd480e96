//! Simulates the cell on standard input and prints the outcome: `cargo run --release --example simulate < cell.json`.

use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = serde_json::from_reader(std::io::stdin())?;
    let begin = Instant::now();
    let outcome = blklab_sim::run(&cell)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string(&outcome)?);
    eprintln!(
        "{} I/Os in {seconds:.3} s: {:.0} a second",
        outcome.simulated_ios,
        outcome.simulated_ios as f64 / seconds
    );
    Ok(())
}
