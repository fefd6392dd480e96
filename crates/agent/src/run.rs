//! Runs programs to their end.

use crate::call::Run;
use crate::children::Children;
use crate::control::RequestControl;
use crate::failure::{lock, reason};
use rustix::process::{Pid, Signal};
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The largest number of bytes kept of each output.
const KEPT: usize = 4 << 20;
/// How long an output can stay open after its program: a daemon that it started can hold it.
const LINGER: Duration = Duration::from_millis(500);
/// How long a killed program can take to end; one that waits for a device might never end.
const DYING: Duration = Duration::from_secs(5);

/// The result of a program.
#[derive(Serialize)]
pub struct RunResult {
    status: i32,
    stdout: String,
    stderr: String,
    truncated: bool,
    wall_ns: u64,
}

/// The environment of programs; `None`: that of the agent.
pub type Environment = Option<&'static [(&'static str, &'static str)]>;

/// Gets the text of `stdout` and `stderr`.
pub type Listener = Arc<dyn Fn(&str, String) + Send + Sync>;

/// Returns a command without input, with these variables.
pub fn command(argv: &[String], environment: Environment) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(variables) = environment {
        command.env_clear().envs(variables.iter().copied());
    }
    Some(command)
}

/// Runs a program; a listener gets its output while it runs.
pub fn run(
    request: Run, environment: Environment, children: &Children, control: &RequestControl, listener: Option<Listener>,
) -> Result<RunResult, String> {
    let mut command = command(&request.argv, environment).ok_or("argv: expected a program")?;
    let name = &request.argv[0];
    if let Some(directory) = &request.cwd {
        if !Path::new(directory).is_dir() {
            return Err(format!("{directory}: does not exist: expected a directory to run {name} in"));
        }
        command.current_dir(directory);
    }
    if request.stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    let begin = Instant::now();
    let (mut child, pid) = children.spawn(&mut command).map_err(|error| format!("{name}: {}", reason(&error)))?;
    control.change(|state| state.started = Some(pid));
    let (closed, outputs_closed) = channel();
    let outputs = [
        CapturedOutput::follow("stdout", child.stdout.take(), listener.clone(), closed.clone()),
        CapturedOutput::follow("stderr", child.stderr.take(), listener, closed),
    ];
    if let Some((mut pipe, text)) = child.stdin.take().zip(request.stdin) {
        // The program can end without reading its input.
        spawn_thread("stdin", move || drop(pipe.write_all(text.as_bytes())));
    }
    let ended = await_end(children, pid, begin, request.timeout_ms);
    let wall_ns = begin.elapsed().as_nanos() as u64;
    children.forget(pid);
    let status = ended.ok_or_else(|| format!("{name}: timed out after {} ms", request.timeout_ms.unwrap_or(0)))?;
    await_close(&outputs_closed, outputs.len());
    let [stdout, stderr] = outputs.map(|output| std::mem::take(&mut *lock(&output)));
    Ok(RunResult {
        status,
        truncated: stdout.truncated || stderr.truncated,
        stdout: String::from_utf8_lossy(&stdout.kept).into_owned(),
        stderr: String::from_utf8_lossy(&stderr.kept).into_owned(),
        wall_ns,
    })
}

/// Returns the exit status; at the timeout kills the process group and returns `None`.
fn await_end(children: &Children, pid: Pid, begin: Instant, timeout_ms: Option<u64>) -> Option<i32> {
    let until = timeout_ms.and_then(|ms| begin.checked_add(Duration::from_millis(ms)));
    let ended = children.wait(pid, until);
    if ended.is_none() {
        let _ = children.signal(pid, Signal::KILL);
        children.wait(pid, Some(Instant::now() + DYING));
    }
    ended
}

/// Waits a short time until all outputs are closed.
fn await_close(closed: &Receiver<()>, outputs: usize) {
    let until = Instant::now() + LINGER;
    for _ in 0..outputs {
        if let Err(RecvTimeoutError::Timeout) = closed.recv_timeout(until.saturating_duration_since(Instant::now())) {
            return;
        }
    }
}

/// Runs work in a thread. If no thread can be started, the work is dropped, which closes its pipe.
fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().name(name.into()).spawn(work);
}

/// The output so far.
#[derive(Default)]
struct CapturedOutput {
    kept: Vec<u8>,
    truncated: bool,
}

impl CapturedOutput {
    fn follow(
        name: &'static str, pipe: Option<impl Read + Send + 'static>, listener: Option<Listener>, closed: Sender<()>,
    ) -> Arc<Mutex<CapturedOutput>> {
        let output = Arc::new(Mutex::new(CapturedOutput::default()));
        let into = output.clone();
        spawn_thread(name, move || {
            let mut decoder = Decoder::default();
            let notify = |text: String| {
                if let Some(listener) = listener.as_ref().filter(|_| !text.is_empty()) {
                    listener(name, text);
                }
            };
            let mut buffer = vec![0; 64 << 10];
            let Some(mut pipe) = pipe else { return };
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => {
                        lock(&into).keep(&buffer[..count]);
                        if listener.is_some() {
                            notify(decoder.feed(&buffer[..count]));
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            notify(decoder.finish());
            let _ = closed.send(());
        });
        output
    }

    fn keep(&mut self, piece: &[u8]) {
        let count = piece.len().min(KEPT - self.kept.len());
        self.kept.extend_from_slice(&piece[..count]);
        self.truncated |= count < piece.len();
    }
}

/// Decodes pieces of bytes; a character can be split between two pieces.
#[derive(Default)]
struct Decoder(Vec<u8>);

impl Decoder {
    /// Returns the text that is complete so far.
    fn feed(&mut self, piece: &[u8]) -> String {
        self.0.extend_from_slice(piece);
        let mut whole = 0;
        loop {
            match std::str::from_utf8(&self.0[whole..]) {
                Ok(_) => whole = self.0.len(),
                Err(error) => {
                    whole += error.valid_up_to();
                    if let Some(wrong) = error.error_len() {
                        whole += wrong;
                        continue;
                    }
                }
            }
            break;
        }
        let text = String::from_utf8_lossy(&self.0[..whole]).into_owned();
        self.0.drain(..whole);
        text
    }

    /// Returns the remaining text at the end.
    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

#[cfg(test)]
mod tests;
