//! The signals that end a node, watched from before anybody can know that it is there.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, from when they were first watched: one that comes before the node is conducted is not lost, and
/// does not end the process without a drain.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    int: Signal,
    /// One that was seen, and that nobody has acted upon.
    seen: Option<&'static str>,
}

impl Signals {
    /// Begins to watch. Only a runtime can.
    pub(crate) fn watch() -> io::Result<Self> {
        let (term, int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { term, int, seen: None })
    }

    /// What `work` comes to; `None` if a signal comes first. The work is dropped then, and whoever conducts the node
    /// finds the signal and drains what the work has opened.
    ///
    /// Cancel safe if the work is.
    pub async fn unless_told_to_stop<F: Future>(&mut self, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = work => Some(done),
            name = self.next() => {
                self.seen = Some(name);
                None
            }
        }
    }

    /// The next signal, by its name.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        if let Some(name) = self.seen.take() {
            return name;
        }
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
