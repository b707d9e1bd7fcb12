//! Who on a connection waits for the client: request bodies for more bytes, responses for room.
//!
//! An HTTP/2 connection has many of each. What counts is whether the connection gets on: a client that serves its
//! streams one after the other over a slow line is slow, not stuck. Only a stream that others overtake for longer than
//! a connection may idle is given up as well.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use types::Moment;

/// The waits of one direction; at most one per stream, so their number is bounded by the stream limit.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    since: Vec<Moment>,
    progress: Moment,
}

impl Waits {
    /// Somebody waits from `now` on.
    pub(super) fn begin(&self, now: Moment) {
        self.waiting().since.push(now);
    }

    /// The client did its part, for somebody who waited since `since` if anybody did.
    pub(super) fn progress(&self, since: Option<Moment>, now: Moment) {
        let mut waiting = self.waiting();
        waiting.progress = now;
        waiting.remove(since);
    }

    /// Somebody who waited since `since` no longer does.
    pub(super) fn give_up(&self, since: Moment) {
        self.waiting().remove(Some(since));
    }

    /// When it will have taken too long, as things are: `allowed` without progress for anybody, or `longest` for one.
    pub(super) fn until(&self, allowed: Duration, longest: Duration) -> Option<Moment> {
        let waiting = self.waiting();
        let oldest = *waiting.since.iter().min()?;
        let stuck = oldest.max(waiting.progress).after(allowed);
        Some(stuck.min(oldest.after(longest.max(allowed))))
    }

    /// Each statement leaves the list whole, so a poisoned lock is still sound.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn remove(&mut self, since: Option<Moment>) {
        // Equal moments are interchangeable.
        if let Some(at) = since.and_then(|since| self.since.iter().position(|m| *m == since)) {
            self.since.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(60);

    fn at(secs: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(secs))
    }

    #[test]
    fn nobody_waits_for_ever_if_nobody_waits() {
        let waits = Waits::default();
        assert_eq!(waits.until(ALLOWED, LONGEST), None);
        waits.begin(at(1));
        waits.give_up(at(1));
        assert_eq!(waits.until(ALLOWED, LONGEST), None);
    }

    #[test]
    fn the_oldest_wait_counts_when_another_one_ends() {
        let waits = Waits::default();
        waits.begin(at(1));
        waits.begin(at(4));
        waits.give_up(at(4));
        assert_eq!(waits.until(ALLOWED, LONGEST), Some(at(6)));
    }

    #[test]
    fn progress_of_one_gives_the_others_time_but_not_for_ever() {
        let waits = Waits::default();
        waits.begin(at(1));
        for second in 2..70 {
            waits.begin(at(second));
            waits.progress(Some(at(second)), at(second + 1));
            let until = at((second + 6).min(61));
            assert_eq!(waits.until(ALLOWED, LONGEST), Some(until), "second {second}");
        }
    }
}
