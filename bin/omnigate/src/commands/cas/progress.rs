//! How far a long command has got: a bar on a terminal, a line per tenth elsewhere.

use std::io::IsTerminal;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Below this, a command is over before anybody reads about it.
const WORTH_TELLING: u64 = 64 << 20;

/// Bytes that are worked through, told on standard error.
#[derive(Debug)]
pub(in crate::commands) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    total: u64,
    told_tenths: u64,
}

impl Progress {
    /// Before the first byte. A total of 0 is one that is not known.
    pub(in crate::commands) fn new(what: &'static str, total: u64) -> Self {
        let bar = if std::io::stderr().is_terminal() { bar(total) } else { ProgressBar::hidden() };
        Self { bar, what, total, told_tenths: 0 }
    }

    /// So many bytes are done, of all.
    pub(in crate::commands) fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        let tenths = (done * 10).checked_div(self.total).unwrap_or(0);
        if self.bar.is_hidden() && self.total >= WORTH_TELLING && tenths > self.told_tenths {
            self.told_tenths = tenths;
            eprintln!("{} {} of {}", self.what, HumanBytes(done), HumanBytes(self.total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::no_length(), "{spinner} {bytes}, {bytes_per_sec}"),
        _ => (ProgressBar::new(total), "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
