//! The requests of the host.

use serde::Deserialize;
use serde_json::Value;

/// A request's `call` and its arguments.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "lowercase", deny_unknown_fields)]
pub enum Call {
    Ping {},                                         // Answer at once, to show that the agent is alive
    Run(Run),                                        // Run a program to its end
    Signal { target: u64, signal: i32 },             // Signal the process group of a run, by the id of its request
    Read { paths: Vec<String> },                     // Read files
    Write { path: String, text: String },            // Write a file
    Sample { interval_ms: u64, paths: Vec<String> }, // Read files at an interval, until `Finish`
    Finish { target: u64 },                          // End a sample, by the id of its request
    Export { paths: Vec<String>, device: String },   // Copy files to a block device
}

/// A program to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub argv: Vec<String>,       // The program, found on PATH, and its arguments
    pub stdin: Option<String>,   // Its standard input; empty if this is missing
    pub cwd: Option<String>,     // Its working directory
    pub timeout_ms: Option<u64>, // The time after which it is killed, in milliseconds
    /// Whether output is sent while the program runs.
    #[serde(default)]
    pub stream: bool,
}

/// Returns a request's id, if it has one, and its call or an error.
pub fn parse(content: &[u8]) -> (Option<u64>, Result<Call, String>) {
    let mut request = match serde_json::from_slice(content) {
        Ok(Value::Object(request)) => request,
        Ok(_) => return (None, Err("expected a request: a JSON object".into())),
        Err(error) => return (None, Err(format!("expected a request in JSON: {error}"))),
    };
    let Some(id) = request.remove("id").and_then(|id| id.as_u64()) else {
        return (None, Err("expected a request with an id, a whole number".into()));
    };
    // serde's message lists the known calls and the expected arguments.
    (Some(id), serde_json::from_value(Value::Object(request)).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests;
