//! Programs run to their end.

use crate::call::Run;
use crate::children::Children;
use crate::decode::Decoder;
use crate::exchange::Control;
use crate::failure::reason;
use crate::sync::lock;
use rustix::process::{Pid, Signal};
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How much of each output is kept, in bytes.
const KEPT: usize = 4 << 20;
/// How long an output may stay open when its program has ended: a daemon it left may hold it.
const LINGER: Duration = Duration::from_millis(500);
/// How long what was killed may take to end; what waits for a device may never.
const DYING: Duration = Duration::from_secs(5);

/// What a program did.
#[derive(Serialize)]
pub struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
    truncated: bool,
    wall_ns: u64,
}

/// The variables that programs are given; `None` for those of the agent itself.
pub type Environment = Option<&'static [(&'static str, &'static str)]>;

/// Is told what comes on `stdout` or `stderr`.
pub type Listener = Arc<dyn Fn(&str, String) + Send + Sync>;

/// Returns a command with nothing to read, and these variables.
pub fn command(argv: &[String], environment: Environment) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(variables) = environment {
        command.env_clear().envs(variables.iter().copied());
    }
    Some(command)
}

/// Runs a program; with a listener, its output is also told as it comes.
pub fn run(
    asked: Run,
    environment: Environment,
    children: &Children,
    control: &Control,
    listener: Option<Listener>,
) -> Result<Ran, String> {
    let mut command = command(&asked.argv, environment).ok_or("argv: a program was expected")?;
    let name = &asked.argv[0];
    if let Some(directory) = &asked.cwd {
        if !Path::new(directory).is_dir() {
            return Err(format!("{directory}: no such directory to run {name} in"));
        }
        command.current_dir(directory);
    }
    if asked.stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    let begin = Instant::now();
    let (mut child, pid) =
        children.spawn(&mut command).map_err(|error| format!("{name}: {}", reason(&error)))?;
    control.started(pid);
    let (closed, outputs_closed) = channel();
    let outputs = [
        Output::follow("stdout", child.stdout.take(), listener.clone(), closed.clone()),
        Output::follow("stderr", child.stderr.take(), listener, closed),
    ];
    if let Some((mut pipe, text)) = child.stdin.take().zip(asked.stdin) {
        // A program need not read what it is given.
        apart("stdin", move || drop(pipe.write_all(text.as_bytes())));
    }
    let ended = await_end(children, pid, begin, asked.timeout_ms);
    let wall_ns = begin.elapsed().as_nanos() as u64;
    children.forget(pid);
    let status =
        ended.ok_or_else(|| format!("timed out after {} ms: {name}", asked.timeout_ms.unwrap_or(0)))?;
    await_close(&outputs_closed, outputs.len());
    let [stdout, stderr] = outputs.map(|output| std::mem::take(&mut *lock(&output)));
    Ok(Ran {
        status,
        truncated: stdout.truncated || stderr.truncated,
        stdout: String::from_utf8_lossy(&stdout.kept).into_owned(),
        stderr: String::from_utf8_lossy(&stderr.kept).into_owned(),
        wall_ns,
    })
}

/// Returns the exit status; `None` if the time was over, and the group is killed then.
fn await_end(children: &Children, pid: Pid, begin: Instant, timeout_ms: Option<u64>) -> Option<i32> {
    let until = timeout_ms.and_then(|ms| begin.checked_add(Duration::from_millis(ms)));
    let ended = children.wait(pid, until);
    if ended.is_none() {
        let _ = children.signal(pid, Signal::KILL);
        children.wait(pid, Some(Instant::now() + DYING));
    }
    ended
}

/// Waits until so many outputs are closed, though not for ever.
fn await_close(closed: &Receiver<()>, outputs: usize) {
    let until = Instant::now() + LINGER;
    for _ in 0..outputs {
        if let Err(RecvTimeoutError::Timeout) =
            closed.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            return;
        }
    }
}

/// Does something beside; what cannot be done for want of a thread is left, and its pipe closed.
fn apart(name: &str, what: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().name(name.into()).spawn(what);
}

/// What has come of an output by now.
#[derive(Default)]
struct Output {
    kept: Vec<u8>,
    truncated: bool,
}

impl Output {
    fn follow(
        name: &'static str,
        pipe: Option<impl Read + Send + 'static>,
        listener: Option<Listener>,
        closed: Sender<()>,
    ) -> Arc<Mutex<Output>> {
        let output = Arc::new(Mutex::new(Output::default()));
        let into = output.clone();
        apart(name, move || {
            let mut decoder = Decoder::default();
            let tell = |text: String| {
                if let Some(listener) = listener.as_ref().filter(|_| !text.is_empty()) {
                    listener(name, text);
                }
            };
            let mut buffer = vec![0; 64 << 10];
            let Some(mut pipe) = pipe else { return };
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(some) => {
                        lock(&into).keep(&buffer[..some]);
                        if listener.is_some() {
                            tell(decoder.feed(&buffer[..some]));
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            tell(decoder.finish());
            let _ = closed.send(());
        });
        output
    }

    fn keep(&mut self, piece: &[u8]) {
        let some = piece.len().min(KEPT - self.kept.len());
        self.kept.extend_from_slice(&piece[..some]);
        self.truncated |= some < piece.len();
    }
}
