//! Closing a connection so that the client sees an end, not a reset.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// How long a closing connection listens in all; less than a drain usually has.
const LINGER: Duration = Duration::from_secs(2);
/// How long it listens to silence: what was sent before the client saw the end has then arrived.
const SILENCE: Duration = Duration::from_millis(500);
/// How much a client that is still sending may send. Enough for the uploads of clients that look for an answer only
/// when they are done.
const UPLOAD: usize = 16 * 1024 * 1024;
/// The same for one that broke the protocol: enough that it can learn so.
const NONSENSE: usize = 256 * 1024;

/// Says that no more is coming, then reads on for a moment: closing a socket with unread bytes makes the system send a
/// reset, which can overtake the response. A client that has sent all it may is not waited for, unless it sends on.
///
/// Cancel safe: dropping it closes at once.
pub(super) async fn close<IO>(mut io: IO, client_has_ended: bool)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let lingering = async {
        if io.shutdown().await.is_err() {
            return;
        }
        if !client_has_ended {
            listen(&mut io, UPLOAD).await;
        } else if sends_on(&mut io) {
            listen(&mut io, NONSENSE).await;
        }
    };
    let _ = timeout(LINGER, lingering).await;
}

/// The same for a client that broke the protocol.
///
/// Cancel safe: dropping it closes at once.
pub(super) async fn close_on_nonsense<IO>(mut io: IO)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let lingering = async {
        if io.shutdown().await.is_ok() {
            listen(&mut io, NONSENSE).await;
        }
    };
    let _ = timeout(LINGER, lingering).await;
}

/// Reads until the client ends, falls silent, or has sent `most` bytes.
async fn listen<IO: AsyncRead + Unpin>(io: &mut IO, mut most: usize) {
    // On the heap, or every open connection would carry it.
    let mut scratch = vec![0; 16 * 1024];
    while let Ok(Ok(read @ 1..)) = timeout(SILENCE, io.read(&mut scratch)).await {
        most = most.saturating_sub(read);
        if most == 0 {
            return;
        }
    }
}

/// Whether bytes have arrived that nobody will want.
fn sends_on<IO: AsyncRead + Unpin>(io: &mut IO) -> bool {
    let mut scratch = [0; 64];
    let mut read = pin!(io.read(&mut scratch));
    matches!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(1..)))
}
