//! One stretch of HTTP/1.1 on a connection: from its first byte until it closes or has been idle long enough to park.

mod date;
mod exchange;
mod link;
mod response_head;

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use types::Moment;

use super::{
    HttpLimits,
    activity::Verdict,
    adapter::ConnState,
    greeting::{LAST_ANSWER, LAST_LOOK, LAST_WORDS},
};
use crate::{h1::request::BadHead, service::Service, stream::HangUp, tunnel::Tunnel};
use exchange::{Finish, serve_all};
use link::Link;

/// What is read of a request at once, at most, and what may wait of the next one.
pub(super) const BUFFER: usize = 64 * 1024;

/// How a stretch ended; the stream comes back open.
pub(super) enum Ended<IO> {
    /// Idle; bytes that were read ahead come along.
    Parked(IO, Bytes),
    /// No longer HTTP: what the client sent ahead comes along, and what it is sent to.
    Switched(IO, Bytes, Tunnel),
    /// Over, in good order or because the client left.
    Done(IO),
    /// Over, because of what the client did or did not do.
    Failed(IO, Fault),
}

/// What a client did or did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Part of a head, and no more.
    LateHead,
    /// A head that cannot be served; the client is told.
    BadHead(BadHead),
    Body,
    /// None: the response broke off, and a clean end would make it look whole.
    Response,
    Write,
    /// A response taken at less than the minimum rate.
    WriteRate,
    /// Nothing that could be answered.
    Malformed,
    /// More than a client may send that belongs to no request, or carries nothing.
    Flood,
}

/// Serves until the connection closes or parks.
pub(super) async fn serve<IO, S>(
    io: IO,
    ahead: Bytes,
    state: &Arc<ConnState<S>>,
    limits: &HttpLimits,
) -> Ended<IO>
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let link = Arc::new(Link::new(io, ahead, &state.activity));
    let ended = race(&link, state, limits).await;
    let (io, ahead) = link.take().expect("only this takes it, once");
    match ended {
        Raced::Parked => Ended::Parked(io, ahead),
        Raced::Finished(Finish::Done) => Ended::Done(io),
        Raced::Finished(Finish::BrokeOff) => Ended::Failed(io, Fault::Response),
        Raced::Finished(Finish::BadHead(head)) => Ended::Failed(io, Fault::BadHead(head)),
        Raced::Finished(Finish::Switched(tunnel)) => Ended::Switched(io, ahead, tunnel),
        Raced::Failed(fault) => Ended::Failed(io, fault),
    }
}

/// The event that ended a stretch of reading or writing.
enum Raced {
    Finished(Finish),
    Parked,
    Failed(Fault),
}

/// Serves requests until no more follow, or the connection's timer or the node ends it.
async fn race<IO, S>(link: &Arc<Link<IO>>, state: &Arc<ConnState<S>>, limits: &HttpLimits) -> Raced
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let mut requests = pin!(serve_all(link, state, limits));
    let mut timer = pin!(tokio::time::sleep(limits.first_look()));
    let mut closing = pin!(state.shutdown.reached(state.roles.connection.stop));
    let mut told_to_close = false;
    loop {
        tokio::select! {
            biased;
            finish = &mut requests => return Raced::Finished(finish),
            () = &mut timer => match state.activity.judge(state.now()) {
                Verdict::Wait(_) | Verdict::Park if told_to_close => match state.closes_at() {
                    Some(at) if at <= state.now() => return Raced::Finished(Finish::Done),
                    at => timer.as_mut().reset(state.look_at_drain(at)),
                },
                Verdict::Wait(until) => timer.as_mut().reset(Instant::now() + until.since(state.now())),
                Verdict::Park => return Raced::Parked,
                Verdict::IdleTooLong => return Raced::Finished(Finish::Done),
                Verdict::HeadTooSlow => return Raced::Failed(Fault::LateHead),
                Verdict::BodyTooSlow => return Raced::Failed(Fault::Body),
                Verdict::WriteTooSlow => return Raced::Failed(Fault::Write),
                Verdict::WriteBelowMinRate => return Raced::Failed(Fault::WriteRate),
            },
            // The response to the next request says that the connection closes.
            () = &mut closing, if !told_to_close => {
                told_to_close = true;
                state.node_closes();
                timer.as_mut().reset(Instant::now() + LAST_LOOK);
            }
        }
    }
}

/// When a connection that is to close at `at` is looked at again; without `at`, once its request may have ended.
fn next_look(now: Moment, at: Option<Moment>) -> Instant {
    Instant::now() + at.map_or(LAST_WORDS, |at| at.since(now)).min(LAST_WORDS)
}

impl<S: Service> ConnState<S> {
    /// Ends a request that has no answer yet if the drain is about to; says when to look again at a connection that closes `at`
    /// a moment, or once its request is answered.
    fn look_at_drain(&self, at: Option<Moment>) -> Instant {
        let now = self.now();
        let left = self.shutdown.ends_at().map(|ends| ends.since(now).saturating_sub(LAST_ANSWER));
        if left == Some(Duration::ZERO) {
            self.give_up();
        }
        let last_answer = left.filter(|left| !left.is_zero()).map(|left| now.after(left));
        next_look(now, at.into_iter().chain(last_answer).min())
    }

    /// When a connection closes because the node does; `None` while it has a request, or sends a response.
    fn closes_at(&self) -> Option<Moment> {
        let activity = &self.activity;
        if activity.is_busy() || activity.is_stalled() {
            return None;
        }
        // Part of a head is no request: a drain does not wait long for the rest.
        let head = activity.head_began().map_or(Moment::ORIGIN, |began| began.after(LAST_WORDS));
        Some(self.shutdown.idle_until(activity.last_use()).max(head))
    }
}
