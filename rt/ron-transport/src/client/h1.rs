//! The client side of HTTP/1.1: one connection, driven by whoever uses it.
//!
//! There is no task per connection. While a request is out, its future moves the bytes; while its response streams,
//! the response's body does; in between the connection sleeps in its pool. So a request crosses no task border on
//! its way to the server and back.

use std::{
    error::Error as _,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;

use super::{
    Home, SendFault,
    counted::{Counted, Moves},
    stall::StallWatch,
    wire::Wire,
};
use crate::{Body, BodyError, Request, Response, stream::Stream, tls::TlsStream, tunnel::Tunnel};

/// A connection to a server, ready for one request at a time. Boxed, because it moves between its pool, its request
/// and its response, and is large.
#[derive(Debug)]
pub struct HttpConn(Box<Inner>);

#[derive(Debug)]
struct Inner {
    sender: http1::SendRequest<Body>,
    /// Gone once it has ended: only then does the sender know, and give back what it could not send.
    connection: Option<Connection>,
    moves: Moves,
    /// Whether it ended because the server said something nobody had asked for.
    garbled: bool,
    /// How long a response's body may make its reader wait.
    stall_limit: Option<Duration>,
}

type Connection = http1::Connection<TokioIo<Counted>, Body>;

impl HttpConn {
    /// Speaks HTTP/1.1 on a connected stream.
    ///
    /// Cancel safe: dropping the future closes the stream.
    ///
    /// # Errors
    /// If the library refuses the stream; it sends nothing yet.
    pub async fn open(stream: Stream) -> Result<Self, SendFault> {
        Self::over(Wire::Plain(stream)).await
    }

    /// The same over TLS.
    ///
    /// Cancel safe: dropping the future closes the stream.
    ///
    /// # Errors
    /// If the library refuses the stream; it sends nothing yet.
    pub async fn open_tls(stream: TlsStream<Stream>) -> Result<Self, SendFault> {
        Self::over(Wire::Tls(Box::new(stream))).await
    }

    async fn over(wire: Wire) -> Result<Self, SendFault> {
        let moves = Moves::default();
        let handshake = http1::Builder::new().handshake(TokioIo::new(Counted::new(wire, moves.clone())));
        let (sender, connection) = handshake.await.map_err(SendFault::broken)?;
        let connection = Some(connection);
        Ok(Self(Box::new(Inner { sender, connection, moves, garbled: false, stall_limit: None })))
    }

    /// Ends a response's body with an error if a reader waits so long for more of it; without this, readers wait for
    /// ever. Time in which nobody reads does not count, nor that in which the server still takes the request. Holds for
    /// all later requests.
    pub fn set_stall(&mut self, limit: Duration) {
        self.0.stall_limit = Some(limit);
    }

    /// Whether the server has not closed the connection while it slept.
    pub fn is_alive(&mut self) -> bool {
        self.0.drive(&mut Context::from_waker(Waker::noop()));
        self.is_ready()
    }

    /// Whether the server has said something that nobody asked for, behind the end of a response. What has not arrived yet
    /// is not waited for.
    pub fn went_on(&mut self) -> bool {
        !self.is_alive() && self.0.garbled
    }

    /// Whether it can take a request, going by what was known when it was last in use. If the server has closed it
    /// meanwhile, sending will give the request back.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.connection.is_some() && self.0.sender.is_ready()
    }

    /// Sends a request and waits for the response's head. The connection goes to `home` once the body has ended.
    ///
    /// A 101 response ends HTTP on this connection: its body is the [`Tunnel`] to what follows. Whether the server was
    /// asked for that is the caller's to know.
    ///
    /// Cancel safe: dropping the future, or the response's body, closes the connection.
    ///
    /// # Errors
    /// [`SendFault`].
    pub async fn send(mut self, request: Request, home: Arc<dyn Home>) -> Result<Response, SendFault> {
        let mut response = pin!(self.0.sender.try_send_request(request));
        let mut left = None;
        let outcome = poll_fn(|cx| {
            // The connection first: it has the request to write, and on waking the response to read. Its own end is
            // told through the response.
            if let Some(ended) = self.0.drive(cx) {
                left = Some(ended.into_parts());
            }
            response.as_mut().poll(cx)
        })
        .await;
        match outcome {
            Ok(response) => Ok(match left.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS) {
                Some(parts) => {
                    let tunnel = Tunnel::new(parts.io.into_inner().into_inner(), parts.read_buf);
                    response.map(|_| Body::tunnel(tunnel))
                }
                None => response.map(|incoming| self.into_body(incoming, home)),
            }),
            Err(mut fault) => Err(match fault.take_message() {
                Some(request) => SendFault::Unsent(Box::new(request)),
                None => SendFault::broken(fault.into_error()),
            }),
        }
    }

    fn into_body(self, incoming: Incoming, home: Arc<dyn Home>) -> Body {
        let stall = self.0.stall_limit.map(StallWatch::new);
        let mut body = ResponseBody { incoming, conn: Some(self), home, stall };
        if body.incoming.is_end_stream() {
            body.go_home();
            return Body::empty();
        }
        Body::streaming(body)
    }
}

impl Inner {
    /// Moves what can be moved; gives the connection up once it has ended.
    fn drive(&mut self, cx: &mut Context<'_>) -> Option<Connection> {
        let connection = self.connection.as_mut()?;
        let Poll::Ready(ended) = Pin::new(connection).poll(cx) else { return None };
        // What the system reports has a cause; what the library makes of bytes that nobody asked for has none.
        self.garbled = ended.is_err_and(|error| error.source().is_none() && !error.is_incomplete_message());
        self.connection.take()
    }
}

/// A response's body, which drives its connection.
struct ResponseBody {
    incoming: Incoming,
    conn: Option<HttpConn>,
    home: Arc<dyn Home>,
    stall: Option<StallWatch>,
}

impl ResponseBody {
    /// Watches the outcome of a poll: a wait that lasts too long becomes an error, and closes the connection.
    fn watch<T>(
        &mut self,
        polled: Poll<Option<Result<T, BodyError>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, BodyError>>> {
        let Some(stall) = &mut self.stall else {
            return polled;
        };
        if polled.is_ready() {
            stall.progressed();
            return polled;
        }
        let writes = self.conn.as_ref().map_or(0, |conn| conn.0.moves.writes());
        stall.poll_wait(writes, cx).map(|stalled| {
            self.conn = None;
            self.home.stalled();
            Some(Err(BodyError::new(stalled)))
        })
    }

    /// Sends the connection home if it can be used again.
    fn go_home(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        if conn.is_ready() || conn.is_alive() {
            self.home.put_back(conn);
        } else if conn.0.garbled {
            self.home.went_on();
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(conn) = &mut this.conn {
            conn.0.drive(cx);
        }
        let frame = Pin::new(&mut this.incoming).poll_frame(cx);
        match frame {
            Poll::Ready(None) => this.go_home(),
            Poll::Ready(Some(Err(_))) => this.home.broke_off(),
            _ => {}
        }
        this.watch(frame.map_err(BodyError::new), cx)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // A reader that knows the length stops at the last byte and never asks for the end.
        if self.incoming.is_end_stream() {
            self.go_home();
        }
    }
}
