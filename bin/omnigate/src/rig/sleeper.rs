//! The server behind the gateway: a fixed number of slots, each taken for about the same time. Its capacity is slots, not
//! CPU.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use ron_kernel::{Clock, Kernel, Scope};
use ron_transport::{
    Body, BodyError, Conn, Request, Response, Service,
    addr::ListenAddr,
    listen::{BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpLimits, HttpServer, ListenPlan, Roles},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{Moment, Reason, Refusal};

/// The answer to `/big`: more than the buffers on the way hold. One for all, because a server that allocates a megabyte for
/// each answer stalls, and with it everybody who is measured.
static BIG: LazyLock<Bytes> = LazyLock::new(|| vec![b'.'; 1 << 20].into());

/// How long requests to `/slow` take: beyond what counts as slow.
pub(crate) const SLOW: Duration = Duration::from_millis(300);

/// The sleeping server's handler.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    slots: Arc<Semaphore>,
    service_time: Duration,
    /// Requests so far.
    count: Arc<AtomicU64>,
    clock: Clock,
    /// Nanoseconds for which slots were taken, those of all slots together.
    busy: Arc<AtomicU64>,
}

/// A slot that is taken.
struct Taken {
    _permit: OwnedSemaphorePermit,
    since: Moment,
    clock: Clock,
    busy: Arc<AtomicU64>,
}

impl Sleeper {
    pub(crate) fn new(slots: usize, service_time: Duration, clock: Clock) -> Self {
        let slots = Arc::new(Semaphore::new(slots));
        Self { slots, service_time, count: Arc::default(), clock, busy: Arc::default() }
    }

    /// What the next request takes: a fifth more or less than the service time, evenly spread.
    ///
    /// Were all exactly alike, slots that were taken together would come free together for ever, and whoever comes just
    /// after would wait as long as a whole request takes. No server is like that.
    fn next_time(&self) -> Duration {
        // Multiples of the golden ratio fill an interval evenly, whichever of them one looks at.
        let turn = self.count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        let part = u32::try_from(turn).unwrap_or(0);
        self.service_time * 4 / 5 + self.service_time * 2 / 5 * part / (1 << 16)
    }

    /// For how long slots have been taken, those of all slots together.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let nanos = self.clock.now().as_nanos() - self.since.as_nanos();
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Service for Sleeper {
    type PerConn = ();

    async fn call(&self, _: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        if request.uri().path() == "/stream" {
            return Ok(Response::new(Body::streaming(Silent { begun: false })));
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let permit = slot.map_err(|_| Refusal::from(Reason::Draining))?;
        let (clock, busy) = (self.clock, Arc::clone(&self.busy));
        let slot = Taken { _permit: permit, since: clock.now(), clock, busy };
        let is_slow = request.uri().path() == "/slow";
        tokio::time::sleep(if is_slow { SLOW } else { self.next_time() }).await;
        let body = if request.uri().path() == "/big" { Body::from(BIG.clone()) } else { Body::from("ok\n") };
        Ok(Response::new(body.holding(slot)))
    }
}

/// The body of a stream in which nothing happens: a few bytes, then nothing.
struct Silent {
    begun: bool,
}

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if std::mem::replace(&mut self.begun, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"begun\n")))))
    }
}

/// Starts the sleeping server on a port of its own.
pub(crate) fn start_sleeper(kernel: &Kernel, scope: &Scope, sleeper: &Sleeper) -> Result<SocketAddr, String> {
    let addr = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    let limits = HttpLimits {
        max_conns: 16_384,
        max_conns_per_client: 16_384,
        write_timeout: Duration::from_secs(60),
        ..HttpLimits::default()
    };
    kernel.block_on(async {
        let listener = Listener::bind(&addr, BindOptions::default()).map_err(|error| error.to_string())?;
        let plan = ListenPlan {
            listener: Some(listener),
            tls: None,
            proxy_protocol: TrustedSources::default(),
            limits,
        };
        let server = HttpServer::start(scope, Roles::default(), plan, |_| sleeper.clone());
        match server.local_addr() {
            ListenAddr::Tcp(addr) => Ok(addr),
            other => Err(format!("the server listens on {other}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_the_service_time_on_average_and_no_two_in_a_row_the_same() {
        let mean = Duration::from_millis(10);
        let sleeper = Sleeper::new(1, mean, Clock::start());
        let times: Vec<Duration> = (0..1000).map(|_| sleeper.next_time()).collect();
        let sum: Duration = times.iter().sum();
        assert!((sum / 1000).abs_diff(mean) < mean / 100, "{sum:?}");
        assert!(times.iter().all(|time| (mean * 4 / 5..mean * 6 / 5).contains(time)));
        assert!(times.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > mean / 10));
    }
}
