//! What can be wrong with a cell.

use thiserror::Error;

use crate::bio::Op;

/// Why a cell cannot be simulated: each message is one line that says where, what, and what was expected.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SimError {
    /// An unknown kernel.
    #[error("kernel: {0:?} is no kernel version; expected one from 2.6 on, such as \"4.19\"")]
    Kernel(String),
    /// A stack that cannot be built.
    #[error("stack: {0}")]
    Stack(String),
    /// A job that cannot run.
    #[error("job {name}: {why}")]
    Job {
        /// The job's name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A target has failed an I/O of the load, and no layer above it could help.
    #[error("an I/O failed: {op:?} of {sectors} sectors at sector {sector}")]
    Io {
        /// What was asked.
        op: Op,
        /// Where, on the stack.
        sector: u64,
        /// How much.
        sectors: u32,
    },
    /// A bug: nothing happens any more although jobs wait.
    #[error("the simulation is stuck: jobs wait for what never comes; please report the experiment")]
    Stuck,
    /// A replay that cannot run.
    #[error("replay: {0}")]
    Replay(String),
}
