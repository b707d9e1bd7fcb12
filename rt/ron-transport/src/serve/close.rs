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
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// Says that no more is coming, then reads on for a moment: closing a socket with unread bytes makes the system send a
/// reset, which can overtake the response.
///
/// Cancel safe: dropping it closes at once.
pub(super) async fn close<IO>(mut io: IO, client_has_ended: bool)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let lingering = async {
        if io.shutdown().await.is_err() || client_has_ended {
            return;
        }
        // On the heap, or every open connection would carry it.
        let mut scratch = vec![0; 16 * 1024];
        let mut left = LINGER_BYTES;
        while let Ok(Ok(n)) = timeout(SILENCE, io.read(&mut scratch)).await {
            left = left.saturating_sub(n);
            if n == 0 || left == 0 {
                return;
            }
        }
    };
    let _ = timeout(LINGER, lingering).await;
}
