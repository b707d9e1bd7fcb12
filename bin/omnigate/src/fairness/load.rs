//! Load: who sends what and when, and what came of it. Requests are timed from when they were due.

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
use tokio::net::TcpStream;
use types::{Deadline, Moment};

use super::{
    LOAD, WARM_UP,
    attack::{self, Attack},
    obedient,
    outcome::Outcome,
    stalls::Stalls,
};
use crate::rig::{self, Answer, LoadConn, Pace};

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
    pub(super) manner: Manner,
    pub(super) lane: Lane,
}

/// The threads that send a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// One that sends nothing else: what is measured must not wait for the crowd before it has even left.
    Own,
    /// Those of the crowd.
    Crowd,
}

/// How the senders of a flow take a refusal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    /// Requests are due at fixed times, whether or not earlier ones were answered; whichever connection is free sends.
    Heedless,
    /// Every connection is a client that comes back exactly when it is told to, and lets go what it would have sent
    /// meanwhile. Together they send `rate` for so long, then what the flow says.
    Flood { rate: f64, lasts: Duration },
    /// Every connection is a client with one request. All send at once, and come back exactly when they are told to.
    Burst,
    /// Every connection does this, over and over; what comes of it is not counted.
    Hostile(Attack),
}

/// After a flood, how long things may take to be normal again.
const RECOVERY: Duration = Duration::from_secs(1);
/// After a burst, by when everybody was told to be back.
const BURST_LASTS: Duration = Duration::from_secs(12);

impl Flow {
    /// How long it runs before it counts.
    pub(super) fn warm_up(&self) -> Duration {
        match self.manner {
            Manner::Heedless | Manner::Burst | Manner::Hostile(_) => WARM_UP,
            Manner::Flood { lasts, .. } => lasts + RECOVERY,
        }
    }

    /// How long it runs if it is measured for `length`.
    pub(super) fn lasts(&self, length: Duration) -> Duration {
        let counted = if matches!(self.manner, Manner::Burst) { BURST_LASTS } else { length };
        self.warm_up() + counted
    }
}

/// A flow in motion.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Sending>,
}

/// What all connections of a flow share.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) flow: Flow,
    pub(super) clock: Clock,
    pub(super) start: Moment,
    /// Requests due before this are not counted: the flow is warming up.
    pub(super) counted_from: Moment,
    pub(super) end: Moment,
    to: SocketAddr,
    next: AtomicU64,
    outcome: Mutex<Outcome>,
}

impl Running {
    /// Starts a flow towards `to`: uncounted while it warms up, then for `length`.
    pub(super) fn start(scope: &Scope, flow: Flow, to: SocketAddr, length: Duration) -> Self {
        let (clock, children) = (scope.clock(), scope.children(&LOAD));
        let start = clock.now();
        let shared = Arc::new(Sending {
            end: start.after(flow.lasts(length)),
            counted_from: start.after(flow.warm_up()),
            start,
            clock,
            to,
            next: AtomicU64::new(0),
            outcome: Mutex::default(),
            flow,
        });
        let (own, crowd) = scope.planes().cores().split_at(1);
        let cores = if shared.flow.lane == Lane::Own { own } else { crowd };
        for (client, core) in cores.iter().cycle().take(shared.flow.conns).enumerate() {
            let sending = Arc::clone(&shared);
            match shared.flow.manner {
                Manner::Heedless => children.spawn_on(core, send_what_is_due(sending)),
                Manner::Hostile(attack) => children.spawn_on(core, attack::attack(sending, attack)),
                _ => children.spawn_on(core, obedient::send_as_told(sending, client)),
            }
        }
        Self { shared }
    }

    /// The flow's name and what became of it so far, if the thread of [`Lane::Own`] stood still then.
    pub(super) fn finish(self, stalls: &Stalls) -> (String, Outcome) {
        let outcome = std::mem::take(&mut *self.shared.outcome());
        let none = Stalls::default();
        let stalls = if self.shared.flow.lane == Lane::Own { stalls } else { &none };
        (self.shared.flow.name.clone(), outcome.settled(stalls))
    }
}

impl Sending {
    /// The bytes of a request.
    pub(super) fn request(&self) -> String {
        let Flow { path, headers, .. } = &self.flow;
        format!("GET {path} HTTP/1.1\r\nhost: fairness.test\r\n{headers}\r\n")
    }

    /// Opens a connection.
    ///
    /// Cancel safe: dropping the future closes the socket.
    pub(super) async fn connect(&self) -> io::Result<LoadConn> {
        LoadConn::open(IpAddr::V4(Ipv4Addr::new(127, 0, 0, self.flow.host)), self.to).await
    }

    /// Opens a socket, for those who send what is no request.
    ///
    /// Cancel safe: dropping the future closes the socket.
    pub(super) async fn connect_plain(&self) -> io::Result<TcpStream> {
        rig::connect(IpAddr::V4(Ipv4Addr::new(127, 0, 0, self.flow.host)), self.to).await
    }

    /// Sends a request when it is due and counts what comes of it. A connection that breaks is opened again for the next.
    ///
    /// Not cancel safe: the request may have been sent.
    pub(super) async fn send(
        &self,
        conn: &mut Option<LoadConn>,
        request: &str,
        due: Moment,
    ) -> io::Result<Answer> {
        let _ = self.clock.by(Deadline::at(due), std::future::pending::<()>()).await;
        let sent = self.clock.now();
        let answer = self.exchange(conn, request).await;
        let now = self.clock.now();
        let in_time = (self.counted_from..self.end).contains(&now);
        if due >= self.counted_from || in_time {
            let mut outcome = self.outcome();
            if due >= self.counted_from {
                outcome.record(due, sent, now, &answer);
            }
            if in_time && answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                outcome.served_in_time += 1;
            }
        }
        answer
    }

    async fn exchange(&self, conn: &mut Option<LoadConn>, request: &str) -> io::Result<Answer> {
        let mut open = match conn.take() {
            Some(open) => open,
            None => self.connect().await?,
        };
        let answer = open.exchange(request.as_bytes(), self.flow.pace).await?;
        *conn = Some(open);
        Ok(answer)
    }

    pub(super) fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next request is due; `None` once the flow is over. What is late by then is not sent: it would be in the
    /// way of what is measured next.
    fn next_due(&self) -> Option<Moment> {
        if self.clock.now() >= self.end {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "requests of one run")]
        let index = self.next.fetch_add(1, Ordering::Relaxed) as f64;
        let due = self.start.after(Duration::from_secs_f64(index / self.flow.rate));
        (due < self.end).then_some(due)
    }
}

/// One connection's part of a flow that heeds nothing.
async fn send_what_is_due(sending: Arc<Sending>) {
    let (mut conn, request) = (None, sending.request());
    while let Some(due) = sending.next_due() {
        let _ = sending.send(&mut conn, &request, due).await;
    }
}
