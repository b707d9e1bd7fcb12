//! The service behind the test server, and the desk from which a test steers it.

use std::{
    pin::Pin,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use ron_kernel::Clock;
use ron_transport::client::Drivers;
use ron_transport::{Body, BodyError, Conn, ConnInfo, Request, Response, Service};
use tokio::sync::Semaphore;
use types::{Reason, Refusal};

use super::{eventually, pattern, relay, relay::Tunnels};

/// What a test sees of the service, and how it holds requests up.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

struct Inner {
    begun: AtomicUsize,
    dropped: AtomicUsize,
    gate: Semaphore,
    tunnels: Tunnels,
    drivers: Drivers,
    clock: Clock,
    /// How much of its own time the service gives itself where it is timed, in milliseconds.
    time: AtomicU64,
    /// The paths of the requests that are put down, in their order.
    order: Mutex<Vec<String>>,
    /// Where a request that blocks its core and who ends it meet.
    blocked: Barrier,
}

impl Desk {
    pub(crate) fn new(drivers: Drivers, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            begun: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            tunnels: Tunnels::default(),
            drivers,
            clock,
            time: AtomicU64::new(0),
            order: Mutex::default(),
            blocked: Barrier::new(2),
        }))
    }

    pub(crate) fn service(&self) -> TestService {
        TestService(self.clone())
    }

    /// How much of its own time the service gives itself where it is timed.
    pub(crate) fn set_time(&self, time: Duration) {
        self.0.time.store(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The tunnels that the service made.
    pub(crate) fn tunnels(&self) -> &Tunnels {
        &self.0.tunnels
    }

    /// Requests that reached the service.
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::SeqCst)
    }

    /// Requests that were given up while the service held them.
    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }

    /// Waits until that many requests have reached the service.
    pub(crate) async fn has_begun(&self, requests: usize) {
        eventually("requests reach the service", || self.begun() >= requests).await;
    }

    /// Lets that many held requests go on.
    pub(crate) fn let_go(&self, requests: usize) {
        self.0.gate.add_permits(requests);
    }

    /// Ends the request that blocks its core.
    pub(crate) fn unblock_core(&self) {
        self.0.blocked.wait();
    }

    /// The requests under `/order/`, in the order in which they began, without that.
    pub(crate) fn order(&self) -> Vec<String> {
        self.0.order.lock().unwrap().clone()
    }

    async fn wait_at_gate(&self) {
        let mut given_up = GivenUp(Some(&self.0.dropped));
        self.0.gate.acquire().await.unwrap().forget();
        given_up.0 = None;
    }
}

struct GivenUp<'a>(Option<&'a AtomicUsize>);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Answers by path; see [`TestService::call`].
pub(crate) struct TestService(Desk);

impl Service for TestService {
    /// How many requests the connection has made.
    type PerConn = AtomicUsize;

    async fn call(&self, conn: &Arc<Conn<AtomicUsize>>, request: Request) -> Result<Response, Refusal> {
        self.0.0.begun.fetch_add(1, Ordering::SeqCst);
        let on_this_connection = conn.memo().fetch_add(1, Ordering::SeqCst) + 1;
        let path = request.uri().path().to_owned();
        let number = |prefix: &str| path.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
        if let Some(len) = number("/whole/") {
            return Ok(Response::new(Bytes::from(pattern(len)).into()));
        }
        if let Some(len) = number("/stream/") {
            return Ok(Response::new(Body::streaming(Chunks::new(pattern(len)))));
        }
        if let Some(port) = path.strip_prefix("/relay/").and_then(|port| port.parse().ok()) {
            return relay::over_http1(port, request, &self.0.0.tunnels).await;
        }
        if let Some(port) = path.strip_prefix("/relay-h2/").and_then(|port| port.parse().ok()) {
            return relay::over_http2(port, request, &self.0.0.drivers).await;
        }
        if let Some(name) = path.strip_prefix("/order/") {
            self.0.0.order.lock().unwrap().push(name.to_owned());
            return Ok(Response::new("in order".into()));
        }
        match path.as_str() {
            "/block-core" => {
                self.0.0.blocked.wait();
                Ok(Response::new("unblocked".into()))
            }
            "/echo" => Ok(Response::new(request.into_body())),
            "/length" | "/any-time" => {
                let mut body = request.into_body();
                if path == "/any-time" {
                    body.allow_any_time();
                }
                let body = body.collect().await;
                let body = body.map_err(|error| error.refusal())?;
                Ok(Response::new(body.to_bytes().len().to_string().into()))
            }
            "/trailers" => {
                let headers = request.headers().len();
                let body = request.into_body().collect().await.map_err(|error| error.refusal())?;
                let names = body.trailers().into_iter().flat_map(http::HeaderMap::keys);
                let mut names: Vec<_> = names.map(|name| name.as_str().to_owned()).collect();
                names.sort_unstable();
                Ok(Response::new(format!("{headers} {}", names.join(" ")).into()))
            }
            "/timed" | "/timed-first-frame" => self.timed(request, path == "/timed").await,
            "/held" => {
                self.0.wait_at_gate().await;
                Ok(Response::new("held".into()))
            }
            "/first-frame-then-held" => {
                let mut body = request.into_body();
                let _ = body.frame().await;
                // Asks for more and changes its mind.
                let _ = tokio::time::timeout(Duration::from_millis(20), body.frame()).await;
                drop(body);
                self.0.wait_at_gate().await;
                Ok(Response::new("held".into()))
            }
            "/busy" => {
                Err(Refusal::new(Reason::Busy, "512 are waiting").retry_after(Duration::from_millis(1500)))
            }
            "/too-large" => Err(Refusal::new(Reason::BodyCap, "at most 10 bytes")),
            "/count" => Ok(Response::new(on_this_connection.to_string().into())),
            "/who" => Ok(Response::new(who(conn).into())),
            "/empty" => Ok(Response::new(Body::empty())),
            _ => Ok(Response::new("hello".into())),
        }
    }
}

impl TestService {
    /// Reads the body, all of it or its first frame, and waits at the gate, within the time that the desk has set.
    async fn timed(&self, mut request: Request, all: bool) -> Result<Response, Refusal> {
        let watch = request.body_mut().watch_upload();
        let time = Duration::from_millis(self.0.0.time.load(Ordering::SeqCst));
        let work = async {
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(frame) = body.frame().await {
                length += frame.ok()?.into_data().map_or(0, |data| data.len());
                if !all {
                    break;
                }
            }
            self.0.wait_at_gate().await;
            Some(Response::new(length.to_string().into()))
        };
        let work = std::pin::pin!(work);
        let answer = match watch {
            Some(watch) => watch.within(self.0.0.clock, time, work).await,
            None => Some(work.await),
        };
        answer.flatten().ok_or_else(|| Reason::DownstreamTimeout.into())
    }
}

fn who(conn: &ConnInfo) -> String {
    let tls = conn.tls.as_ref();
    format!("{} {}", conn.peer, tls.map_or("clear", |tls| tls.server_name.as_deref().unwrap_or("nameless")))
}

/// A body of unknown length, in chunks.
struct Chunks(Bytes);

impl Chunks {
    fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.0.len().min(30_000);
        Poll::Ready(Some(Ok(http_body::Frame::data(self.0.split_to(len)))))
    }
}
