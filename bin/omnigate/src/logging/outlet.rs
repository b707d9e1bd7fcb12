//! Standard error as the log's way out. Once a node runs, a thread of its own writes there, so that no core and no shutdown
//! waits for whoever should read it: a terminal that was stopped, or a log collector that hangs.

use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use ron_kernel::metrics::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written, in bytes; those beyond it are lost and counted.
const MAX_WAITING: usize = 1024 * 1024;
/// How long the end of the process waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The log's way to standard error. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Counts lines that were lost.
    metric: OnceLock<Counter>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a thread writes the lines; until then whoever has a line writes it.
    is_detached: bool,
    waiting: Vec<u8>,
    /// Whether the thread is writing lines that it has taken.
    is_writing: bool,
    /// Lines lost since the thread last took some.
    lost: u64,
}

impl Outlet {
    /// Has a thread write the lines from now on. It inherits the sandbox of its caller.
    ///
    /// # Errors
    /// The system's, if there can be no thread.
    #[expect(clippy::disallowed_methods, reason = "the log outlives the kernel, whose end it tells of")]
    pub(crate) fn detach(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.run())?;
        self.0.state().is_detached = true;
        Ok(())
    }

    /// Counts lost lines in `metric` from now on.
    pub(super) fn count_in(&self, metric: Counter) {
        // Only the first node of a process has the log for itself.
        let _ = self.0.metric.set(metric);
    }

    /// Waits until all lines are written, for half a second at most.
    pub(crate) fn finish(&self) {
        let has_lines = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.0.state(), LAST_LINES, has_lines);
        drop(waited);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, line: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if !state.is_detached {
            drop(state);
            return io::stderr().write_all(line);
        }
        if state.waiting.len() + line.len() > MAX_WAITING {
            state.lost += 1;
            drop(state);
            if let Some(metric) = self.metric.get() {
                metric.inc();
            }
            return Ok(());
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Writes lines for as long as the process lives.
    fn run(&self) {
        loop {
            let (lines, lost) = self.next_lines();
            // There is nobody to tell if they cannot be written.
            let _ = io::stderr().write_all(&lines);
            self.state().is_writing = false;
            self.changed.notify_all();
            if lost > 0 {
                tracing::warn!(lost, "lines of the log were lost: standard error was not read");
            }
        }
    }

    /// Waits for lines and takes them, with the number of those that were lost behind them.
    fn next_lines(&self) -> (Vec<u8>, u64) {
        let waited = self.changed.wait_while(self.state(), |state| state.waiting.is_empty());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        (std::mem::take(&mut state.waiting), std::mem::take(&mut state.lost))
    }
}

/// One line of the log on its way out.
pub(crate) struct Line<'a>(&'a Shared);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.take(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Outlet {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_as_long_as_there_is_room_and_those_beyond_it_are_counted() {
        let (shared, metric) = (Shared::default(), Counter::default());
        shared.metric.set(metric.clone()).unwrap();
        shared.state().is_detached = true;
        let line = vec![b'x'; MAX_WAITING / 4];
        (0..6).for_each(|_| shared.take(&line).unwrap());
        assert_eq!(metric.get(), 2);
        let (lines, lost) = shared.next_lines();
        assert_eq!((lines.len(), lost), (MAX_WAITING, 2));
        shared.take(b"next\n").unwrap();
        assert_eq!(shared.next_lines(), (b"next\n".to_vec(), 0));
    }

    #[test]
    fn the_end_does_not_wait_for_lines_that_are_not_written() {
        let outlet = Outlet::default();
        outlet.0.state().is_detached = true;
        outlet.0.take(b"last\n").unwrap();
        outlet.finish();
        assert!(!outlet.0.state().waiting.is_empty());
    }
}
