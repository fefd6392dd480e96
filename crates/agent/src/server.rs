//! Receives requests and runs them in parallel.

use crate::call::{self, Call};
use crate::children::Children;
use crate::control::{HostStream, RequestControl};
use crate::failure::{self, lock};
use crate::run::{self, Environment, Listener};
use crate::{files, frame};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The largest number of running requests.
const MOST: usize = 64;
/// The version of the protocol; the host refuses others.
const PROTOCOL: u32 = 1;

/// The kind of a running request, if others can control it.
#[derive(Clone, Copy, PartialEq)]
enum RequestKind {
    Run,
    Sample,
    Other,
}

type RunningRequests = Arc<Mutex<HashMap<u64, (RequestKind, Arc<RequestControl>)>>>;

/// What a request's thread needs.
struct Request {
    id: u64,
    host: Arc<HostStream>,
    control: Arc<RequestControl>,
    running: RunningRequests,
    children: Children,
    environment: Environment,
}

/// Sends the greeting, then serves requests until the host closes the stream. Fails if its frames cannot be read.
pub fn serve(
    mut from: File, to: File, children: &Children, environment: Environment, notes: &[String],
) -> Result<(), String> {
    let host = Arc::new(HostStream::new(to));
    let running = RunningRequests::default();
    host.send(&hello_message(notes));
    loop {
        let content = match frame::read(&mut from) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(()),
            Err(lost) => {
                host.send(&json!({"id": null, "error": lost}));
                return Err(lost);
            }
        };
        let (id, call) = call::parse(&content);
        let refuse = |error: String| host.send(&json!({"id": id, "error": error}));
        let (id, call) = match (id, call) {
            (Some(id), Ok(call)) => (id, call),
            (_, call) => {
                refuse(call.err().unwrap_or_default());
                continue;
            }
        };
        match call {
            // Answered in this thread, to show that it is alive.
            Call::Ping {} => host.send(&json!({"id": id, "ok": {}})),
            call => {
                let control = Arc::new(RequestControl::default());
                {
                    let mut running = lock(&running);
                    if running.len() >= MOST {
                        refuse(format!("{MOST} requests are running: wait until one ends"));
                        continue;
                    }
                    if running.contains_key(&id) {
                        refuse(format!("request {id} is already running"));
                        continue;
                    }
                    running.insert(id, (kind_of(&call), control.clone()));
                }
                let request = Request {
                    id,
                    host: host.clone(),
                    control,
                    running: running.clone(),
                    children: children.clone(),
                    environment,
                };
                let begun = thread::Builder::new().name(format!("request {id}")).spawn(move || request.answer(call));
                if let Err(error) = begun {
                    lock(&running).remove(&id);
                    refuse(format!("cannot start a thread: {}", failure::reason(&error)));
                }
            }
        }
    }
}

fn hello_message(notes: &[String]) -> Value {
    let system = rustix::system::uname();
    json!({"hello": {
        "protocol": PROTOCOL,
        "agent": env!("CARGO_PKG_VERSION"),
        "kernel": system.release().to_string_lossy(),
        "machine": system.machine().to_string_lossy(),
        "notes": notes,
    }})
}

fn kind_of(call: &Call) -> RequestKind {
    match call {
        Call::Run(_) => RequestKind::Run,
        Call::Sample { .. } => RequestKind::Sample,
        _ => RequestKind::Other,
    }
}

impl Request {
    fn answer(self, call: Call) {
        let result = self.carry_out(call);
        self.control.change(|state| state.ended = true);
        // Before the reply, so that the host can then use the number again.
        lock(&self.running).remove(&self.id);
        match result {
            Ok(reply) => self.host.send(&json!({"id": self.id, "ok": reply})),
            Err(error) => {
                self.host.send(&json!({"id": self.id, "error": error.replace(char::is_control, " ")}));
            }
        }
    }

    fn send_event(&self, event: Value) {
        self.host.send(&json!({"id": self.id, "event": event}));
    }

    fn carry_out(&self, call: Call) -> Result<Value, String> {
        match call {
            Call::Ping {} => Ok(json!({})),
            Call::Run(request) => {
                let listener = request.stream.then(|| self.listener());
                Ok(json!(run::run(request, self.environment, &self.children, &self.control, listener)?))
            }
            Call::Signal { target, signal } => self.signal(target, signal),
            Call::Read { paths } => Ok(json!({"files": files::read_files(&paths)})),
            Call::Write { path, text } => files::write_file(&path, &text).map(|()| json!({})),
            Call::Sample { interval_ms, paths } => {
                let interval = Duration::from_millis(interval_ms);
                let started = || self.send_event(json!({"started": true}));
                let samples = files::sample(interval, &paths, &self.control, started)?;
                let mut parts = files::split_into_frames(samples);
                let last = parts.pop();
                for part in parts {
                    self.send_event(json!({"samples": part}));
                }
                Ok(json!({"samples": last.unwrap_or_default()}))
            }
            Call::Finish { target } => {
                self.find_control(target, RequestKind::Sample, "sample")?.change(|state| state.finish = true);
                Ok(json!({}))
            }
            Call::Export { paths, device } => files::export(&paths, &device).map(|export| json!(export)),
        }
    }

    fn listener(&self) -> Listener {
        let (id, host) = (self.id, self.host.clone());
        Arc::new(move |name, text| host.send(&json!({"id": id, "event": {name: text}})))
    }

    fn find_control(&self, target: u64, kind: RequestKind, name: &str) -> Result<Arc<RequestControl>, String> {
        let running = lock(&self.running);
        let request = running.get(&target).filter(|(other_kind, _)| *other_kind == kind);
        request.map(|(_, control)| control.clone()).ok_or_else(|| format!("no {name} {target} is running"))
    }

    fn signal(&self, target: u64, number: i32) -> Result<Value, String> {
        let signal = Signal::from_named_raw(number).ok_or_else(|| format!("{number}: not a signal number"))?;
        let control = self.find_control(target, RequestKind::Run, "run")?;
        let ended = || format!("no run {target} is running");
        let pid = control.wait_for_program().ok_or_else(ended)?;
        match self.children.signal(pid, signal) {
            Ok(true) => Ok(json!({})),
            Ok(false) => Err(ended()),
            Err(error) => Err(format!("run {target}: {}", failure::reason(&error))),
        }
    }
}
