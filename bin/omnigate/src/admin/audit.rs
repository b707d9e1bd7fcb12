//! The audit trail of the admin listener: who had the node do what, and who was refused.

use std::time::Duration;

use http::request::Parts;
use ron_kernel::{audit, lock::Ranked};
use ron_transport::ConnInfo;
use types::{Moment, Refusal};

use super::{access::Operator, locks::AUDIT_REFUSALS};

/// Refusals that are written per [`WINDOW`]. More are counted, so that guessing tokens cannot fill the disk.
const REFUSALS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);
/// The longest path that is written, in bytes.
const PATH_MAX: usize = 256;

/// Who asks: the name of its token and its role, or that it showed none; and its address.
pub(super) fn actor(operator: Option<&Operator>, conn: &ConnInfo) -> String {
    let address = conn.client().map_or_else(|| "a Unix socket".to_owned(), |addr| addr.ip().to_string());
    match operator {
        Some(Operator { token: Some(name), role }) => format!("{name} ({}) from {address}", role.as_str()),
        Some(Operator { token: None, .. }) => format!("{address}, without a token"),
        None => format!("{address}, not known"),
    }
}

/// What an answer says to the trail besides its status: what was changed, without secrets.
#[derive(Clone, Debug)]
pub(super) struct Detail(pub(super) String);

/// Adds a request that was meant to change something to the trail, with the status of its answer and what that says.
pub(super) fn done(request: &Parts, actor: &str, status: u16, detail: Option<&Detail>) {
    let mut action = action(request);
    if let Some(Detail(detail)) = detail {
        action.push_str(": ");
        action.extend(detail.chars().filter(|c| !c.is_control()).take(PATH_MAX));
    }
    let outcome = if status < 400 { "done" } else { "failed" };
    tracing::info!(target: audit::TARGET, action, actor, outcome, status);
}

/// What is asked for: method and path, without the query.
fn action(request: &Parts) -> String {
    let path: String = request.uri.path().chars().take(PATH_MAX).collect();
    format!("{} {path}", request.method)
}

/// The refusals of the listener, so many at a time.
#[derive(Debug)]
pub(super) struct Trail(Ranked<Refusals>);

impl Default for Trail {
    fn default() -> Self {
        Self(Ranked::new(&AUDIT_REFUSALS, Refusals::default()))
    }
}

/// The refusals of one window.
#[derive(Debug, Default)]
struct Refusals {
    /// When the window began; `None` before the first.
    since: Option<Moment>,
    written: u32,
    /// Those that were not written.
    suppressed: u64,
}

impl Refusals {
    /// Whether another refusal is written, and how many were not since the last that was.
    fn admit(&mut self, now: Moment) -> Option<u64> {
        if self.since.is_none_or(|since| now.since(since) >= WINDOW) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= REFUSALS {
            self.suppressed += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl Trail {
    /// Adds a request that was refused because of who sent it.
    pub(super) fn refused(&self, now: Moment, request: &Parts, actor: &str, refusal: &Refusal) {
        let admitted = self.0.lock().admit(now);
        let Some(suppressed) = admitted else { return };
        let (action, reason) = (action(request), refusal.reason.as_str());
        tracing::info!(
            target: audit::TARGET,
            action,
            actor,
            outcome = "refused",
            reason,
            suppressed_before = suppressed
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(secs))
    }

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_written() {
        let mut refusals = Refusals::default();
        let written = (0..1000).filter(|_| refusals.admit(at(1)).is_some()).count();
        assert_eq!(written, REFUSALS as usize);
        assert_eq!(refusals.admit(at(10)), None, "the same window");
        assert_eq!(
            refusals.admit(at(11)),
            Some(1000 - u64::from(REFUSALS) + 1),
            "what was not written is told"
        );
        assert_eq!(refusals.admit(at(11)), Some(0));
    }
}
