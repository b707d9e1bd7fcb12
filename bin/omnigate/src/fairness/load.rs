//! Open-loop load: requests are due at fixed times, whether or not earlier ones were answered, and are timed from when
//! they were due.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Clock, Scope};
use types::{Deadline, Moment};

use super::{
    LOAD, WARM_UP,
    client::{LoadConn, Pace},
};

/// One source of load: who sends what, how often, over how many connections.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// What it is called in the report.
    pub(super) name: String,
    /// The last byte of the loopback address it comes from: 127.0.0.x.
    pub(super) host: u8,
    pub(super) path: &'static str,
    /// Header lines, each ended by CRLF.
    pub(super) headers: String,
    /// Requests a second.
    pub(super) rate: f64,
    /// Connections; so many requests can be unanswered at once.
    pub(super) conns: usize,
    pub(super) pace: Pace,
}

/// What became of a flow's requests.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How long those took that were answered 200, sorted.
    pub(super) latencies: Vec<Duration>,
    /// Answered 429 or 503.
    pub(super) refused: u64,
    /// Anything else, broken connections among them.
    pub(super) failed: u64,
}

impl Outcome {
    /// The latency that `percent` of the served requests did not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let at = (self.latencies.len() * percent / 100).min(last);
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// How many were served.
    pub(super) fn served(&self) -> usize {
        self.latencies.len()
    }

    /// The share of all answered requests that were served.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    pub(super) fn success(&self) -> f64 {
        let served = self.served() as f64;
        served / (served + (self.refused + self.failed) as f64).max(1.0)
    }
}

/// A flow in motion.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    flow: Flow,
    to: SocketAddr,
    clock: Clock,
    start: Moment,
    /// Requests due before this are not counted: the flow is warming up.
    counted_from: Moment,
    end: Moment,
    next: AtomicU64,
    outcome: Mutex<Outcome>,
}

impl Running {
    /// Starts a flow towards `to`: uncounted while it warms up, then for `length`.
    pub(super) fn start(scope: &Scope, flow: Flow, to: SocketAddr, length: Duration) -> Self {
        let (clock, children) = (scope.clock(), scope.children(&LOAD));
        let start = clock.now();
        let counted_from = start.after(WARM_UP);
        let shared = Arc::new(Shared {
            end: counted_from.after(length),
            counted_from,
            start,
            clock,
            to,
            next: AtomicU64::new(0),
            outcome: Mutex::default(),
            flow,
        });
        for core in scope.planes().cores().iter().cycle().take(shared.flow.conns) {
            children.spawn_on(core, send_all(Arc::clone(&shared)));
        }
        Self { shared }
    }

    /// The flow's name and what became of it so far.
    pub(super) fn finish(self) -> (String, Outcome) {
        let mut outcome = std::mem::take(&mut *self.shared.outcome());
        outcome.latencies.sort_unstable();
        (self.shared.flow.name.clone(), outcome)
    }
}

impl Shared {
    /// When the next request is due; `None` once the flow is over.
    fn next_due(&self) -> Option<Moment> {
        #[expect(clippy::cast_precision_loss, reason = "requests of one run")]
        let index = self.next.fetch_add(1, Ordering::Relaxed) as f64;
        let due = self.start.after(Duration::from_secs_f64(index / self.flow.rate));
        (due < self.end).then_some(due)
    }

    fn record(&self, due: Moment, answer: &io::Result<u16>) {
        if due < self.counted_from {
            return;
        }
        let took = self.clock.now().since(due);
        let mut outcome = self.outcome();
        match answer {
            Ok(200) => outcome.latencies.push(took),
            Ok(429 | 503) => outcome.refused += 1,
            _ => outcome.failed += 1,
        }
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's part of a flow. A connection that breaks is opened again for the next request.
async fn send_all(shared: Arc<Shared>) {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, shared.flow.host));
    let request =
        format!("GET {} HTTP/1.1\r\nhost: fairness.test\r\n{}\r\n", shared.flow.path, shared.flow.headers);
    let mut conn = None;
    while let Some(due) = shared.next_due() {
        let _ = shared.clock.by(Deadline::at(due), std::future::pending::<()>()).await;
        let answer = match conn.take() {
            Some(open) => Ok(open),
            None => LoadConn::open(from, shared.to).await,
        };
        let answer = match answer {
            Ok(mut open) => {
                let status = open.exchange(request.as_bytes(), shared.flow.pace).await;
                conn = status.is_ok().then_some(open);
                status
            }
            Err(error) => Err(error),
        };
        shared.record(due, &answer);
    }
}
