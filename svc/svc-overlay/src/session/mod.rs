//! Sessions: one supervisor, one reader and one writer per connection.
//!
//! ```text
//! accepted or dialled ─▶ TLS or QUIC ─▶ HELLO ─▶ reader ─▶ gossip shards, object streams
//!                                        writer ◀─ outbox: control, gossip, bulk
//! ```
//!
//! The supervisor has the connection's one timer. The reader and the writer end with the session, and the session with
//! either of them.

mod activity;
mod close;
mod conn;
mod hello;
mod reader;
mod send_rate;
mod writer;

use std::{pin::pin, sync::Arc, time::Duration};

use oap::{ErrorCode, Frame, Message};
use ron_kernel::topology::{ChildSpec, Plane, Stage};
use ron_transport::wire::Wire;

pub(crate) use activity::Waits;
pub(crate) use close::{CloseReason, Ending};
pub(crate) use conn::{Conn, Greeted, OutFrame};
pub(crate) use hello::{Began, Link, NoSession, greet};
pub(crate) use reader::reject_label;
pub(crate) use writer::PERMIT_WAIT;

use crate::{dialer::DIALER, handshakes::Place, shared::Shared, toll::Party};
use activity::Judgement;

/// The task that supervises a session.
pub(crate) const CONNECTION: ChildSpec = ChildSpec {
    kind: "connection",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "transport.max_conns in all, and one for each peer that is dialled",
    doc: "one connection: its handshake, then its timer and its end; starts the reader and the writer",
};

/// The task that reads from a peer.
pub(crate) const READER: ChildSpec = ChildSpec {
    kind: "reader",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "one per connection",
    doc: "reads frames and brings them to the gossip shards and object streams; never writes",
};

/// The task that writes to a peer.
pub(crate) const WRITER: ChildSpec = ChildSpec {
    kind: "writer",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "one per connection",
    doc: "the only task that writes to the connection: control first, then publications and objects 4 : 1 by bytes",
};

/// How long the end of a connection may take: what waits is written, and the peer's end is read.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// How often it is looked whether a peer may stay; the first time when its session begins, because the configuration may have
/// changed during the handshake.
const ADMISSION_LOOK: Duration = Duration::from_secs(5);

/// Makes a session of a connection and sees it to its end. `place` is given back once the handshake is over; if it is lost
/// before, there is no session.
///
/// Not cancel safe: dropped, the session's end is not told to the rest of the node.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    link: Link,
    began: Began,
    place: Option<Place>,
) -> Result<CloseReason, NoSession> {
    // In a box of their own, because a session is held for long and its handshake is large.
    let settings = shared.settings.load_full();
    let greeting = Box::pin(greet(shared, &settings, link, began));
    let greeted = match &place {
        None => greeting.await,
        Some(place) => tokio::select! {
            biased;
            greeted = greeting => greeted,
            () = place.displaced() => Err(NoSession::Displaced),
        },
    };
    drop(settings);
    drop(place);
    let (wire, greeted) = greeted?;
    Ok(Box::pin(live(shared, wire, greeted)).await)
}

async fn live(shared: &Arc<Shared>, wire: Wire, mut greeted: Greeted) -> CloseReason {
    let topics = std::mem::take(&mut greeted.topics);
    let conn = Conn::new(shared, greeted);
    shared.metrics.session_open.inc();
    let unwritten = Unwritten { conn: &conn, _party: shared.losses.party() };
    let (read_half, write_half) = tokio::io::split(wire);
    let (reading, writing) = (conn.task(), conn.task());
    let joined = shared.peers.join(&conn);
    match &joined {
        Ok(joined) => {
            tracing::debug!(peer = %conn.peer, place = conn.place, "a session begins");
            conn.set_slot(joined.slot);
            shared.gossip.up(&conn, joined.slot, topics).await;
        }
        Err(reason) => conn.close(*reason),
    }
    shared.writers.spawn(writer::run(Arc::clone(&conn), write_half, writing));
    shared.readers.spawn(reader::run(Arc::clone(&conn), read_half, reading));
    let reason = watch(&conn).await;
    end(&conn).await;
    drop(unwritten);
    if let Ok(joined) = joined {
        shared.objects.gone(&conn);
        shared.gossip.down(&conn, joined.slot).await;
        shared.peers.leave(&conn, joined);
    }
    shared.metrics.closed(reason);
    if reason == CloseReason::Draining {
        // The task that this is part of, and the two that it started.
        shared.scope.children(if conn.dialled { &DIALER } else { &CONNECTION }).count_canceled();
        shared.readers.count_canceled();
        shared.writers.count_canceled();
    }
    tracing::debug!(peer = %conn.peer, %reason, "a session has ended");
    reason
}

/// The session's timer and its drain, until it ends.
async fn watch(conn: &Conn) -> CloseReason {
    let shared = conn.shared();
    let clock = shared.clock;
    let shutdown = shared.scope.shutdown();
    let mut ending = pin!(conn.ending.heard());
    let mut intake = pin!(shutdown.reached(Stage::Intake));
    let mut writers = pin!(shutdown.reached(Stage::Writers));
    let (mut told, mut asked_at) = (false, None);
    let mut look_at = clock.now();
    loop {
        if clock.now() >= look_at {
            look_at = clock.now().after(ADMISSION_LOOK);
            if let Some(why) = conn.expired() {
                tracing::warn!(peer = %conn.peer, "a session ends: {why}");
                conn.dismiss(ErrorCode::Unauth, why);
                return CloseReason::Refused(ErrorCode::Unauth);
            }
        }
        let waits = shared.settings.load().waits;
        // What the peer was heard to say since then is an answer, whatever it is.
        let asked = asked_at.filter(|at| conn.activity.last_heard() <= *at);
        let next = match conn.activity.judge(clock.now(), &waits, asked) {
            Judgement::Wait(next) => next,
            Judgement::Ask(next) => {
                asked_at = Some(clock.now());
                conn.control(&Frame::connection(Message::Ping(conn.number)));
                next
            }
            Judgement::Close(reason) => {
                count_timeout(conn, reason);
                conn.close(reason);
                return reason;
            }
        };
        tokio::select! {
            biased;
            reason = &mut ending => return reason,
            () = &mut writers => {
                conn.close(CloseReason::Draining);
                return conn.ending.reason().unwrap_or(CloseReason::Draining);
            }
            () = &mut intake, if !told => {
                told = true;
                conn.goaway(ErrorCode::Draining);
            }
            () = clock.sleep_until(next.min(look_at)) => {}
        }
    }
}

fn count_timeout(conn: &Conn, reason: CloseReason) {
    let op = match reason {
        CloseReason::ReadTimeout => "read",
        CloseReason::WriteTimeout => "write",
        _ => return,
    };
    conn.shared().scope.metrics().io_timeouts(op).inc();
}

/// Waits for the reader and the writer, but not for long.
async fn end(conn: &Conn) {
    let clock = conn.shared().clock;
    if clock.by(clock.within(LINGER), conn.tasks_gone()).await.is_none() {
        conn.abandon();
        conn.tasks_gone().await;
    }
}

/// What waits in a session's box. However the session ends, by itself or cut off at a drain's deadline, what was not written
/// by then is accounted for.
struct Unwritten<'a> {
    conn: &'a Conn,
    _party: Party,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        for pushed in self.conn.outbox.kill().into_iter().filter_map(|frame| frame.pushed) {
            pushed.closed(self.conn);
        }
    }
}
