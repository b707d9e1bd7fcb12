//! The failures of one server: the last one is kept for operators, and few of many are written to the log.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use types::Moment;

use crate::lock::lock;

/// How long the same cause is not written again.
const SAME_AGAIN: Duration = Duration::from_secs(10);
/// How long nothing is written after a line, whatever the cause.
const ANY_AGAIN: Duration = Duration::from_secs(1);
/// The most bytes of a cause that are kept. Servers have a part in the wording.
const MAX_CAUSE: usize = 300;

/// The failures of one server, or of anything else that is asked.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    last: Option<LastFailure>,
    /// The cause that was last written, and when.
    written: Option<(Arc<str>, Moment)>,
    /// Number of failures since the last log line.
    unwritten: u64,
}

/// The failure that was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// Why it failed, without control characters.
    pub cause: Arc<str>,
    /// Time of the failure.
    pub at: Moment,
    /// Failures so far, of whatever cause.
    pub count: u64,
}

impl FailureLog {
    /// Keeps a failure as the last one. If a line should be written to the log, returns how many failures were not written
    /// since the line before: a cause is written at once, again after ten seconds, and no more than one line a second.
    #[must_use]
    pub fn note(&self, cause: &str, now: Moment) -> Option<u64> {
        let mut seen = lock(&self.0);
        let cause = seen.keep(cause, now);
        let is_due = seen.written.as_ref().is_none_or(|(written, at)| {
            now.since(*at) >= if *written == cause { SAME_AGAIN } else { ANY_AGAIN }
        });
        if !is_due {
            seen.unwritten += 1;
            return None;
        }
        seen.written = Some((cause, now));
        Some(std::mem::take(&mut seen.unwritten))
    }

    /// Keeps a failure as the last one, of which no line is written.
    pub fn keep(&self, cause: &str, now: Moment) {
        lock(&self.0).keep(cause, now);
    }

    /// The last failure; `None` if there was none.
    #[must_use]
    pub fn last(&self) -> Option<LastFailure> {
        lock(&self.0).last.clone()
    }
}

impl Seen {
    fn keep(&mut self, cause: &str, now: Moment) -> Arc<str> {
        let same = self.last.as_ref().filter(|last| *last.cause == *cause);
        let cause = same.map_or_else(|| presentable(cause).into(), |last| Arc::clone(&last.cause));
        let count = self.last.as_ref().map_or(0, |last| last.count) + 1;
        self.last = Some(LastFailure { cause: Arc::clone(&cause), at: now, count });
        cause
    }
}

/// A cause that can be shown on a terminal, cut where it is too long.
fn presentable(cause: &str) -> String {
    let mut shown: String = cause.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() > MAX_CAUSE {
        let end = (0..=MAX_CAUSE).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_cause_is_written_at_once_and_again_after_a_while_with_the_number_of_those_between() {
        let log = FailureLog::default();
        assert_eq!(log.note("refused", at(0)), Some(0));
        assert_eq!((log.note("refused", at(1)), log.note("refused", at(9_999))), (None, None));
        assert_eq!(log.note("refused", at(10_000)), Some(2));
        assert_eq!(log.note("refused", at(10_001)), None);
    }

    #[test]
    fn another_cause_is_written_after_a_second_so_that_two_that_alternate_do_not_fill_the_log() {
        let log = FailureLog::default();
        assert_eq!(log.note("refused", at(0)), Some(0));
        assert_eq!(log.note("reset", at(999)), None);
        assert_eq!(log.note("reset", at(1_000)), Some(1));
        let lines = (1_001..11_001).filter(|ms| log.note(["a", "b"][(ms % 2) as usize], at(*ms)).is_some());
        assert_eq!(lines.count(), 9);
    }

    #[test]
    fn the_last_failure_is_kept_whether_it_was_written_or_not() {
        let log = FailureLog::default();
        assert_eq!(log.last(), None);
        let _ = log.note("refused", at(0));
        let _ = log.note("reset", at(5));
        let last = log.last().unwrap();
        assert_eq!((&*last.cause, last.at, last.count), ("reset", at(5), 2));
    }

    #[test]
    fn what_a_server_words_itself_is_cut_and_cannot_move_the_cursor() {
        let log = FailureLog::default();
        let _ = log.note(&format!("\x1b[2Ja\r\nb{}", "ü".repeat(400)), at(0));
        let cause = log.last().unwrap().cause;
        assert!(cause.starts_with(" [2Ja  bü") && cause.ends_with('…'), "{cause}");
        assert!(cause.len() <= MAX_CAUSE + '…'.len_utf8());
    }
}
