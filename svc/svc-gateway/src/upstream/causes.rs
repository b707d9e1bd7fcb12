//! Why tries fail, in words for operators. Clients are told less: neither addresses nor names.

use std::{error::Error, time::Duration};

use http::StatusCode;
use ron_kernel::failures::FailureLog;
use ron_transport::{Response, dial::DialError};
use types::{Moment, Reason, Refusal};

use super::{
    Late, Upstream,
    exchange::NotReached,
    retry::{self, Trip},
    server::{Server, Verdict},
};

/// Why a server was not reached.
pub(super) fn not_reached(error: &NotReached, within: Duration) -> String {
    match error {
        _ if error.is_local() => format!("this node could not open a connection to it: {}", broken(error)),
        NotReached::Dial(DialError::Refused { .. }) => "it refused the connection".to_owned(),
        NotReached::Dial(DialError::Resolve { source, .. }) => format!("its name does not resolve: {source}"),
        NotReached::Dial(DialError::Proxy { source, .. }) => format!("a proxy did not reach it: {source}"),
        NotReached::Dial(DialError::Io { source, .. }) => format!("it could not be reached: {source}"),
        NotReached::Dial(DialError::Timeout { .. }) | NotReached::Late => {
            format!("it took longer than {within:?} to connect")
        }
        NotReached::Connect(error) => error.to_string(),
    }
}

/// Why a server that was reached gave no answer: the error and what caused it, each said once.
pub(super) fn broken(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let cause = cause.to_string();
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

impl Upstream {
    /// The refusal of a request for which no connection can be opened, because the node has no descriptors or ports left.
    pub(super) fn without_descriptors(&self) -> Refusal {
        let what = format!("this node can open no more connections to upstream `{}`", self.group.name);
        Refusal::new(Reason::Busy, what).retry_after(retry::WHEN_FULL)
    }

    /// Why a try that was late was so.
    pub(super) fn late(&self, late: Late) -> String {
        let timeout = self.group.config.timeout;
        match late {
            Late::Server => format!("it did not answer within {timeout}, the upstream's `timeout`"),
            Late::Request => {
                "it had not answered when the deadline of the request passed, which is sooner than the upstream's `timeout`"
                    .to_owned()
            }
            Late::Connection => {
                let most = self.group.config.max_conns;
                format!("no connection came free in time: all {most} of `max_conns` are in use")
            }
        }
    }

    /// Has the failure of a try kept and written, once it is known what the server is to blame for.
    pub(super) fn tell_failure(&self, server: &Server, answer: Option<&Response>, trip: &mut Trip<'_>) {
        let answered = |status: StatusCode| format!("it answered {status}");
        match answer.map(Response::status).map(|status| (status, Verdict::of_status(status))) {
            Some((_, Verdict::Good)) => return,
            Some((status, Verdict::Bad)) => return server.did_badly(&answered(status), trip.now),
            Some((status, Verdict::Failed)) => server.failed(&answered(status), trip.now),
            None => {
                let cause = trip.cause.take();
                server.failed(cause.as_deref().unwrap_or("it broke off"), trip.now);
            }
        }
        trip.is_told = true;
    }

    /// Writes why a client gets 502 or 504, unless it was written with the failure of a server.
    pub(super) fn tell_unanswered(&self, refusal: &Refusal, trip: &mut Trip<'_>) {
        let is_told =
            trip.is_told || !matches!(refusal.reason, Reason::BadGateway | Reason::DownstreamTimeout);
        if is_told {
            return;
        }
        let mut cause = trip.cause.take().unwrap_or_else(|| refusal.detail.to_string());
        for (server, why) in self.group.last_failures() {
            cause.push_str(&format!("; {server}: {why}"));
        }
        write_unanswered(&self.group.unanswered, &self.group.name, &cause, trip.now);
    }
}

fn write_unanswered(log: &FailureLog, upstream: &str, cause: &str, now: Moment) {
    if let Some(unwritten) = log.note(cause, now) {
        tracing::warn!(upstream, cause, unwritten, "a request got no answer");
    }
}
