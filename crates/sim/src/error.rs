//! Errors of cells.

use thiserror::Error;

use crate::bio::Op;

/// Why a cell cannot be simulated. Each message is one line: where, what, and what was expected.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SimError {
    /// An unknown kernel.
    #[error("kernel: {0:?} is not a kernel version: expected 2.6 or later, such as \"4.19\"")]
    Kernel(String),
    /// A stack that cannot be built.
    #[error("stack: {0}")]
    Stack(String),
    /// A job that cannot run: its name, and what is wrong.
    #[error("job {0}: {1}")]
    Job(String, String),
    /// A target failed an I/O of the workload, and no layer above recovered it.
    #[error("an I/O of the workload failed: {op:?} of {sectors} sectors at sector {sector}")]
    Io {
        op: Op,       // The operation
        sector: u64,  // Where, on the stack
        sectors: u32, // How much
    },
    /// A bug: no event is left although jobs wait.
    #[error(
        "the simulation is stuck: jobs wait for an event that never comes. This is a bug: please report the experiment"
    )]
    Stuck,
    /// A replay that cannot run.
    #[error("replay: {0}")]
    Replay(String),
}
