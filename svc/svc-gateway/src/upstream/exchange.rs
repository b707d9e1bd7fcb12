//! One request on one connection, and how to come by the connection.

use std::{error::Error, pin::pin, sync::Arc};

use http::response::Parts;
use ron_kernel::topology::{ChildSpec, Plane, Stage};
use ron_transport::{
    BodyError, Request, Response,
    addr::Scheme,
    client::{self, AnyConn, Home, HttpConn, RequestWatch, Security, SendFault, Unanswered},
    dial::{self, DialError},
};
use types::{Reason, Refusal};

use super::{
    Fault, Held, Late, Upstream, causes,
    group::Group,
    retry::{self, Trip},
    seats::{Full, Grant, Seat},
    server::Server,
};
use crate::pool::{Idle, Lent, Link, NoPlace, Place, Placed, Pool};

/// What is left of a request that nobody waits for.
pub(crate) const ABANDONED: ChildSpec = ChildSpec {
    kind: "abandoned",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the slots, each of which one such request holds",
    doc: "waits until a server has answered a request whose client has left or whose deadline has passed, or for \
          `finish_abandoned`; then the slot goes to the next request",
};

/// A connection and its way home.
enum Ready {
    /// A connection for this request alone.
    Own(HttpConn, Arc<Link>),
    /// A connection that is shared with other requests.
    Shared(Lent),
}

/// Why a server was not reached. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReached {
    /// The socket did not connect.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection cannot be spoken on.
    #[error(transparent)]
    Connect(#[from] client::ConnectError),
    /// A timeout passed.
    #[error("it took too long to connect")]
    Late,
}

impl NotReached {
    /// Whether this node lacked what a connection needs. The server is not to blame for that.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Dial(error) if error.is_local())
    }
}

impl Upstream {
    /// Sends a request to a server.
    pub(super) async fn exchange(
        &self,
        pool: &Arc<Pool>,
        request: &mut Request,
        trip: &mut Trip<'_>,
    ) -> Result<Response, Fault> {
        // Somebody who waits for a connection goes first.
        while !pool.server.seats.is_crowded() {
            let Some(idle) = pool.take(trip.now) else { break };
            match self.request_on(idle.conn, idle.link, request, trip).await {
                Err(Fault::Unreached) => {}
                outcome => return outcome,
            }
        }
        let mut is_sent_again = false;
        loop {
            let ready = if self.group.may_share && !pool.shared.is_ruled_out() {
                self.shared(pool, trip).await
            } else {
                self.own(pool, trip).await
            };
            return match ready {
                Ok(Ready::Own(conn, link)) => self.request_on(conn, link, request, trip).await,
                Ok(Ready::Shared(held)) => match self.request_with_others(pool, held, request, trip).await {
                    Err(Fault::Displaced) if !is_sent_again => {
                        is_sent_again = true;
                        continue;
                    }
                    Err(Fault::Displaced) => Err(Fault::Unreached),
                    outcome => outcome,
                },
                Err(Fault::Broken) => Err(Fault::Unreached),
                Err(other) => Err(other),
            };
        }
    }

    async fn request_on(
        &self,
        mut conn: HttpConn,
        link: Arc<Link>,
        request: &mut Request,
        trip: &mut Trip<'_>,
    ) -> Result<Response, Fault> {
        conn.set_stall(self.group.config.timeout.as_duration());
        link.serves(trip.client);
        // Pinned where it is made: it is large, and every hand it passes through would copy it.
        let mut leaving = self.leaving(trip);
        let outcome = {
            let answer = pin!(conn.send_for(request, link, leaving.watch()));
            trip.answer(self.group.tools.clock, answer).await
        };
        leaving.over(&outcome, trip);
        self.answer(request, outcome, trip)
    }

    async fn request_with_others(
        &self,
        pool: &Pool,
        held: Lent,
        request: &mut Request,
        trip: &mut Trip<'_>,
    ) -> Result<Response, Fault> {
        let place = self.place_on(&held, trip).await?;
        let (load, before) = (Load::begin(&pool.server), held.conn.progress());
        let most_before = held.conn.most_in_flight();
        let sent = head_and_body_of(request);
        let mut leaving = self.leaving(trip);
        leaving.place = Some(place);
        let outcome = {
            let home = held.link.shared(trip.client) as Arc<dyn Home>;
            let answer = pin!(held.conn.send_for(sent, home, leaving.watch()));
            trip.answer(self.group.tools.clock, answer).await
        };
        let place = leaving.over(&outcome, trip);
        if matches!(outcome, Err(Late::Server)) {
            held.conn.retire_if_silent(before);
        }
        let response = self.answer(request, outcome, trip).map_err(|fault| match fault {
            // Another connection may take it. A server that refuses requests on a connection that lives on is asked again as
            // after any other failure, within the budget.
            Fault::Unreached if !held.conn.is_alive() || held.conn.most_in_flight() < most_before => {
                Fault::Displaced
            }
            other => other,
        })?;
        // The connection's seat is taken for as long as any response is on its way.
        Ok(response.map(|body| body.holding((load, held.link, place))))
    }

    /// What hears of it if the request's client leaves before the answer, or its deadline passes.
    fn leaving<'h>(&self, trip: &mut Trip<'h>) -> Leaving<'h, '_> {
        let holding = trip.holding.take();
        if let Some(written) = holding.as_ref().and_then(Held::written) {
            written.is_sent();
        }
        Leaving { holding, place: None, group: &self.group }
    }

    /// What came of sending; a request that was not sent is put back.
    fn answer(
        &self,
        request: &mut Request,
        outcome: Result<Result<Response, SendFault>, Late>,
        trip: &mut Trip<'_>,
    ) -> Result<Response, Fault> {
        match outcome {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(SendFault::Unsent(unsent))) => {
                *request = *unsent;
                trip.cause = Some("it closed the connection before the request was sent".to_owned());
                Err(Fault::Unreached)
            }
            Ok(Err(SendFault::Broken(error))) => {
                // The server is not to blame, and must not be left alone for what a client does.
                if let Some(body) = fault_of_the_request(&*error) {
                    return Err(Fault::Refused(body.refusal()));
                }
                if let Some(limit) = error.downcast_ref() {
                    return Err(Fault::Refused(self.too_large(*limit)));
                }
                trip.cause = Some(causes::broken(&*error));
                Err(Fault::Broken)
            }
            Err(late) => {
                self.group.tools.families.timeouts().rpc.inc();
                trip.cause = Some(self.late(late));
                Err(Fault::Late(late))
            }
        }
    }

    /// A connection for one request: a new one if the server may have one more, else the next that comes free on any
    /// core. [`Fault::Broken`] if it cannot be had.
    async fn own(&self, pool: &Arc<Pool>, trip: &mut Trip<'_>) -> Result<Ready, Fault> {
        let mut seat = pool.server.seat();
        while seat.is_none() {
            match self.wait_for_turn(pool, trip).await? {
                Grant::Open(granted) => seat = Some(granted),
                Grant::Use(Idle { mut conn, link, .. }) => {
                    // The seat of a dead one comes free.
                    if conn.is_alive() {
                        return Ok(Ready::Own(conn, link));
                    }
                }
            }
        }
        let seat = seat.expect("the loop ends with one");
        self.open(pool, seat, trip).await
    }

    /// Room on a connection that others use too, of this core, or of any if the server may have no more. A server may
    /// turn out to take one request at a time.
    async fn shared(&self, pool: &Arc<Pool>, trip: &mut Trip<'_>) -> Result<Ready, Fault> {
        if let Some(held) = pool.shared.find(trip.now) {
            return Ok(Ready::Shared(held));
        }
        let clock = self.group.tools.clock;
        let Some(_opening) = clock.by(trip.deadline, pool.shared.opening()).await else {
            trip.cause = Some(self.late(Late::Connection));
            return Err(Fault::Late(Late::Connection));
        };
        if pool.shared.is_ruled_out() {
            return self.own(pool, trip).await;
        }
        // Whoever opened one meanwhile left room on it.
        if let Some(held) = pool.shared.find(trip.now) {
            return Ok(Ready::Shared(held));
        }
        match pool.server.seat() {
            Some(seat) => self.open(pool, seat, trip).await,
            None => match pool.server.shared_anywhere(trip.now) {
                Some(held) => Ok(Ready::Shared(held)),
                None => self.own(pool, trip).await,
            },
        }
    }

    async fn wait_for_turn(&self, pool: &Arc<Pool>, trip: &mut Trip<'_>) -> Result<Grant, Fault> {
        let turn = pool.server.wait(trip.client).map_err(|full| self.too_many_wait(full))?;
        match self.group.tools.clock.by(trip.deadline, turn).await {
            Some(granted) => {
                // What follows is the server's time; the wait was for our own limit.
                trip.attempt_began = self.group.tools.clock.now();
                let granted = granted.map_err(|_gone| Fault::Broken)?;
                granted.map_err(|full| self.too_many_wait(full))
            }
            None => Err(self.no_connection(trip)),
        }
    }

    /// A place on a connection that others use too.
    async fn place_on(&self, held: &Lent, trip: &mut Trip<'_>) -> Result<Place, Fault> {
        let (most, max_waiting) = (held.conn.most_in_flight(), self.group.config.max_waiting);
        let full = |NoPlace| self.too_many_wait(Full);
        let turn = match held.places.take(trip.client, most, max_waiting).map_err(full)? {
            Placed::At(place) => return Ok(place),
            Placed::Waits(turn) => turn,
        };
        match self.group.tools.clock.by(trip.deadline, turn).await {
            Some(placed) => {
                // What follows is the server's time; the wait was for others' requests.
                trip.attempt_began = self.group.tools.clock.now();
                placed.map_err(|_gone| Fault::Broken)?.map_err(full)
            }
            None => Err(self.no_connection(trip)),
        }
    }

    /// The deadline has passed while the request waited for a connection.
    fn no_connection(&self, trip: &mut Trip<'_>) -> Fault {
        self.group.tools.families.timeouts().connect.inc();
        trip.cause = Some(self.late(Late::Connection));
        Fault::Late(Late::Connection)
    }

    fn too_many_wait(&self, _: Full) -> Fault {
        let what = format!("too many requests wait for a connection to upstream `{}`", self.group.name);
        Fault::Refused(Refusal::new(Reason::Busy, what).retry_after(retry::WHEN_FULL))
    }

    async fn open(&self, pool: &Arc<Pool>, seat: Seat, trip: &mut Trip<'_>) -> Result<Ready, Fault> {
        let clock = self.group.tools.clock;
        let now = clock.now();
        let left = trip.deadline.remaining(now);
        let within = left.min(self.group.config.connect_timeout.as_duration());
        let opened = reach(&self.group, &pool.server, within).await;
        let conn = opened.map_err(|error| {
            trip.cause = Some(causes::not_reached(&error, within));
            if error.is_local() {
                return Fault::Refused(self.without_descriptors());
            }
            if !matches!(error, NotReached::Late) {
                return Fault::Broken;
            }
            self.group.tools.families.timeouts().connect.inc();
            // The server had its own time to accept only if nothing shorter ended the wait.
            if within == left { Fault::Late(trip.lateness(clock.now())) } else { Fault::Broken }
        })?;
        let link = pool.link(seat.opened());
        Ok(match conn {
            AnyConn::Http1(conn) => {
                pool.learn(false);
                Ready::Own(conn, link)
            }
            AnyConn::Http2(conn) => {
                pool.learn(true);
                Ready::Shared(pool.shared.add(conn, link, now))
            }
        })
    }
}

/// Opens a connection to a server: socket, TLS, HTTP.
///
/// Cancel safe: dropping the future closes what was opened.
pub(super) async fn reach(
    group: &Group,
    server: &Server,
    within: std::time::Duration,
) -> Result<AnyConn, NotReached> {
    let (tools, deadline) = (&group.tools, group.tools.clock.within(within));
    let opened = async {
        let stream =
            dial::dial(&server.endpoint, &tools.resolver, within).await.map_err(|error| match error {
                DialError::Timeout { .. } => NotReached::Late,
                other => other.into(),
            })?;
        let security = match (server.endpoint.scheme(), &group.tls) {
            (Scheme::Https, Some(tls)) => Security::Tls { tls, server_name: &server.name, limit: within },
            _ => Security::Clear,
        };
        let options = group.h2_options();
        Ok(client::connect(stream, security, group.config.protocol.into(), &options, &tools.drivers).await?)
    };
    tools.clock.by(deadline, opened).await.unwrap_or(Err(NotReached::Late))
}

/// Hears of a request that nobody waits for any more while its server works on it, and of what the server says before its
/// answer.
///
/// Its slot is there for what the server does. It is given back when the server has answered, or has had
/// `finish_abandoned` for it; otherwise a client that leaves at once could have a server do more than there are slots.
struct Leaving<'h, 'g> {
    holding: Option<Held<'h>>,
    /// The request's place on a connection that others use too.
    place: Option<Place>,
    group: &'g Group,
}

impl<'h> Leaving<'h, '_> {
    /// Nobody leaves it any more: gives back what the request holds.
    fn over(self, outcome: &Result<Result<Response, SendFault>, Late>, trip: &mut Trip<'h>) -> Option<Place> {
        if let (Ok(Err(SendFault::Unsent(_))), Some(written)) =
            (outcome, self.holding.as_ref().and_then(Held::written))
        {
            written.is_unsent();
        }
        trip.holding = self.holding;
        self.place
    }

    fn watch(&mut self) -> Option<&mut (dyn RequestWatch + '_)> {
        if self.holding.is_some() { Some(self) } else { None }
    }
}

impl RequestWatch for Leaving<'_, '_> {
    fn interim(&mut self, head: &Parts) {
        if let Some(Held::Own(holding)) = &self.holding {
            holding.interim(head);
        }
    }

    fn left(&mut self, request: Unanswered) {
        if self.group.config.finish_abandoned.as_duration().is_zero() {
            return;
        }
        let Some(slot) = self.holding.as_mut().and_then(Held::slot) else { return };
        let written = self.holding.as_ref().and_then(Held::written).cloned();
        let (place, tools) = (self.place.take(), &self.group.tools);
        let (clock, until) =
            (tools.clock, tools.clock.within(self.group.config.finish_abandoned.as_duration()));
        tools.abandoned.spawn(async move {
            let answered = clock.by(until, request.finish()).await.flatten();
            if let (Some(head), Some(written)) = (answered, &written) {
                written.answered(head.status, &head.headers);
            }
            drop((slot, written, place));
        });
    }
}

/// The same request with the body that it had; its head stays for another try.
fn head_and_body_of(request: &mut Request) -> Request {
    let mut sent = Request::new(std::mem::take(request.body_mut()));
    sent.method_mut().clone_from(request.method());
    sent.uri_mut().clone_from(request.uri());
    *sent.version_mut() = request.version();
    sent.headers_mut().clone_from(request.headers());
    sent
}

/// A request on a shared connection counts as one connection in use.
struct Load(Arc<Server>);

impl Load {
    fn begin(server: &Arc<Server>) -> Self {
        server.began();
        Self(Arc::clone(server))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// What went wrong with the request's own body, if the request failed because of that.
fn fault_of_the_request<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e BodyError> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}
