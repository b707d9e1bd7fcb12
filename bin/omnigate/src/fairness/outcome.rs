//! What became of a flow's requests.

use std::{io, time::Duration};

use types::Moment;

use super::stalls::Stalls;
use crate::rig::Answer;

/// What became of a flow's requests.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// When those were due that were answered 200, and how long they took.
    timed: Vec<(Moment, Duration)>,
    /// How long those took that were answered 200, sorted; without those that could not be timed.
    pub(super) served: Vec<Duration>,
    /// How many were answered 200 and could not be timed, because who timed them stood still.
    pub(super) untimed: u64,
    /// How long those took that were answered 429 or 503, sorted; from when they were sent, because it is the answer's
    /// speed that counts here, and not how late a busy client was.
    pub(super) refused: Vec<Duration>,
    /// How many answers of 200 came while it was counted, whenever the requests were due.
    pub(super) served_in_time: u64,
    /// Anything else, broken connections among them.
    pub(super) failed: u64,
    /// Clients that came back for the first time when they were told to.
    pub(super) returned: u64,
    /// Those of them that were served then.
    pub(super) welcome: u64,
}

impl Outcome {
    /// Counts an answer that came now to a request that was due and was sent then.
    pub(super) fn record(&mut self, due: Moment, sent: Moment, now: Moment, answer: &io::Result<Answer>) {
        match answer.as_ref().map(|answer| answer.status) {
            Ok(200) => self.timed.push((due, now.since(due))),
            Ok(429 | 503) => self.refused.push(now.since(sent)),
            _ => self.failed += 1,
        }
    }

    /// Leaves out what was timed while the thread that timed it stood still, and sorts the rest.
    pub(super) fn settled(mut self, stalls: &Stalls) -> Self {
        let (untimed, timed): (Vec<_>, Vec<_>) =
            self.timed.drain(..).partition(|(due, took)| stalls.touch(*due, *took));
        self.untimed = untimed.len() as u64;
        self.served = timed.into_iter().map(|(_, took)| took).collect();
        self.served.sort_unstable();
        self.refused.sort_unstable();
        self
    }

    /// The share of all answered requests that were served.
    pub(super) fn success(&self) -> f64 {
        let served = self.served.len() as u64 + self.untimed;
        share(served, served + self.refused.len() as u64 + self.failed)
    }

    /// The share of those served that could not be timed.
    pub(super) fn untimed_share(&self) -> f64 {
        share(self.untimed, self.untimed + self.served.len() as u64)
    }
}

/// How much `part` is of `whole`.
#[expect(clippy::cast_precision_loss, reason = "counts of one run")]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / (whole as f64).max(1.0)
}

/// The value that `percent` of the sorted ones do not exceed.
pub(super) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::ORIGIN;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_millis(101));
        assert_eq!(percentile(&sorted, 99), Duration::from_millis(199));
        assert_eq!(percentile(&sorted, 100), Duration::from_millis(200));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn answers_are_counted_as_served_refused_or_failed() {
        let mut outcome = Outcome::default();
        for status in [200, 200, 429, 503, 502] {
            outcome.record(NOW, NOW, NOW, &Ok(Answer { status, retry_after: None }));
        }
        outcome.record(NOW, NOW, NOW, &Err(io::ErrorKind::ConnectionReset.into()));
        let outcome = outcome.settled(&Stalls::default());
        assert_eq!((outcome.served.len(), outcome.refused.len(), outcome.failed), (2, 2, 2));
        assert!((outcome.success() - 1.0 / 3.0).abs() < 1e-9);
    }
}
