//! The door: how often one client may ask, and how many requests are worked on at once.

use std::{
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Method;
use http_body::Body as _;
use quota::{Bucket, Forgettable, Rate, ShardedBook};
use ron_kernel::blame::ClientId;
use ron_sync::gate::{Fifo, Gate, Permit};
use ron_transport::{Body, Conn, ConnInfo, caps::ClientKey};
use types::{Moment, Reason, Refusal};

use crate::{EdgeConfig, IngressConfig, assets::HashingShare};

/// Clients whose rate is known; those beyond share one. About 100 bytes each.
const MAX_CLIENTS: usize = 65_536;
/// When to come back if too much is being worked on: by then, a read that has begun has ended.
const WHEN_BUSY: Duration = Duration::from_secs(1);
/// Requests of one client that wait for its part of the fills.
const MAX_WAITING_FILLS: usize = 512;
/// A client may have this many times as many places as are free. So one alone has three quarters of them, two have three
/// sevenths each, and whoever has none finds one.
const PER_FREE_PLACE: u32 = 3;
/// One place in so many is for clients that have none.
const KEPT_FOR_NEWCOMERS: u32 = 16;
/// Transfers for each place: one that is not being read costs memory and nothing else.
const TRANSFERS_PER_PLACE: u32 = 8;
/// As many transfers are sent in large pieces, whoever they are for.
const LARGE_PIECES: u32 = 64;
/// As many transfers of one client are, however many there are.
const LARGE_PIECES_EACH: u32 = 8;

/// What is kept for a connection: its client.
#[derive(Debug, Default)]
pub(crate) struct ConnMemo(OnceLock<Arc<Client>>);

/// What is kept for a client, an IPv6 /64 being one.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// How far the rate of its requests is used up.
    requests: Bucket,
    /// How far the rate of its requests that reach origins is used up.
    fills: Bucket,
    /// How many of its requests are being worked on.
    inside: AtomicU32,
    /// How many responses are being sent to it from a disk, or while they are fetched.
    receiving: AtomicU32,
    /// A number of its own; 0 for those that share one entry.
    number: ClientId,
    /// Its part of the fills at once; made when it is first needed.
    filling: OnceLock<Arc<Gate<Fifo>>>,
    /// Its part of the large files that are hashed at once; made when it is first needed.
    hashing: OnceLock<Box<HashingShare>>,
}

impl Forgettable for Client {
    fn is_forgettable(&self, now: Moment) -> bool {
        self.requests.is_forgettable(now)
            && self.fills.is_forgettable(now)
            && self.inside.load(Ordering::Relaxed) == 0
            && self.receiving.load(Ordering::Relaxed) == 0
            && self.filling.get().is_none_or(|gate| gate.inflight() == 0)
            && self.hashing.get().is_none_or(|share| !share.is_used())
    }
}

/// A place among the fills of one client, held until the fill ends.
#[derive(Clone, Debug)]
pub(crate) struct FillPlace {
    client: ClientId,
    _permit: Arc<Permit<Fifo>>,
}

impl FillPlace {
    /// The client that it is of.
    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }
}

/// A place among the requests that are worked on.
#[derive(Debug)]
pub(crate) struct Place {
    ingress: Arc<Ingress>,
    client: Arc<Client>,
    _permit: Permit<Fifo>,
}

impl Place {
    /// What is left to do is to send: the place goes to somebody else.
    ///
    /// # Errors
    /// As much as may be is being sent, or this client gets more of it than it may while so little is left.
    pub(crate) fn into_transfer(self) -> Result<Transfer, Refusal> {
        let (ingress, client) = (Arc::clone(&self.ingress), Arc::clone(&self.client));
        let permit = enter(&ingress.transfers, &client.receiving, "sent")?;
        Ok(Transfer { ingress, client, _permit: permit })
    }

    /// Whether what is to be sent is sent in small pieces.
    pub(crate) fn is_crowded(&self) -> bool {
        self.ingress.is_crowded(&self.client)
    }
}

/// A response that is being sent from a disk, or while it is fetched.
#[derive(Debug)]
pub(crate) struct Transfer {
    ingress: Arc<Ingress>,
    client: Arc<Client>,
    _permit: Permit<Fifo>,
}

impl Transfer {
    /// Whether it is sent in small pieces, because there are many, and many of this client.
    pub(crate) fn is_crowded(&self) -> bool {
        self.ingress.is_crowded(&self.client)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.client.receiving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.client.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The door, one for all cores.
#[derive(Debug)]
pub(crate) struct Ingress {
    clients: ShardedBook<ClientKey, Client, RandomState>,
    /// All clients beyond those that are known.
    others: Arc<Client>,
    /// Number of clients so far, from which ids are made.
    numbered: AtomicU64,
    gate: Arc<Gate<Fifo>>,
    transfers: Arc<Gate<Fifo>>,
    /// Requests of clients that had no place and found none.
    turned_away: AtomicU64,
}

/// What the door holds requests to, from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    rate: Option<Rate>,
    fill_rate: Option<Rate>,
    /// Fills of one client at once: half of the workers.
    client_fills: u32,
    body_bytes: u64,
    /// From a request's head to the response's.
    pub(crate) timeout: Duration,
}

impl Limits {
    pub(crate) fn new(EdgeConfig { ingress, fill, .. }: &EdgeConfig) -> Self {
        let rate = |per_second: u32| Rate::per_second(per_second, per_second.saturating_mul(2)).ok();
        Self {
            rate: rate(ingress.rps_limit),
            fill_rate: rate(ingress.fill_rps_limit),
            client_fills: u32::try_from(fill.workers.div_ceil(2)).unwrap_or(u32::MAX),
            body_bytes: ingress.body_bytes.as_u64(),
            timeout: ingress.timeout(),
        }
    }
}

impl Ingress {
    pub(crate) fn new(config: &IngressConfig) -> Self {
        Self {
            clients: ShardedBook::new(MAX_CLIENTS, RandomState::new()),
            others: Arc::default(),
            // Nobody waits: whoever finds no place comes back.
            gate: Gate::new(places(config), Fifo::new(0)),
            transfers: Gate::new(transfers(config), Fifo::new(0)),
            numbered: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
        }
    }

    /// Follows a new configuration; those inside stay.
    pub(crate) fn reconfigure(&self, config: &IngressConfig) {
        self.gate.set_limit(places(config));
        self.transfers.set_limit(transfers(config));
    }

    /// The client of a connection.
    pub(crate) fn client(&self, conn: &ConnInfo, now: Moment) -> Arc<Client> {
        let client = ClientKey::of(&conn.peer);
        let new =
            || Client { number: self.numbered.fetch_add(1, Ordering::Relaxed) + 1, ..Client::default() };
        self.clients.get_or_insert(&client, now, new).unwrap_or_else(|_| Arc::clone(&self.others))
    }

    /// The client of a connection that remembers it.
    pub(crate) fn known_client<'a>(&self, conn: &'a Conn<ConnMemo>, now: Moment) -> &'a Arc<Client> {
        conn.memo().0.get_or_init(|| self.client(conn, now))
    }

    /// A place to be worked on, until it is dropped.
    ///
    /// # Errors
    /// All are taken, or this client has more of them than it may while so few are left.
    pub(crate) fn enter(self: &Arc<Self>, client: &Arc<Client>) -> Result<Place, Refusal> {
        let permit = enter(&self.gate, &client.inside, "worked on").inspect_err(|_| {
            if client.inside.load(Ordering::Relaxed) == 0 {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Place { ingress: Arc::clone(self), client: Arc::clone(client), _permit: permit })
    }

    /// How many requests of clients that had no place found none, so far.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// How many are being worked on, or sent.
    pub(crate) fn inside(&self) -> u32 {
        self.gate.inflight() + self.sending()
    }

    /// Returns the number of responses that are being sent.
    pub(crate) fn sending(&self) -> u32 {
        self.transfers.inflight()
    }

    fn is_crowded(&self, client: &Client) -> bool {
        self.sending() > LARGE_PIECES && client.receiving.load(Ordering::Relaxed) > LARGE_PIECES_EACH
    }
}

/// Enters a gate for a client that is inside so many times, which is counted.
fn enter(gate: &Arc<Gate<Fifo>>, inside: &AtomicU32, what: &str) -> Result<Permit<Fifo>, Refusal> {
    let limit = gate.limit();
    let free = limit.saturating_sub(gate.inflight());
    let has = inside.load(Ordering::Relaxed);
    if has > 0 && (has >= free.saturating_mul(PER_FREE_PLACE) || free <= limit / KEPT_FOR_NEWCOMERS) {
        let detail = format!("{has} requests of this client are being {what}, and others need places");
        return Err(Refusal::new(Reason::Busy, detail).retry_after(WHEN_BUSY));
    }
    let Ok(permit) = gate.try_enter(()) else {
        let detail = format!("{limit} requests are being {what}");
        return Err(Refusal::new(Reason::Busy, detail).retry_after(WHEN_BUSY));
    };
    inside.fetch_add(1, Ordering::Relaxed);
    Ok(permit)
}

impl Client {
    /// Takes a request out of the client's allowance.
    ///
    /// # Errors
    /// The allowance is used up.
    pub(crate) fn charge(&self, limits: &Limits, now: Moment) -> Result<(), Refusal> {
        charge(&self.requests, limits.rate.as_ref(), "this client asks too often", now)
    }

    /// Takes a request that reaches an origin out of the client's allowance of those.
    ///
    /// # Errors
    /// The allowance is used up.
    pub(crate) fn charge_fill(&self, limits: &Limits, now: Moment) -> Result<(), Refusal> {
        let what = "this client asks too often for what is not stored here";
        charge(&self.fills, limits.fill_rate.as_ref(), what, now)
    }

    /// A place among the client's fills, once it is its turn.
    ///
    /// Cancel safe: dropping the future gives up the turn.
    ///
    /// # Errors
    /// As many of its requests wait for one as may.
    pub(crate) async fn fill_place(&self, limits: &Limits) -> Result<FillPlace, Refusal> {
        let entered = self.fill_gate(limits).enter(()).await;
        entered.map(|permit| self.filling(permit)).map_err(|_| too_many_fills())
    }

    /// A place among the client's fills, if there is one now.
    ///
    /// # Errors
    /// It has as many fills in progress as it may.
    pub(crate) fn fill_place_now(&self, limits: &Limits) -> Result<FillPlace, Refusal> {
        let entered = self.fill_gate(limits).try_enter(());
        entered.map(|permit| self.filling(permit)).map_err(|()| too_many_fills())
    }

    /// The number that tells it from other clients.
    pub(crate) const fn id(&self) -> ClientId {
        self.number
    }

    /// Its part of the large files that are hashed at once.
    pub(crate) fn hashing_share(&self) -> &HashingShare {
        self.hashing.get_or_init(Box::default)
    }

    fn filling(&self, permit: Permit<Fifo>) -> FillPlace {
        FillPlace { client: self.number, _permit: Arc::new(permit) }
    }

    fn fill_gate(&self, limits: &Limits) -> &Arc<Gate<Fifo>> {
        let gate = self.filling.get_or_init(|| Gate::new(limits.client_fills, Fifo::new(MAX_WAITING_FILLS)));
        if gate.limit() != limits.client_fills {
            gate.set_limit(limits.client_fills);
        }
        gate
    }
}

fn too_many_fills() -> Refusal {
    Refusal::new(Reason::Busy, "too many objects are being fetched for this client").retry_after(WHEN_BUSY)
}

fn charge(bucket: &Bucket, rate: Option<&Rate>, detail: &'static str, now: Moment) -> Result<(), Refusal> {
    let Some(rate) = rate else { return Ok(()) };
    let charged = bucket.check(rate, now).map(drop);
    charged.map_err(|exhausted| Refusal::new(Reason::Quota, detail).retry_after(exhausted.wait))
}

fn places(config: &IngressConfig) -> u32 {
    u32::try_from(config.max_inflight).unwrap_or(u32::MAX)
}

fn transfers(config: &IngressConfig) -> u32 {
    places(config).saturating_mul(TRANSFERS_PER_PLACE)
}

/// Lets a request pass that only reads, and does not bring more along than it may.
///
/// # Errors
/// It is a write, or its body is too long.
pub(crate) fn admit(method: &Method, body: &Body, limits: &Limits) -> Result<(), Refusal> {
    if body.size_hint().lower() > limits.body_bytes {
        let detail = format!("a body may have {} bytes", limits.body_bytes);
        return Err(Refusal::new(Reason::BodyCap, detail));
    }
    if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Err(Reason::MethodNotAllowed.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingress(max_inflight: usize) -> Arc<Ingress> {
        Arc::new(Ingress::new(&IngressConfig { max_inflight, ..IngressConfig::default() }))
    }

    /// Takes as many places for a client as it gets.
    fn hoard(ingress: &Arc<Ingress>, client: &Arc<Client>) -> Vec<Place> {
        std::iter::from_fn(|| ingress.enter(client).ok()).collect()
    }

    #[test]
    fn one_client_leaves_places_for_others_and_so_do_several() {
        let ingress = ingress(512);
        let clients: [Arc<Client>; 4] = Default::default();
        let mut held: Vec<_> = clients.iter().map(|client| hoard(&ingress, client)).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[0], 384, "three quarters");
        assert!(counts.iter().sum::<usize>() < 512, "{counts:?}");
        let victim = Arc::default();
        let place = ingress.enter(&victim);
        assert!(place.is_ok(), "there is a place for whoever has none: {counts:?}");
        held.clear();
        drop(place);
        assert_eq!(ingress.inside(), 0);
        assert!(clients.iter().all(|client| client.inside.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn many_clients_together_leave_places_for_those_who_have_none() {
        let ingress = ingress(512);
        let held: Vec<_> = (0..24).map(|_| hoard(&ingress, &Arc::default())).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert!(ingress.enter(&Arc::default()).is_ok(), "{counts:?}");
    }

    #[test]
    fn only_those_who_have_no_place_are_turned_away() {
        let (ingress, flood) = (ingress(4), Arc::default());
        let _held = hoard(&ingress, &flood);
        assert!(ingress.enter(&flood).is_err());
        assert_eq!(ingress.turned_away(), 0, "who has places is refused more of them");
        let _last = hoard(&ingress, &Arc::default());
        assert!(ingress.enter(&Arc::default()).is_err());
        assert_eq!(ingress.turned_away(), 1);
    }

    #[test]
    fn what_is_being_sent_holds_no_place_and_is_bounded_by_itself() {
        let (ingress, client) = (ingress(32), Arc::<Client>::default());
        let transfers: Vec<_> =
            std::iter::from_fn(|| ingress.enter(&client).ok()?.into_transfer().ok()).collect();
        assert_eq!(transfers.len(), 192, "three quarters of eight times as many");
        assert!(transfers[0].is_crowded());
        assert!(!client.is_forgettable(Moment::ORIGIN));
        let other = Arc::default();
        let places = hoard(&ingress, &other);
        assert_eq!(places.len(), 24, "all places are there");
        assert!(places.into_iter().all(|place| !place.is_crowded() && place.into_transfer().is_ok()));
        drop(transfers);
        assert_eq!((ingress.sending(), ingress.inside()), (0, 0));
    }

    #[test]
    fn a_door_with_few_places_lets_one_client_have_a_few() {
        let counts = [1, 2, 3, 4, 8].map(|places| hoard(&ingress(places), &Arc::default()).len());
        assert_eq!(counts, [1, 2, 3, 3, 6]);
    }

    #[test]
    fn a_client_that_is_being_worked_for_is_not_forgotten() {
        let (ingress, client) = (ingress(4), Arc::<Client>::default());
        let place = ingress.enter(&client);
        assert!(!client.is_forgettable(Moment::ORIGIN));
        drop(place);
        assert!(client.is_forgettable(Moment::ORIGIN));
    }
}
