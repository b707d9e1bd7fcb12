//! Transfers that hold a slot while their client may keep them waiting.
//!
//! A slot is there for the work of the server. A client that sends its upload slowly, or does not read its answer, keeps
//! its transfer going without any. Once a client has kept its transfer waiting for `slow_after` in all, the slot goes to
//! the next request; the transfer goes on as a stream, among the streams that its tenant may have, here and at its server,
//! or ends if those are used up. An answer that takes its server ten times as long, whoever it waits for, gives its slot up
//! as well, if there is room for one more stream: events are sent for as long as their client likes. What the server still
//! has to say is read ahead, as far as there is memory, so that its connection comes free.
//!
//! Each core has its own list of transfers, and a task that looks at it some times a second.

mod body;

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::response::Parts;
use http_body::Body as _;
use ron_kernel::{
    Clock, Scope,
    blame::ClientId,
    lock::{Ranked, RankedGuard},
    metrics::Counter,
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::{Body, Interim, Response, caps::ClientKey};
use types::{Moment, Reason, Refusal};

use crate::{
    admission::Slot,
    buffers::{BufferMemory, Frames, Reserved},
    cache::Written,
    locks, message,
    pool::Pool,
    router::Route,
    tenant::{StreamPlace, Tenant},
    upstream::Occupancy,
};
use body::{Download, Upload};

/// For how many times `slow_after` an answer holds its slot after its head.
const LONG_ANSWER: u32 = 10;
/// How often each core looks at its transfers.
const EVERY: Duration = Duration::from_millis(25);
/// The most that is read ahead of one answer.
const MOST_AHEAD: u64 = 256 * 1024;
/// What is reserved at a time for that.
const PORTION: u64 = 64 * 1024;

/// The task. Each core has its own, as it has its own transfers.
pub(crate) const TRANSFER_WATCH: TaskSpec = TaskSpec {
    name: "transfer_watch",
    plane: Plane::Data,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "every 25 ms reclaims the slots of transfers that their clients stall and of long responses, and reads \
     stalled responses ahead",
};

/// Starts the task on each core.
pub(crate) fn start(scope: &Scope, transfers: &[Arc<Transfers>]) {
    let transfers: Vec<_> = transfers.to_vec();
    scope.task_per_core(&TRANSFER_WATCH, move |core, ctx| run(ctx, transfers.get(core.index()).cloned()));
}

async fn run(ctx: TaskCtx, transfers: Option<Arc<Transfers>>) -> TaskResult {
    ctx.every(EVERY, || transfers.iter().for_each(|transfers| transfers.look())).await
}

/// The transfers of one core that hold slots, or did. No more than requests and streams of the core.
#[derive(Debug)]
pub(crate) struct Transfers {
    clock: Clock,
    memory: Arc<BufferMemory>,
    /// Counts the slots that were taken.
    reclaimed: Counter,
    list: Ranked<List>,
}

#[derive(Debug, Default)]
struct List {
    /// The transfers in progress, by number.
    entries: Vec<Option<Arc<Transfer>>>,
    vacant: Vec<usize>,
}

/// One transfer, shared by its bodies and the task that looks at it.
#[derive(Debug)]
struct Transfer {
    tenant: Arc<Tenant>,
    slow_after: Duration,
    max_streams: u32,
    /// The connection to a server that it occupies.
    occupancy: Occupancy,
    /// Locked for a few instructions, also while the answer is locked: reading an answer may move the upload.
    state: Ranked<State>,
    /// Locked while it is read.
    answer: Ranked<Answer>,
}

/// An answer's body, and what was read of it ahead of the client.
#[derive(Default)]
struct Answer {
    /// `None` before the answer, and once all of it was read from the server.
    body: Option<Body>,
    ahead: Frames,
    reserved: Vec<Reserved>,
}

#[derive(Debug, Default)]
struct State {
    slot: Option<Slot>,
    /// A place among the tenant's streams, for a transfer that has lost its slot.
    place: Option<StreamPlace>,
    /// Since when the client keeps the transfer waiting; `None` while it does not.
    waits_since: Option<Moment>,
    /// For how long it did before.
    waited: Duration,
    /// What wakes the upload, if the client owes more of it.
    upload: Option<Waker>,
    /// When the answer began; `None` before.
    answered_at: Option<Moment>,
    is_cut: bool,
}

/// What a request that was admitted holds: its slot, and the transfer once there is one.
#[derive(Debug)]
pub(crate) struct Holding {
    transfers: Arc<Transfers>,
    tenant: Arc<Tenant>,
    slow_after: Duration,
    max_streams: u32,
    /// The client's address; `None` where the tenant is the address.
    address: Option<ClientKey>,
    slot: Option<Slot>,
    transfer: Option<Listed>,
    /// Where the request was sent; dangling before, and if it was not sent to a server.
    pool: Weak<Pool>,
    /// What is invalidated once its outcome is known; `None` for a read, and without a cache.
    written: Option<Arc<Written>>,
    /// Where interim responses go; `None` if the client cannot take any.
    interim: Option<InterimTo>,
}

/// Where interim responses of servers go: to the client, as the route would have them.
#[derive(Debug)]
pub(crate) struct InterimTo {
    pub(crate) client: Interim,
    pub(crate) route: Arc<Route>,
}

impl InterimTo {
    fn pass(&self, head: &Parts) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = head.status;
        response.headers_mut().clone_from(&head.headers);
        if message::back(&mut response, &self.route.response_headers, None).is_ok() {
            self.client.pass(head.status, response.headers());
        }
    }
}

/// A transfer in its core's list, taken out when dropped.
#[derive(Debug)]
struct Listed {
    transfers: Arc<Transfers>,
    transfer: Arc<Transfer>,
    number: usize,
}

impl Transfers {
    pub(crate) fn new(clock: Clock, memory: &Arc<BufferMemory>, reclaimed: Counter) -> Arc<Self> {
        let list = Ranked::new(&locks::TRANSFER_LIST, List::default());
        Arc::new(Self { clock, memory: Arc::clone(memory), reclaimed, list })
    }

    /// Takes charge of a request's slot.
    pub(crate) fn hold(
        self: &Arc<Self>,
        slot: Option<Slot>,
        (tenant, address): (&Arc<Tenant>, Option<ClientKey>),
        slow_after: Duration,
        max_streams: u32,
    ) -> Holding {
        let (transfers, tenant) = (Arc::clone(self), Arc::clone(tenant));
        Holding {
            transfers,
            tenant,
            address,
            slow_after,
            max_streams,
            slot,
            transfer: None,
            pool: Weak::new(),
            written: None,
            interim: None,
        }
    }

    fn list(&self) -> RankedGuard<'_, List> {
        self.list.lock()
    }

    fn enlist(self: &Arc<Self>, transfer: Transfer) -> Listed {
        let transfer = Arc::new(transfer);
        let mut list = self.list();
        let number = list.vacant.pop().unwrap_or_else(|| {
            list.entries.push(None);
            list.entries.len() - 1
        });
        list.entries[number] = Some(Arc::clone(&transfer));
        drop(list);
        Listed { transfers: Arc::clone(self), transfer, number }
    }

    /// Looks at every transfer.
    fn look(&self) {
        let now = self.clock.now();
        let entries: Vec<_> = self.list().entries.iter().flatten().cloned().collect();
        for transfer in entries {
            // What it lets go is dropped here, without a lock.
            let (slot, _answer) = transfer.look(&self.memory, now);
            if slot.is_some() {
                self.reclaimed.inc();
                transfer.tell_if_cut();
            }
        }
    }
}

impl Transfer {
    fn state(&self) -> RankedGuard<'_, State> {
        self.state.lock()
    }

    fn answer(&self) -> RankedGuard<'_, Answer> {
        self.answer.lock()
    }

    /// Writes why a transfer was cut, if it was. Asked once, when its slot is taken.
    fn tell_if_cut(&self) {
        if self.state().is_cut {
            let tenant = &self.tenant.key.name;
            let cause = "the client kept it waiting for longer than `slow_after`, and there is no room for one more stream";
            tracing::warn!(%tenant, cause, "a transfer was cut");
        }
    }

    /// Takes what a transfer must not keep while its client keeps it waiting, or for too long.
    fn look(&self, memory: &Arc<BufferMemory>, now: Moment) -> (Option<Slot>, Option<Body>) {
        let mut state = self.state();
        if !state.is_kept_waiting(self.slow_after, now) {
            let is_long = state.is_answering_for(self.slow_after * LONG_ANSWER, now) && state.slot.is_some();
            let slot = if is_long && self.goes_on_as_stream_if_it_fits(&mut state) {
                state.slot.take()
            } else {
                None
            };
            return (slot, None);
        }
        drop(state);
        // Somebody who reads it now does not keep it waiting.
        let Some(mut answer) = self.answer.try_lock() else { return (None, None) };
        let ended = answer.read_ahead(&self.tenant, memory);
        if ended.is_some() {
            self.occupancy.ends();
        }
        let mut state = self.state();
        let Some(mut slot) = state.slot.take() else { return (None, ended) };
        slot.is_taken_back();
        let goes_on = answer.body.is_some() || state.answered_at.is_none();
        if goes_on && !self.goes_on_as_stream(&mut state) {
            state.cut();
            return (Some(slot), answer.body.take().or(ended));
        }
        (Some(slot), ended)
    }

    /// Takes the places of a stream if there are any, see below; otherwise the transfer keeps its slot.
    fn goes_on_as_stream_if_it_fits(&self, state: &mut State) -> bool {
        let Some(place) = self.tenant.open_stream(self.max_streams) else { return false };
        let fits = self.occupancy.becomes_stream_if_it_fits();
        if fits {
            state.place = Some(place);
        }
        fits
    }

    /// Takes the places of a stream, which needs no slot: one among those of its tenant, and one at its server. Whether there
    /// were both.
    fn goes_on_as_stream(&self, state: &mut State) -> bool {
        if state.place.is_none() {
            state.place = self.tenant.open_stream(self.max_streams);
        }
        state.place.is_some() && self.occupancy.becomes_stream().is_ok()
    }
}

impl Answer {
    /// Reads what the server has sent, within the memory there is; the body, once it has ended.
    fn read_ahead(&mut self, tenant: &Arc<Tenant>, memory: &Arc<BufferMemory>) -> Option<Body> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let body = self.body.as_mut()?;
            if self.ahead.bytes() >= self.reserved.len() as u64 * PORTION {
                if self.ahead.bytes() >= MOST_AHEAD {
                    return None;
                }
                self.reserved.push(memory.reserve(tenant, PORTION)?);
            }
            match Pin::new(&mut *body).poll_frame(&mut cx) {
                Poll::Pending => return None,
                Poll::Ready(None) => return self.body.take(),
                Poll::Ready(Some(frame)) => {
                    let ended = frame.is_err() || body.is_end_stream();
                    self.ahead.push(frame);
                    if ended {
                        return self.body.take();
                    }
                }
            }
        }
    }
}

impl State {
    /// Whether the client has kept the transfer waiting for longer than that, and still does.
    fn is_kept_waiting(&self, limit: Duration, now: Moment) -> bool {
        self.waits_since.is_some_and(|since| self.waited + now.since(since) > limit)
    }

    /// Whether the answer began longer ago than that.
    fn is_answering_for(&self, limit: Duration, now: Moment) -> bool {
        self.answered_at.is_some_and(|since| now.since(since) > limit)
    }

    /// Ends a transfer that may not go on.
    fn cut(&mut self) {
        self.is_cut = true;
        if let Some(upload) = self.upload.take() {
            upload.wake();
        }
    }

    /// It is the client's turn from now on.
    fn clients_turn(&mut self, now: Moment) {
        self.waits_since.get_or_insert(now);
    }

    /// The client has done its part.
    fn clients_turn_ends(&mut self, now: Moment) {
        if let Some(since) = self.waits_since.take() {
            self.waited += now.since(since);
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("ahead_bytes", &self.ahead.bytes()).finish_non_exhaustive()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = self.transfers.list();
        let entry = list.entries[self.number].take();
        list.vacant.push(self.number);
        drop(list);
        // An upload may outlive its answer, and has no use for a slot then.
        let slot = self.transfer.state().slot.take();
        drop((entry, slot));
    }
}

impl Holding {
    /// The transfer, which holds the slot from now on.
    fn transfer(&mut self) -> Option<&Listed> {
        let slot = self.slot.take();
        if self.transfer.is_none() {
            let transfer = Transfer {
                tenant: Arc::clone(&self.tenant),
                slow_after: self.slow_after,
                max_streams: self.max_streams,
                occupancy: Occupancy::of_request(&self.tenant, self.address),
                state: Ranked::new(&locks::TRANSFER_STATE, State { slot: Some(slot?), ..State::default() }),
                answer: Ranked::new(&locks::TRANSFER_ANSWER, Answer::default()),
            };
            self.transfer = Some(self.transfers.enlist(transfer));
        }
        self.transfer.as_ref()
    }

    /// Watches a request's body that is still on its way.
    pub(crate) fn watch_upload(&mut self, body: &mut Body) {
        if body.is_whole() {
            return;
        }
        if let Some(listed) = self.transfer() {
            let (transfer, clock) = (Arc::clone(&listed.transfer), listed.transfers.clock);
            *body = Body::streaming(Upload { body: std::mem::take(body), transfer, clock });
        }
    }

    /// Tells the client apart whose request it is.
    pub(crate) fn client(&self) -> ClientId {
        self.tenant.id
    }

    /// Which connection the transfer occupies; `None` before there is a transfer.
    pub(crate) fn occupancy(&self) -> Option<&Occupancy> {
        self.transfer.as_ref().map(|listed| &listed.transfer.occupancy)
    }

    /// Takes the slot out, for a request that nobody waits for while its server works on it.
    pub(crate) fn take_slot(&mut self) -> Option<Slot> {
        let listed = || self.transfer.as_ref()?.transfer.state().slot.take();
        self.slot.take().or_else(listed)
    }

    /// The request is a write that may invalidate something.
    pub(crate) fn writes(&mut self, written: Option<Arc<Written>>) {
        self.written = written;
    }

    /// The write, for a request that nobody waits for while its server works on it.
    pub(crate) fn written(&self) -> Option<&Arc<Written>> {
        self.written.as_ref()
    }

    /// The client gets interim responses, there.
    pub(crate) fn tells(&mut self, interim: Option<InterimTo>) {
        self.interim = interim;
    }

    /// Passes an interim response on, if the client can take it.
    pub(crate) fn interim(&self, head: &Parts) {
        self.interim.iter().for_each(|interim| interim.pass(head));
    }

    /// A server may get the request from now on.
    pub(crate) fn is_sent(&self) {
        self.written.iter().for_each(|written| written.is_sent());
    }

    /// The request was sent on a connection of this pool.
    pub(crate) fn is_at(&mut self, pool: Weak<Pool>) {
        self.pool = pool;
    }

    /// Why the upload was ended, if it was.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let is_cut = self.transfer.as_ref()?.transfer.state().is_cut;
        is_cut.then(|| Refusal::new(Reason::RequestTimeout, "the body of the request came too slowly"))
    }

    /// Keeps the slot for as long as the answer takes it; a whole one takes none.
    pub(crate) fn into_response(mut self, response: Response) -> Response {
        if response.body().is_whole() {
            return response;
        }
        self.transfer();
        let Some(listed) = self.transfer else { return response };
        response.map(|body| {
            let now = listed.transfers.clock.now();
            listed.transfer.occupancy.is_at(self.pool);
            let mut state = listed.transfer.state();
            state.clients_turn_ends(now);
            state.answered_at = Some(now);
            drop(state);
            listed.transfer.answer().body = Some(body);
            Body::streaming(Download { listed })
        })
    }
}
