//! How a node ended, as a report and as a process exit code.

use std::{fmt, time::Duration};

/// The process exit codes, documented in `docs/operations.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// The node drained cleanly.
    Clean = 0,
    /// Could not start, or a task that the node cannot do without was given up.
    Failed = 1,
    /// The configuration is wrong; nothing was opened.
    BadConfig = 2,
    /// The drain deadline passed; what was still running was aborted and named.
    Aborted = 3,
    /// A runtime or a blocking call did not let go; the process ended around it.
    Stuck = 4,
    /// A second signal asked to end at once.
    Forced = 5,
}

/// The outcome of a node's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process exit code.
    pub code: ExitCode,
    /// The reason why the node stopped.
    pub cause: String,
    /// Tasks that had to be aborted, as `service/name` or `service/kind × count`.
    pub aborted: Vec<String>,
    /// Runtimes and blocking calls that could not be ended.
    pub stuck: Vec<String>,
    /// From the first sign of shutdown to the end.
    pub took: Duration,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped in {} ms: {}", self.took.as_millis(), self.cause)?;
        if !self.aborted.is_empty() {
            write!(f, "; aborted: {}", self.aborted.join(", "))?;
        }
        if !self.stuck.is_empty() {
            write!(f, "; stuck: {}", self.stuck.join(", "))?;
        }
        Ok(())
    }
}
