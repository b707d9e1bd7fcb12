//! Closing a connection so that the client sees an end, not a reset.

use std::time::Duration;

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
/// reset, which can overtake the response.
///
/// Cancel safe: dropping it closes at once.
pub(super) async fn close<IO>(io: IO, client_has_ended: bool)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    linger(io, if client_has_ended { 0 } else { UPLOAD }).await;
}

/// The same for a client that broke the protocol.
///
/// Cancel safe: dropping it closes at once.
pub(super) async fn close_on_nonsense<IO>(io: IO)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    linger(io, NONSENSE).await;
}

async fn linger<IO>(mut io: IO, mut most: usize)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let lingering = async {
        if io.shutdown().await.is_err() || most == 0 {
            return;
        }
        // On the heap, or every open connection would carry it.
        let mut scratch = vec![0; 16 * 1024];
        while let Ok(Ok(n)) = timeout(SILENCE, io.read(&mut scratch)).await {
            most = most.saturating_sub(n);
            if n == 0 || most == 0 {
                return;
            }
        }
    };
    let _ = timeout(LINGER, lingering).await;
}
