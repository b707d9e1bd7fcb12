//! The client side of HTTP/2: one connection, many requests at once, one task that moves its bytes.
//!
//! A request writes its head into the connection from its own task and feeds its body from there; so does the
//! response's body while it streams. The connection's task only moves frames between the socket and the streams.

mod driver;
mod message;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use ::h2::client::{Builder, ResponseFuture, SendRequest};
use bytes::Bytes;
use http::request::Parts;
use ron_kernel::{
    Scope, Shutdown,
    supervisor::Children,
    topology::{ChildSpec, Plane, Stage},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Home, RequestWatch, SendFault, Unanswered,
    counted::{Counted, Moves},
    length,
    upload::Upload,
};
use crate::{
    Body, Request, Response, field_values, frame_guard::Guarded, stream::Stream, tls::TlsStream, wire::Wire,
};
use message::Download;

/// The task of one HTTP/2 connection to a server; part of the topology of every service that dials over HTTP/2.
pub const H2_UPSTREAM: ChildSpec = ChildSpec {
    kind: "h2_upstream",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "the HTTP/2 connections that pools may open",
    doc: "sends and receives the frames of one HTTP/2 connection to a server; ends when the pool drops it, or with the drain",
};

/// Starts the tasks of HTTP/2 connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Drivers {
    children: Children,
    shutdown: Shutdown,
}

impl Drivers {
    /// Tasks of the service that `scope` belongs to; each runs where its connection was opened.
    ///
    /// # Panics
    /// If the scope's topology does not declare [`H2_UPSTREAM`].
    #[must_use]
    pub fn new(scope: &Scope) -> Self {
        Self { children: scope.children(&H2_UPSTREAM), shutdown: scope.shutdown().clone() }
    }
}

/// What an HTTP/2 connection to a server may cost. The worst case of memory is `streams` × `stream_window`, if every
/// reader stalls: the connection's window is as large as that, so that stalled readers stop nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H2Options {
    /// Requests at once; fewer if the server says so.
    pub streams: u32,
    /// What a server may send on one stream before its reader takes it.
    pub stream_window: u32,
    /// Bytes in a response's head.
    pub max_head_bytes: u32,
    /// After so long without a byte while requests are out, the server is asked whether it is there. Some gRPC servers
    /// close connections that ask more often than every five minutes.
    pub ping_every: Duration,
    /// How long it may take to say so; then the connection closes.
    pub ping_timeout: Duration,
    /// Ends a response's body with an error if a reader waits so long for more of it.
    pub stall_limit: Option<Duration>,
}

impl Default for H2Options {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: 128 * 1024,
            max_head_bytes: 64 * 1024,
            ping_every: Duration::from_secs(310),
            ping_timeout: Duration::from_secs(10),
            stall_limit: None,
        }
    }
}

/// The largest window there is.
const MAX_WINDOW: u32 = (1 << 31) - 1;
/// What the library may hold of one request's body.
const SEND_BUFFER: usize = 64 * 1024;

/// An HTTP/2 connection to a server. Clones share it; it closes when the last one and all responses are gone.
#[derive(Clone, Debug)]
pub struct H2Conn {
    sender: SendRequest<Bytes>,
    slots: Arc<Semaphore>,
    streams: u32,
    https: bool,
    stall_limit: Option<Duration>,
    moves: Moves,
    /// Whether it takes no more requests.
    is_retired: Arc<AtomicBool>,
}

/// How far a connection had come when this was made, see [`H2Conn::progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(u64);

impl H2Conn {
    /// Speaks HTTP/2 on a connected stream, without TLS, to a server that is known to understand it.
    ///
    /// Cancel safe: dropping the future closes the stream.
    ///
    /// # Errors
    /// If the stream breaks off at once.
    pub async fn open(stream: Stream, options: &H2Options, drivers: &Drivers) -> Result<Self, SendFault> {
        Self::over(Wire::Plain(stream), options, drivers).await
    }

    /// The same over TLS.
    ///
    /// Cancel safe: dropping the future closes the stream.
    ///
    /// # Errors
    /// If the stream breaks off at once.
    pub async fn open_tls(
        stream: TlsStream<Stream>,
        options: &H2Options,
        drivers: &Drivers,
    ) -> Result<Self, SendFault> {
        Self::over(Wire::Tls(Box::new(stream)), options, drivers).await
    }

    async fn over(wire: Wire, options: &H2Options, drivers: &Drivers) -> Result<Self, SendFault> {
        let (https, moves) = (matches!(wire, Wire::Tls(_)), Moves::default());
        let handshake = builder(options).handshake(Guarded::of_server(Counted::new(wire, moves.clone())));
        let (sender, connection) = handshake.await.map_err(SendFault::broken)?;
        let slots = Arc::new(Semaphore::new(options.streams as usize));
        let conn = Self {
            sender,
            slots: Arc::clone(&slots),
            streams: options.streams,
            https,
            stall_limit: options.stall_limit,
            moves: moves.clone(),
            is_retired: Arc::default(),
        };
        let work = driver::run(connection, moves, slots, options.clone(), drivers.shutdown.clone());
        drivers.children.spawn(work);
        Ok(conn)
    }

    /// Whether the server still takes requests.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        if self.is_retired.load(Ordering::Relaxed) {
            return false;
        }
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        !matches!(self.sender.clone().poll_ready(&mut cx), Poll::Ready(Err(_)))
    }

    /// What the server has sent so far, to be given to [`retire_if_silent`](Self::retire_if_silent).
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress(self.moves.reads())
    }

    /// Lets the connection take no more requests if the server has sent nothing since, on any stream. Its other requests go
    /// on. For a request that got no answer in time: the server may have gone without a word, and another connection may
    /// reach it.
    pub fn retire_if_silent(&self, since: Progress) {
        if self.progress() == since {
            self.is_retired.store(true, Ordering::Relaxed);
        }
    }

    /// Requests that are out.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        (self.streams as usize).saturating_sub(self.slots.available_permits())
    }

    /// Requests that may be out at once, by our limit and the server's.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        (self.streams as usize).min(self.sender.current_max_send_streams())
    }

    /// Whether another request would go out at once.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.most_in_flight()
    }

    /// Sends a request and waits for the response's head; if as many are out as may be, it waits for its turn. The
    /// request's body is sent while the head is awaited and while the response's body is read. A request in origin form
    /// takes its authority from `Host`. To `home` nothing is put back.
    ///
    /// Cancel safe: dropping the future, or the response's body, resets the stream.
    ///
    /// # Errors
    /// [`SendFault`]. A request that the server refused unprocessed, or that came after its GOAWAY, is
    /// [`SendFault::Unsent`], unless part of its body is gone.
    pub fn send(
        &self,
        request: Request,
        home: Arc<dyn Home>,
    ) -> impl Future<Output = Result<Response, SendFault>> + Send {
        self.send_for(request, home, None)
    }

    /// The same for a caller that may leave before the answer: if all of the request has been handed over by then, `watch`
    /// takes the stream over instead of its being reset.
    ///
    /// Cancel safe, as [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_for(
        &self,
        request: Request,
        home: Arc<dyn Home>,
        watch: Option<&mut (dyn RequestWatch + '_)>,
    ) -> Result<Response, SendFault> {
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
            return Err(SendFault::Unsent(Box::new(request)));
        };
        let mut sender = self.sender.clone();
        if poll_fn(|cx| sender.poll_ready(cx)).await.is_err() {
            return Err(SendFault::Unsent(Box::new(request)));
        }
        let (parts, body) = request.into_parts();
        let spare = Spare { parts: parts.clone(), body: body.try_clone() };
        let head = message::head(parts, self.https);
        match sender.send_request(head, http_body::Body::is_end_stream(&body)) {
            Ok((response, stream)) => {
                let reading = Reading { slot, stall_limit: self.stall_limit, home };
                let (upload, out) = (Some(Upload::new(body, stream)), Some((response, reading)));
                Exchange { out, upload, watch }.finish(spare).await
            }
            // Ended a moment ago; anything else is wrong with the request itself.
            Err(error) if error.is_go_away() || error.is_io() => {
                Err(SendFault::Unsent(Box::new(Request::from_parts(spare.parts, body))))
            }
            Err(error) => Err(SendFault::broken(error)),
        }
    }
}

/// What is needed to send a request once more.
struct Spare {
    parts: Parts,
    body: Option<Body>,
}

impl Spare {
    /// What an error means for the request, of whose body `untouched` is left if nothing was taken from it.
    fn fault(self, error: ::h2::Error, untouched: Option<Body>) -> SendFault {
        // Streams that a GOAWAY leaves out are ended with it; those it covers end with the connection, by another error.
        let unprocessed =
            error.is_remote() && (error.is_go_away() || error.reason() == Some(::h2::Reason::REFUSED_STREAM));
        match self.body.or(untouched) {
            Some(body) if unprocessed => SendFault::Unsent(Box::new(Request::from_parts(self.parts, body))),
            _ => SendFault::broken(error),
        }
    }
}

/// A request that is out, and whose caller waits for the head of the answer.
struct Exchange<'a, 'l> {
    /// Gone once the head is there.
    out: Option<(ResponseFuture, Reading)>,
    /// What is left of the request's body.
    upload: Option<Upload>,
    watch: Option<&'a mut (dyn RequestWatch + 'l)>,
}

/// What the body of an answer needs.
struct Reading {
    slot: OwnedSemaphorePermit,
    stall_limit: Option<Duration>,
    home: Arc<dyn Home>,
}

impl Exchange<'_, '_> {
    async fn finish(mut self, spare: Spare) -> Result<Response, SendFault> {
        let outcome = poll_fn(|cx| self.poll(cx)).await;
        let (out, upload) = (self.out.take(), self.upload.take());
        match (outcome, out) {
            (Ok(response), Some((_, reading))) => reading.response(response, upload),
            (Err(Lost::Response(error)), _) => {
                Err(spare.fault(error, upload.and_then(Upload::into_untouched)))
            }
            (Err(Lost::Upload(error)), _) => Err(SendFault::broken(error)),
            (Ok(_), None) => Err(SendFault::broken(::h2::Error::from(::h2::Reason::CANCEL))),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Lost>> {
        // The response first: once it is there, what is left of the upload goes on with its body.
        self.poll_interim(cx);
        if let Some((response, _)) = &mut self.out
            && let Poll::Ready(outcome) = Pin::new(response).poll(cx)
        {
            return Poll::Ready(outcome.map_err(Lost::Response));
        }
        match self.upload.as_mut().map(|upload| upload.poll(cx)) {
            Some(Poll::Ready(Err(error))) => return Poll::Ready(Err(Lost::Upload(error))),
            Some(Poll::Ready(Ok(()))) => self.upload = None,
            Some(Poll::Pending) | None => {}
        }
        Poll::Pending
    }
}

impl Exchange<'_, '_> {
    /// Tells of interim responses that have come. How many there may be is counted where frames are read.
    fn poll_interim(&mut self, cx: &mut Context<'_>) {
        let (Some((response, _)), Some(watch)) = (&mut self.out, &mut self.watch) else { return };
        // An error is told by the response itself.
        while let Poll::Ready(Some(Ok(interim))) = response.poll_informational(cx) {
            let (head, ()) = interim.into_parts();
            if !field_values::have_blanks(&head.headers) {
                watch.interim(&head);
            }
        }
    }
}

impl Drop for Exchange<'_, '_> {
    fn drop(&mut self) {
        if let (Some((response, reading)), None, Some(watch)) =
            (self.out.take(), &self.upload, &mut self.watch)
        {
            let answer = async move { reading.response(response.await.ok()?, None).ok() };
            watch.left(Unanswered::new(answer));
        }
    }
}

impl Reading {
    fn response(self, mut response: Answer, upload: Option<Upload>) -> Result<Response, SendFault> {
        if field_values::have_blanks(response.headers()) {
            return Err(SendFault::broken(message::BlanksAround));
        }
        let length = length::read_all(response.headers()).map_err(SendFault::broken)?;
        if let Some(length) = length {
            length::make_one(response.headers_mut(), length);
        }
        let Self { slot, stall_limit, home } = self;
        Ok(response.map(|stream| Download::body(stream, length, upload, stall_limit, home, slot)))
    }
}

/// An answer as the library gives it.
type Answer = http::Response<::h2::RecvStream>;

/// What went wrong with an exchange.
enum Lost {
    Response(::h2::Error),
    Upload(crate::BodyError),
}

fn builder(options: &H2Options) -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(options.stream_window.min(MAX_WINDOW))
        .initial_connection_window_size(
            options.stream_window.saturating_mul(options.streams.max(1)).min(MAX_WINDOW),
        )
        .max_header_list_size(options.max_head_bytes)
        .initial_max_send_streams(options.streams as usize)
        .max_send_buffer_size(SEND_BUFFER);
    builder
}
