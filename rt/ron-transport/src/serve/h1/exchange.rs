//! Requests and responses on an HTTP/1.1 connection, one after the other.
//!
//! A request that arrives before the response to the one before it is out waits in the connection's buffer.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use types::{Moment, Reason, Refusal};

use super::{
    link::{FirstLook, Link, Outward},
    response_head::{self, Answering},
};
use crate::{
    Body, Request, Response,
    body::SMALL,
    h1::{
        outbox::{Announced, Outbox, Unfinished},
        request::{BadHead, BodyFraming, HeadLimits, RequestHead},
    },
    interim::InterimQueue,
    problem,
    serve::{
        HttpLimits,
        adapter::{ConnState, Life},
    },
    service::Service,
    stream::HangUp,
    tunnel::Tunnel,
};

/// The reason why no more requests follow on the connection.
pub(super) enum Finish {
    /// All that was asked was answered, or the client has left.
    Done,
    /// A head that cannot be served.
    BadHead(BadHead),
    /// A response broke off whose end only the end of the connection tells.
    BrokeOff,
    /// The connection no longer speaks HTTP.
    Switched(Tunnel),
}

/// Answers requests until no more follow.
///
/// Cancel safe between requests: what was read of the next one stays in `link`.
pub(super) async fn serve_all<IO, S>(
    link: &Arc<Link<IO>>,
    state: &ConnState<S>,
    limits: &HttpLimits,
) -> Finish
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let limits = HeadLimits { bytes: limits.max_head_bytes, fields: limits.max_headers };
    let mut outbox = Outbox::default();
    loop {
        match poll_fn(|cx| link.poll_head(limits, cx)).await {
            Ok(Some(head)) => {
                if let Some(finish) = serve_one(link, state, head, &mut outbox).await {
                    return finish;
                }
            }
            Ok(None) => return Finish::Done,
            Err(bad) => return Finish::BadHead(bad),
        }
    }
}

/// Answers one request; `None` if another one may follow.
async fn serve_one<IO, S>(
    link: &Arc<Link<IO>>,
    state: &ConnState<S>,
    head: RequestHead,
    outbox: &mut Outbox,
) -> Option<Finish>
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    let life = Life::begin(state);
    let may_switch = head.may_switch && head.body == BodyFraming::Sized(0);
    let (method, version) = (head.parts.method.clone(), head.parts.version);
    let mut answering = Answering { method, version, keep_alive: head.keep_alive };
    let request = Request::from_parts(head.parts, request_body(link, state));
    if !head.keep_alive && request.body().is_whole() {
        // There is nobody to wait for when the connection closes.
        state.activity.read_ended();
    }
    let outcome = call(link, state, request).await;
    if let Some(heads) = state.conn.interim.queue().and_then(InterimQueue::answered) {
        link.add_interim(heads);
    }
    let Some(outcome) = outcome else { return Some(Finish::Done) };
    let (mut response, tunnel) = match outcome.and_then(|response| switched(response, may_switch)) {
        Ok(answer) => answer,
        Err(refusal) => {
            state.metrics.rejected(refusal.reason).inc();
            (problem::response(&refusal), None)
        }
    };
    let now = state.now();
    answering.keep_alive &= may_go_on(link, state, now);
    let unix = state.clock.unix_at(now);
    let outcome = response_head::write(&response, &answering, unix, outbox.head());
    let ends_with_connection = outcome.announced == Some(Announced::Connection);
    if let Some(announced) = outcome.announced {
        outbox.follow(std::mem::take(response.body_mut()), announced);
    }
    drop(response);
    if !send(link, outbox).await {
        if ends_with_connection {
            link.reset_on_drop();
            return Some(Finish::BrokeOff);
        }
        return Some(Finish::Done);
    }
    drop(life);
    if let Some(tunnel) = tunnel {
        return Some(Finish::Switched(tunnel));
    }
    if !outcome.keep_alive {
        return Some(Finish::Done);
    }
    poll_fn(|cx| link.poll_released(cx)).await;
    (!drain(link)).then_some(Finish::Done)
}

/// The body of the request whose head was taken last. A small one that has come along is nobody's to wait for.
fn request_body<IO, S>(link: &Arc<Link<IO>>, state: &ConnState<S>) -> Body
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
    S: Service,
{
    match link.look_at_body(SMALL) {
        FirstLook::Empty => Body::empty(),
        FirstLook::Whole(bytes) => bytes.into(),
        FirstLook::ToCome(announced) => {
            link.hand_out_body();
            Body::from_source(Arc::clone(link) as _, &state.activity, announced)
        }
    }
}

/// What the service says to a request; `None` if the client leaves before that.
async fn call<IO, S>(
    link: &Link<IO>,
    state: &ConnState<S>,
    request: Request,
) -> Option<Result<Response, Refusal>>
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin,
    S: Service,
{
    state.conn.asks();
    let mut call = pin!(state.service.call(&state.conn, request));
    poll_fn(|cx| {
        if state.has_given_up() {
            let refusal = Refusal::new(Reason::Draining, "the node stops before there is an answer");
            return Poll::Ready(Some(Err(refusal)));
        }
        match call.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => {
                if let Some(queue) = state.conn.interim.queue() {
                    match queue.take(cx.waker()) {
                        Some(heads) => link.send_interim(heads, cx),
                        None => link.poll_interim(cx),
                    }
                }
                link.poll_left(cx).map(|()| None)
            }
        }
    })
    .await
}

/// Takes the tunnel out of a 101 response, if the client offered to switch protocols.
fn switched(mut response: Response, may_switch: bool) -> Result<(Response, Option<Tunnel>), Refusal> {
    let refuse = |why: &'static str| Err(Refusal::new(Reason::BadGateway, why));
    let status = response.status();
    if !status.is_informational() {
        return Ok((response, None));
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return refuse("an interim response is not an answer");
    }
    if !may_switch {
        return refuse("the upstream switched protocols without having been asked");
    }
    match response.body_mut().take_tunnel() {
        Some(tunnel) => Ok((response, Some(tunnel))),
        None => refuse("nothing follows the switch of protocols"),
    }
}

/// Whether another request may follow the one that is about to be answered. A client that is told that it may not stops
/// sending what nobody will read.
fn may_go_on<IO, S>(link: &Link<IO>, state: &ConnState<S>, now: Moment) -> bool
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin,
    S: Service,
{
    let is_drained = drain(link);
    link.answer_begins();
    let draining = state.shutdown.is_draining();
    if draining && !state.activity.has_ended() {
        state.node_closes();
    }
    let is_aged = state.last_request_at != Moment::END && now >= state.last_request_at;
    is_drained && !draining && !is_aged && !state.activity.has_left_unread()
}

/// Throws the rest of a body away that nobody wants, as far as it is here.
fn drain<IO: AsyncRead + AsyncWrite + HangUp + Unpin>(link: &Link<IO>) -> bool {
    link.drain(&mut Context::from_waker(Waker::noop()))
}

/// Sends what is in the outbox; false if the client leaves, or the response's body fails. What came before that is sent, so
/// that the client sees a response that broke off instead of none, which it might ask for again.
async fn send<IO>(link: &Link<IO>, outbox: &mut Outbox) -> bool
where
    IO: AsyncRead + AsyncWrite + HangUp + Unpin,
{
    let mut is_whole = true;
    poll_fn(|cx| {
        loop {
            match outbox.poll_send(&mut Outward(link), cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(is_whole),
                Poll::Ready(Err(Unfinished::Body(_))) => {
                    outbox.give_up_body();
                    is_whole = false;
                }
                Poll::Ready(Err(Unfinished::Wire(_))) => return Poll::Ready(false),
                Poll::Pending => return link.poll_left(cx).map(|()| false),
            }
        }
    })
    .await
}
