//! The writer of a session: the only task that writes to its socket.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ron_transport::wire::Wire;
use tokio::io::{AsyncWrite, AsyncWriteExt, WriteHalf};

use super::{
    close::CloseReason,
    conn::{Conn, OutFrame, TaskOf},
};
use crate::outbox::Taken;

/// Pieces in one write; the system walks the list.
const PIECES: usize = 128;
/// How long a publication waits for a permit before it is given up.
pub(crate) const PERMIT_WAIT: Duration = Duration::from_secs(5);

/// Writes what is in the outbox until it ends.
pub(super) async fn run(conn: Arc<Conn>, wire: WriteHalf<Wire>, _alive: TaskOf) {
    conn.outbox.claim();
    let written = tokio::select! {
        biased;
        () = conn.abandoned() => return,
        written = write_all(&conn, wire) => written,
    };
    if let Err(error) = written {
        tracing::debug!(peer = %conn.peer, %error, "a session's writer ends");
        conn.ending.say(CloseReason::Broken);
    }
}

async fn write_all(conn: &Conn, mut wire: WriteHalf<Wire>) -> io::Result<()> {
    let clock = conn.shared().clock;
    let mut in_hand = InHand { conn, frames: Vec::new() };
    let batch = &mut in_hand.frames;
    while poll_fn(|cx| conn.outbox.poll_take(cx, batch)).await == Taken::Some {
        give_up_late(conn, batch, clock.now());
        while !batch.is_empty() {
            let (count, wait) = conn.allowed(batch, clock.now());
            conn.activity.writing(clock.now());
            write_batch(conn, &mut wire, &batch[..count]).await?;
            wire.flush().await?;
            conn.activity.written();
            account(conn, batch, count);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
    }
    wire.shutdown().await
}

/// What the writer has taken and not written yet. If the connection ends first, that is accounted for.
struct InHand<'a> {
    conn: &'a Conn,
    frames: Vec<OutFrame>,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        for pushed in self.frames.drain(..).filter_map(|frame| frame.pushed) {
            pushed.closed(self.conn);
        }
    }
}

/// Publications that waited too long are not sent; a peer that wants one requests it.
fn give_up_late(conn: &Conn, batch: &mut Vec<OutFrame>, now: types::Moment) {
    let is_late = |frame: &mut OutFrame| frame.pushed.is_some() && now.since(frame.since) > PERMIT_WAIT;
    if !batch.iter_mut().any(is_late) {
        return;
    }
    let shared = conn.shared();
    for frame in batch.extract_if(.., is_late) {
        shared.metrics.backpressure(conn.peer);
        if let Some(pushed) = frame.pushed {
            pushed.given_up(conn);
        }
    }
}

/// Writes all frames, many at a time.
async fn write_batch(conn: &Conn, wire: &mut WriteHalf<Wire>, batch: &[OutFrame]) -> io::Result<()> {
    let clock = conn.shared().clock;
    let (mut at, mut offset) = (0, 0);
    while at < batch.len() {
        let (rest, skip) = (&batch[at..], offset);
        let mut written = poll_fn(|cx| {
            // Made again at each poll, so that no idle connection holds it.
            let mut pieces = [IoSlice::new(&[]); PIECES];
            for (piece, frame) in pieces.iter_mut().zip(rest) {
                *piece = IoSlice::new(&frame.bytes);
            }
            pieces[0] = IoSlice::new(&rest[0].bytes[skip..]);
            let count = rest.len().min(PIECES);
            Pin::new(&mut *wire).poll_write_vectored(cx, &pieces[..count])
        })
        .await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while written > 0 {
            let left = batch[at].bytes.len() - offset;
            if written < left {
                offset += written;
                break;
            }
            written -= left;
            (at, offset) = (at + 1, 0);
        }
        if at < batch.len() {
            // The peer took something: its time starts again.
            conn.activity.writing(clock.now());
        }
    }
    Ok(())
}

/// Tells the engine what has left, the first `count` of a batch, and counts it.
fn account(conn: &Conn, batch: &mut Vec<OutFrame>, count: usize) {
    conn.frames_out.fetch_add(count as u64, Relaxed);
    let gossip = conn.shared().gossip.sent(conn, batch.drain(..count).filter_map(|frame| frame.pushed));
    if gossip > 0 {
        conn.shared().metrics.written(gossip);
    }
}
