//! The agent in a guest of the lab: prepares the guest and does what the host requests.
//!
//! As PID 1 it uses a virtio-serial port. With `--stdio` it serves the same protocol on standard input and output, as
//! an ordinary process, and changes nothing else.

mod call;
mod children;
mod control;
mod failure;
mod files;
mod frame;
mod glob;
mod guest;
mod run;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        guest::run_as_init();
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["--stdio"] {
        eprintln!("usage: blklab-agent --stdio (without --stdio it must be PID 1 of a guest)");
        return ExitCode::from(2);
    }
    match on_stdio() {
        Ok(server::ServeEnd::Closed | server::ServeEnd::Asked) => ExitCode::SUCCESS,
        Ok(server::ServeEnd::Lost(why)) => failed(&why),
        Err(error) => failed(&failure::reason(&error)),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("blklab-agent: {why}");
    ExitCode::FAILURE
}

fn on_stdio() -> io::Result<server::ServeEnd> {
    let from = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(server::serve(from, to, &children::Children::new()?, None, &[]))
}
