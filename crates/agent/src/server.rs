//! Requests taken, and carried out side by side.

use crate::call::{self, Call};
use crate::children::Children;
use crate::exchange::{Control, Outlet};
use crate::run::{self, Environment, Listener};
use crate::sync::lock;
use crate::{export, failure, files, frame, sample};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How many requests may be under way at once.
const MOST: usize = 64;
/// What is spoken; the host refuses another number.
const PROTOCOL: u32 = 1;

/// Why serving ended.
pub enum End {
    /// The host closed the stream.
    Closed,
    /// The host asked for it.
    Asked,
    /// What the host sends makes no sense any more.
    Lost(String),
}

/// What kind of request is under way, as far as others may ask for it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Run,
    Sample,
    Other,
}

type UnderWay = Arc<Mutex<HashMap<u64, (Kind, Arc<Control>)>>>;

/// What a request's thread needs.
struct Request {
    id: u64,
    outlet: Arc<Outlet>,
    control: Arc<Control>,
    under_way: UnderWay,
    children: Children,
    environment: Environment,
}

/// Greets, then does what is asked until the stream ends.
pub fn serve(
    mut from: File,
    to: File,
    children: &Children,
    environment: Environment,
    notes: &[String],
) -> End {
    let outlet = Arc::new(Outlet::new(to));
    let under_way = UnderWay::default();
    outlet.send(&hello(notes));
    loop {
        let content = match frame::read(&mut from) {
            Ok(Some(content)) => content,
            Ok(None) => return End::Closed,
            Err(lost) => {
                outlet.send(&json!({"id": null, "error": lost.to_string()}));
                return End::Lost(lost.to_string());
            }
        };
        let (id, call) = call::parse(&content);
        let refuse = |error: String| outlet.send(&json!({"id": id, "error": error}));
        let (id, call) = match (id, call) {
            (Some(id), Ok(call)) => (id, call),
            (_, call) => {
                refuse(call.err().unwrap_or_default());
                continue;
            }
        };
        match call {
            // Answered here, so that it tells whether this thread is alive.
            Call::Ping {} => outlet.send(&json!({"id": id, "ok": {}})),
            Call::Poweroff {} => {
                outlet.send(&json!({"id": id, "ok": {}}));
                return End::Asked;
            }
            call => {
                let control = Arc::new(Control::default());
                {
                    let mut under_way = lock(&under_way);
                    if under_way.len() >= MOST {
                        refuse(format!("{MOST} requests are under way, and no more are taken"));
                        continue;
                    }
                    if under_way.contains_key(&id) {
                        refuse(format!("a request {id} is under way already"));
                        continue;
                    }
                    under_way.insert(id, (kind(&call), control.clone()));
                }
                let request = Request {
                    id,
                    outlet: outlet.clone(),
                    control,
                    under_way: under_way.clone(),
                    children: children.clone(),
                    environment,
                };
                let begun =
                    thread::Builder::new().name(format!("request {id}")).spawn(move || request.answer(call));
                if let Err(error) = begun {
                    lock(&under_way).remove(&id);
                    refuse(format!("no thread for it: {}", failure::reason(&error)));
                }
            }
        }
    }
}

fn hello(notes: &[String]) -> Value {
    let system = rustix::system::uname();
    json!({"hello": {
        "protocol": PROTOCOL,
        "agent": env!("CARGO_PKG_VERSION"),
        "kernel": system.release().to_string_lossy(),
        "machine": system.machine().to_string_lossy(),
        "notes": notes,
    }})
}

fn kind(call: &Call) -> Kind {
    match call {
        Call::Run(_) => Kind::Run,
        Call::Sample { .. } => Kind::Sample,
        _ => Kind::Other,
    }
}

impl Request {
    fn answer(self, call: Call) {
        let result = self.carry_out(call);
        self.control.over();
        // Before the reply, so that who has it may use the number again.
        lock(&self.under_way).remove(&self.id);
        match result {
            Ok(reply) => self.outlet.send(&json!({"id": self.id, "ok": reply})),
            Err(error) => {
                let line = error.replace(char::is_control, " ");
                self.outlet.send(&json!({"id": self.id, "error": line}));
            }
        }
    }

    fn event(&self, event: Value) {
        self.outlet.send(&json!({"id": self.id, "event": event}));
    }

    fn carry_out(&self, call: Call) -> Result<Value, String> {
        match call {
            Call::Ping {} | Call::Poweroff {} => Ok(json!({})),
            Call::Run(asked) => {
                let listener = asked.stream.then(|| self.listener());
                let ran = run::run(asked, self.environment, &self.children, &self.control, listener)?;
                Ok(json!(ran))
            }
            Call::Signal { target, signal } => self.signal(target, signal),
            Call::Read { paths } => Ok(json!({"files": files::read(&paths)})),
            Call::Write { path, text } => files::write(&path, &text).map(|()| json!({})),
            Call::Sample { interval_ms, paths } => {
                let interval = Duration::from_millis(interval_ms);
                let started = || self.event(json!({"started": true}));
                let samples = sample::sample(interval, &paths, &self.control, started)?;
                let mut parts = sample::parts(samples);
                let last = parts.pop();
                for part in parts {
                    self.event(json!({"samples": part}));
                }
                Ok(json!({"samples": last.unwrap_or_default()}))
            }
            Call::Finish { target } => {
                self.other(target, Kind::Sample, "sample")?.finish();
                Ok(json!({}))
            }
            Call::Export { paths, device } => export::export(&paths, &device).map(|export| json!(export)),
        }
    }

    fn listener(&self) -> Listener {
        let (id, outlet) = (self.id, self.outlet.clone());
        Arc::new(move |name, text| outlet.send(&json!({"id": id, "event": {name: text}})))
    }

    fn other(&self, target: u64, kind: Kind, name: &str) -> Result<Arc<Control>, String> {
        let under_way = lock(&self.under_way);
        let found = under_way.get(&target).filter(|(found, _)| *found == kind);
        found.map(|(_, control)| control.clone()).ok_or_else(|| format!("no {name} {target} is under way"))
    }

    fn signal(&self, target: u64, number: i32) -> Result<Value, String> {
        let signal = Signal::from_named_raw(number).ok_or_else(|| format!("signal: {number} is not one"))?;
        let control = self.other(target, Kind::Run, "run")?;
        let ended = || format!("no run {target} is under way");
        let pid = control.program().ok_or_else(ended)?;
        match self.children.signal(pid, signal) {
            Ok(true) => Ok(json!({})),
            Ok(false) => Err(ended()),
            Err(error) => Err(format!("run {target}: {}", failure::reason(&error))),
        }
    }
}
