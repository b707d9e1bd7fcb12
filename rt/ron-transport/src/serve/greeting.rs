//! The first bytes of a request, and which protocol they speak.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::{Pin, pin},
    task::{Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    time::{Instant, sleep, timeout},
};

use super::server::Shared;
use crate::caps::Parked;

/// What an HTTP/2 client says first.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most heads are shorter; a longer one takes a second read.
const USUAL_HEAD: usize = 4096;

/// How long a client that has not asked for anything yet is still heard once connections close: what it sent before
/// it could know may be in progress, or in the socket and not yet seen.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(250);
/// So long before what still runs is aborted, requests of HTTP/1 connections that have no answer yet are answered 503.
pub(super) const LAST_ANSWER: Duration = Duration::from_millis(200);
/// The same between requests, where the client knows that the connection may close under it, and has had its time for the
/// next one.
pub(super) const LAST_LOOK: Duration = Duration::from_millis(5);

/// What a wait for first bytes came to.
pub(super) enum Waited {
    Bytes(Bytes),
    Nothing(NoRequest),
}

/// The reason why no request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRequest {
    /// The client closed, or cannot be reached.
    Gone,
    /// It said nothing for too long.
    Late,
    /// The node closes its connections.
    Closing,
    /// Its place has gone to another client.
    Evicted,
}

/// Waits for the first bytes of a request, holding nothing but the socket and one timer. A connection that is not parked has
/// not asked for anything yet.
pub(super) fn wait<'a, IO, S>(
    server: &'a Shared<S>,
    io: &'a mut IO,
    patience: Duration,
    parked: Option<Parked<'a>>,
) -> impl Future<Output = Waited> + Send + 'a
where
    IO: AsyncRead + Unpin + Send,
    S: Send + Sync,
{
    let began = server.scope.clock().now();
    async move {
        let mut closing = pin!(server.shutdown().reached(server.roles.connection.stop));
        let mut timer = pin!(sleep(patience));
        let mut is_closing = false;
        let waited = loop {
            let evicted = async {
                match &parked {
                    Some(parked) => parked.evicted().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                read = first_bytes(io) => break match read {
                    Ok(bytes) if !bytes.is_empty() => Waited::Bytes(bytes),
                    _ => Waited::Nothing(NoRequest::Gone),
                },
                () = &mut closing, if !is_closing => {
                    is_closing = true;
                    let last_look = if parked.is_none() { LAST_WORDS } else { LAST_LOOK };
                    // A client that asks now is answered, and told that it was the last time.
                    let until = server.shutdown().idle_until(began);
                    let closes_in = until.since(server.scope.clock().now()).max(last_look);
                    let ends = timer.deadline().min(Instant::now() + closes_in);
                    timer.as_mut().reset(ends);
                }
                () = evicted => break Waited::Nothing(NoRequest::Evicted),
                () = &mut timer => break Waited::Nothing(match is_closing {
                    true => NoRequest::Closing,
                    false => NoRequest::Late,
                }),
            }
        };
        // Only one that goes on needs a place, should its own be gone.
        if !matches!(waited, Waited::Bytes(_)) {
            parked.into_iter().for_each(Parked::give_up);
        }
        waited
    }
}

/// Reads what is there, usually a whole head. The buffer is on the stack of the poll, not in the future: thousands of
/// connections wait here.
///
/// Cancel safe: nothing is lost unless it has been returned.
async fn first_bytes<IO: AsyncRead + Unpin>(io: &mut IO) -> io::Result<Bytes> {
    poll_fn(|cx| {
        let mut space = [MaybeUninit::uninit(); USUAL_HEAD];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *io).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    })
    .await
}

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
    /// It began what could become either, and did not go on.
    Late,
    /// The same, and the node closes its connections.
    Closing,
}

/// Tells whether the client speaks HTTP/2; reads on while what it said so far could still become that.
pub(super) async fn protocol<IO, S>(
    server: &Shared<S>,
    io: &mut IO,
    ahead: &mut Bytes,
    patience: Duration,
) -> Spoken
where
    IO: AsyncRead + Unpin,
{
    let could_be = |said: &[u8]| said.len() < H2_PREFACE.len() && H2_PREFACE.starts_with(said);
    if could_be(ahead) {
        let mut said = BytesMut::from(&ahead[..]);
        let more = async { while could_be(&said) && io.read_buf(&mut said).await.is_ok_and(|n| n > 0) {} };
        match server.unless_closing(timeout(patience, more)).await {
            Some(Ok(())) => {}
            Some(Err(_)) => return Spoken::Late,
            None => return Spoken::Closing,
        }
        *ahead = said.freeze();
    }
    if ahead.starts_with(H2_PREFACE) { Spoken::Http2 } else { Spoken::Http1 }
}

impl<S> Shared<S> {
    /// What comes before a request, given up a moment after the node closes its connections: a client that only
    /// connects must not hold a drain up.
    ///
    /// Cancel safe if `work` is.
    pub(super) async fn unless_closing<F: Future>(&self, work: F) -> Option<F::Output> {
        let closing = async {
            self.shutdown().reached(self.roles.connection.stop).await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = closing => None,
        }
    }
}
