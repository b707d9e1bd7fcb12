//! Hostile clients: each connection does one thing that is meant to keep the gateway from serving others, over and over.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::load::Sending;

/// The pause between two bytes of what trickles. Shorter than every timeout, so that only a rate or a limit ends it.
const TRICKLE: Duration = Duration::from_millis(500);
/// How long an attacker waits before it comes back after it was cut off.
const COMES_BACK: Duration = Duration::from_millis(50);
/// An attacker with many streams opens a new connection when nothing more has come for so long.
const SILENCE: Duration = Duration::from_millis(200);
/// Streams that an attacker opens on one HTTP/2 connection.
const STREAMS: u32 = 500;

/// A behaviour of a hostile connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    /// An upload small enough to be buffered, byte by byte.
    SmallUpload,
    /// An upload too large to be buffered, which stops being quick after its first part.
    LargeUpload,
    /// A body in chunks of one byte.
    ChunkedDribble,
    /// A header that never ends.
    EndlessHead,
    /// A large answer that is read a little at a time.
    SlowRead,
    /// Hundreds of requests at once on one HTTP/2 connection.
    ManyStreams,
    /// A request that is to be answered within a millisecond.
    DeadlineBomb,
    /// A stream that is opened and left open.
    IdleStream,
    /// A request whose client leaves at once.
    Abandoned,
}

impl Attack {
    pub(super) const ALL: [Self; 9] = [
        Self::SmallUpload,
        Self::LargeUpload,
        Self::ChunkedDribble,
        Self::EndlessHead,
        Self::SlowRead,
        Self::ManyStreams,
        Self::DeadlineBomb,
        Self::IdleStream,
        Self::Abandoned,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SmallUpload => "small uploads that trickle",
            Self::LargeUpload => "large uploads that trickle",
            Self::ChunkedDribble => "chunks that dribble",
            Self::EndlessHead => "endless heads",
            Self::SlowRead => "slow readers",
            Self::ManyStreams => "many HTTP/2 streams",
            Self::DeadlineBomb => "deadline bombs",
            Self::IdleStream => "idle streams",
            Self::Abandoned => "abandoned requests",
        }
    }

    /// Does it once on a connection.
    async fn strike(self, mut conn: TcpStream) -> io::Result<()> {
        let head =
            |line: &str, fields: &str| format!("{line} HTTP/1.1\r\nhost: fairness.test\r\n{fields}\r\n");
        match self {
            Self::SmallUpload => {
                conn.write_all(head("POST /", "content-length: 10000\r\n").as_bytes()).await?;
                trickle(&mut conn, b"x").await
            }
            Self::LargeUpload => {
                conn.write_all(head("POST /", "content-length: 1000000\r\n").as_bytes()).await?;
                conn.write_all(&[b'x'; 100_000]).await?;
                trickle(&mut conn, b"x").await
            }
            Self::ChunkedDribble => {
                conn.write_all(head("POST /", "transfer-encoding: chunked\r\n").as_bytes()).await?;
                trickle(&mut conn, b"1\r\nx\r\n").await
            }
            Self::EndlessHead => {
                conn.write_all(b"GET / HTTP/1.1\r\nhost: fairness.test\r\n").await?;
                trickle(&mut conn, b"x-more: y\r\n").await
            }
            Self::SlowRead => {
                conn.write_all(head("GET /big", "").as_bytes()).await?;
                let mut piece = [0; 1024];
                while conn.read(&mut piece).await? > 0 {
                    tokio::time::sleep(TRICKLE).await;
                }
                Ok(())
            }
            Self::ManyStreams => {
                conn.write_all(&many_streams()).await?;
                // Then once more on another connection.
                while let Ok(more) = tokio::time::timeout(SILENCE, conn.read(&mut [0; 16 * 1024])).await {
                    if more? == 0 {
                        break;
                    }
                }
                Ok(())
            }
            Self::DeadlineBomb => {
                for _ in 0..10 {
                    conn.write_all(head("GET /slow", "x-request-timeout-ms: 1\r\n").as_bytes()).await?;
                    let mut answer = [0; 4096];
                    if conn.read(&mut answer).await? == 0 {
                        break;
                    }
                }
                Ok(())
            }
            Self::IdleStream => {
                conn.write_all(head("GET /stream", "").as_bytes()).await?;
                drain(&mut conn).await
            }
            Self::Abandoned => {
                conn.write_all(head("GET /slow", "").as_bytes()).await?;
                tokio::time::sleep(Duration::from_millis(2)).await;
                Ok(())
            }
        }
    }
}

/// One hostile connection, until the flow is over.
pub(super) async fn attack(sending: Arc<Sending>, attack: Attack) {
    while sending.clock.now() < sending.end {
        let until = types::Deadline::at(sending.end);
        let struck = async {
            let conn = sending.connect_plain().await?;
            attack.strike(conn).await
        };
        // How it ends is of no interest; whether others notice is.
        let _ = sending.clock.by(until, struck).await;
        tokio::time::sleep(COMES_BACK).await;
    }
}

async fn trickle(conn: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    loop {
        conn.write_all(piece).await?;
        tokio::time::sleep(TRICKLE).await;
    }
}

/// Reads whatever comes until the end.
async fn drain(conn: &mut TcpStream) -> io::Result<()> {
    let mut piece = [0; 4096];
    while conn.read(&mut piece).await? > 0 {}
    Ok(())
}

/// An HTTP/2 connection's first bytes: its preface, and as many requests as an attacker likes, without waiting for leave.
fn many_streams() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, 4, 0, 0, &[]);
    // Methods and schemes from the static table; path and authority as literals.
    let mut block = vec![0x82, 0x86, 0x04, 5];
    block.extend(b"/slow");
    block.extend([0x01, 13]);
    block.extend(b"fairness.test");
    for stream in 0..STREAMS {
        frame(&mut bytes, 1, 0x5, 2 * stream + 1, &block);
    }
    bytes
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    bytes.extend(&length[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_many_streams_are_whole_frames() {
        let bytes = many_streams();
        let mut rest = &bytes[24..];
        let mut frames = 0;
        while let [a, b, c, _, _, _, _, _, _, payload @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            rest = &payload[length..];
            frames += 1;
        }
        assert_eq!((frames, rest.len()), (STREAMS + 1, 0));
    }
}
