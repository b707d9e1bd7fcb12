//! Tenants: who shares the node, in which class, and what is remembered of each.

mod record;

use std::{
    fmt,
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use fairq::{LastSeen, SlotMean, SlotsHeld};
use quota::{Forgettable, ShardedBook};
use ron_kernel::{
    Scope,
    blame::ClientId,
    meter::{Meter, MeterBook},
};
use ron_transport::caps::ClientKey;
use tokio::sync::Semaphore;
use types::{ActorId, Moment, Reason};

use crate::fleet::{Allowance, Limits};

pub(crate) use record::{LATENCY_BOUNDS_MS, Record, Totals};

/// What a tenant's requests count as against those of other classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Without a credential, or with one that is not verified yet.
    Anon,
    /// With a verified credential.
    Authed,
    /// The operator's own services.
    Internal,
}

impl Class {
    pub(crate) const ALL: [Self; 3] = [Self::Anon, Self::Authed, Self::Internal];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Anon => "anon",
            Self::Authed => "authed",
            Self::Internal => "internal",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl From<captoken::Class> for Class {
    fn from(class: captoken::Class) -> Self {
        match class {
            captoken::Class::Authed => Self::Authed,
            captoken::Class::Internal => Self::Internal,
        }
    }
}

/// By what a tenant is known in its class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TenantName {
    /// Its name in a credential or a trusted header.
    Named(Arc<str>),
    /// A client without a name.
    Client(ClientKey),
    /// Everybody there was no more room for.
    Other,
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Client(client) => client.fmt(f),
            Self::Other => f.write_str("other"),
        }
    }
}

/// A tenant in its class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TenantKey {
    pub(crate) class: Class,
    pub(crate) name: TenantName,
}

/// What is remembered of a tenant, shared by all cores.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) key: TenantKey,
    /// Tells it apart from all others, from 1.
    pub(crate) id: ClientId,
    /// How far its rate is used up.
    pub(crate) rate: Allowance,
    /// How long its recent requests held their slots, in nanoseconds, see [`SlotMean`]. Cores overwrite each other's
    /// updates; a sample more or less does not matter.
    expected_slot: AtomicU64,
    high_slot: AtomicU64,
    pub(crate) last_seen: LastSeen,
    /// The slots that it holds, see [`SlotsHeld`]. The two are changed one after the other; who reads them in between is off
    /// by one request.
    slots: AtomicU32,
    slots_started: AtomicU64,
    streams: AtomicU32,
    /// What the decoders of its bodies hold, in bytes.
    pub(crate) decoding: AtomicU64,
    /// By what these decoders take turns. Most tenants never have one.
    decoder_turns: OnceLock<Arc<Semaphore>>,
    /// What is buffered for it, in bytes.
    pub(crate) buffered: AtomicU64,
    /// Its stored responses that are being validated in the background.
    pub(crate) validations: AtomicU64,
    /// How its requests fared since it became known.
    record: Record,
    requests: Meter,
    /// What this node did for all of them.
    provided: Meter,
}

impl Tenant {
    fn new(key: TenantKey, books: &Books) -> Self {
        // Addresses never enter the books: whoever has no name is booked with everybody else who has none.
        let actor = match &key.name {
            TenantName::Named(name) => ActorId::new(name).unwrap_or_else(|_| ActorId::other()),
            _ => ActorId::other(),
        };
        let requests = books.meters.meter(&actor, "used.requests");
        let rate = books.limits.of_tenant(&key);
        Self {
            key,
            id: books.tenants.fetch_add(1, Ordering::Relaxed) + 1,
            rate,
            expected_slot: AtomicU64::new(0),
            high_slot: AtomicU64::new(0),
            last_seen: LastSeen::default(),
            slots: AtomicU32::new(0),
            slots_started: AtomicU64::new(0),
            streams: AtomicU32::new(0),
            decoding: AtomicU64::new(0),
            decoder_turns: OnceLock::new(),
            buffered: AtomicU64::new(0),
            validations: AtomicU64::new(0),
            record: Record::default(),
            requests,
            provided: books.provided.clone(),
        }
    }

    /// How long its requests hold a slot, going by the recent ones.
    pub(crate) fn slot_time(&self) -> SlotMean {
        let (expected, high) = (&self.expected_slot, &self.high_slot);
        SlotMean { expected: expected.load(Ordering::Relaxed), high: high.load(Ordering::Relaxed) }
    }

    /// Whether its requests take longer than `slow_after`, going by those that have ended and those that run.
    pub(crate) fn is_slow(&self, slow_after: Duration, now: Moment) -> bool {
        let count = self.slots.load(Ordering::Relaxed);
        let held = SlotsHeld { count, started: self.slots_started.load(Ordering::Relaxed) };
        held.is_slow(self.slot_time(), slow_after, now)
    }

    /// Slots that it holds.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Notes that a request holds a slot from now on.
    pub(crate) fn takes_slot(&self, now: Moment) {
        self.slots_started.fetch_add(now.as_nanos(), Ordering::Relaxed);
        self.slots.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a request that took a slot at `since` has returned it after so long, and how long ago it had come. With
    /// `slow_after`, the slot was taken back because the client stalled.
    pub(crate) fn returns_slot(
        &self,
        since: Moment,
        ran: Duration,
        since_it_came: Duration,
        stalled: Option<Duration>,
    ) {
        self.slots.fetch_sub(1, Ordering::Relaxed);
        self.slots_started.fetch_sub(since.as_nanos(), Ordering::Relaxed);
        let mean = self.slot_time();
        let SlotMean { expected, high } = match stalled {
            None => mean.next(ran),
            Some(slow_after) => mean.next_stalled(ran, slow_after),
        };
        self.expected_slot.store(expected, Ordering::Relaxed);
        self.high_slot.store(high, Ordering::Relaxed);
        self.record.ended(ran, since_it_came);
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, reason: Reason) {
        self.record.refused(reason);
    }

    /// Returns the record of the tenant's requests.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// By what the decoders of its bodies take turns: one makes a step at a time.
    pub(crate) fn decoder_turns(&self) -> &Arc<Semaphore> {
        self.decoder_turns.get_or_init(|| Arc::new(Semaphore::new(1)))
    }

    /// Streams that it has now.
    pub(crate) fn open_streams(&self) -> u32 {
        self.streams.load(Ordering::Relaxed)
    }

    /// Books an answered request.
    pub(crate) fn book_request(&self) {
        self.record.served();
        self.requests.add(1);
        self.provided.add(1);
    }

    /// Takes one of `limit` places for streams, which are outside the slots.
    pub(crate) fn open_stream(self: &Arc<Self>, limit: u32) -> Option<StreamPlace> {
        let taken = self
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < limit).then_some(open + 1));
        taken.is_ok().then(|| StreamPlace(Arc::clone(self)))
    }
}

/// A tenant's place for a stream, given back when dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace(Arc<Tenant>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Forgettable for Tenant {
    /// What was learned about its slot times is learned again soon; what it holds is not forgiven.
    fn is_forgettable(&self, now: Moment) -> bool {
        let held = [&self.decoding, &self.buffered, &self.validations];
        let held = held.iter().any(|held| held.load(Ordering::Relaxed) > 0);
        self.rate.is_whole(now) && !held && self.slots() == 0 && self.open_streams() == 0
    }
}

/// All tenants that are known, bounded; those beyond it share one entry per class.
#[derive(Debug)]
pub(crate) struct Tenants {
    book: ShardedBook<TenantKey, Tenant, RandomState>,
    others: [Arc<Tenant>; Class::ALL.len()],
    books: Books,
}

/// The meters that usage is booked to.
#[derive(Clone, Debug)]
struct Books {
    meters: MeterBook,
    /// For the node, which is who provides it.
    provided: Meter,
    /// How many tenants there have been.
    tenants: Arc<AtomicU64>,
    limits: Limits,
}

impl Tenants {
    pub(crate) fn new(capacity: usize, scope: &Scope, limits: Limits) -> Self {
        let meters = scope.meters();
        let node = ActorId::new(scope.node()).unwrap_or_else(|_| ActorId::other());
        let provided = meters.meter(&node, "provided.answers");
        let books = Books { meters: meters.clone(), provided, tenants: Arc::default(), limits };
        let other = |class| Arc::new(Tenant::new(TenantKey { class, name: TenantName::Other }, &books));
        Self { book: ShardedBook::new(capacity, RandomState::new()), others: Class::ALL.map(other), books }
    }

    /// What is known of a tenant; a new entry if nothing is.
    pub(crate) fn get(&self, key: &TenantKey, now: Moment) -> Arc<Tenant> {
        let known = self.book.get_or_insert(key, now, || Tenant::new(key.clone(), &self.books));
        known.unwrap_or_else(|_| Arc::clone(&self.others[key.class.index()]))
    }

    /// Returns the number of tenants that have state.
    pub(crate) fn len(&self) -> usize {
        self.book.len()
    }

    /// The busiest tenants with a name and what was served for each, and what was served for all others.
    pub(crate) fn busiest(&self, most: usize) -> (Vec<(TenantKey, u64)>, u64) {
        let (mut named, mut others) = (Vec::new(), 0);
        self.book.visit(|key, tenant| match (&key.name, tenant.record.served_so_far()) {
            (_, 0) => {}
            (TenantName::Named(_), served) => named.push((key.clone(), served)),
            (_, served) => others += served,
        });
        named.sort_by(|(_, a), (_, b)| b.cmp(a));
        others += named.iter().skip(most).map(|(_, served)| served).sum::<u64>();
        others += self.others.iter().map(|tenant| tenant.record.served_so_far()).sum::<u64>();
        named.truncate(most);
        (named, others)
    }

    /// Visits every tenant that is known, those that share an entry last.
    pub(crate) fn visit(&self, mut see: impl FnMut(&TenantKey, &Tenant)) {
        self.book.visit(&mut see);
        for tenant in &self.others {
            see(&tenant.key, tenant);
        }
    }
}
