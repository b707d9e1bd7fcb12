//! Closing a connection so that the client sees an end, not a reset.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long a closing connection listens to a client that is still sending.
const LINGER: Duration = Duration::from_secs(1);
/// How much such a client may still send.
const LINGER_BYTES: usize = 256 * 1024;

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
        let mut scratch = [0; 1024];
        let mut left = LINGER_BYTES;
        while let Ok(n) = io.read(&mut scratch).await {
            left = left.saturating_sub(n);
            if n == 0 || left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, lingering).await;
}
