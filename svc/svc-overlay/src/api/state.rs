//! What the handlers of all cores share.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use captoken::TokenId;
use oap::Topic;
use quota::{Bucket, Rate, ShardedBook};
use ron_kernel::{Scope, supervisor::Children};
use ron_transport::caps::ClientKey;
use topics::Filter;
use types::{Deadline, Reason, Refusal};

use super::{
    access::{Caller, Origins},
    metrics::{ApiMetrics, TooMuch},
    places::{Full, Place, PlaceLimits, Places},
    publishing::{NoTurn, Publishing, Turn},
    topology::SOCKET,
};
use crate::{
    ApiAuth, ApiConfig, Cursor, Feed, OverlayError, Published, allowance::Allowance, gossip::By,
    shared::Shared,
};

/// Callers whose publications are counted; the others share one allowance.
const CALLERS: usize = 16_384;
/// An application may subscribe as often as it has places, at once and within this time, or so many times if that is more: a
/// subscription costs the shards a look at all of their topics.
const SUBSCRIBES_WITHIN: Duration = Duration::from_secs(20);
const SUBSCRIBES_MIN: u32 = 1024;
/// When somebody who found no place should come back.
const NO_PLACE_RETRY: Duration = Duration::from_secs(5);
/// When somebody should come back who was refused because too much was being published.
const BUSY_RETRY: Duration = Duration::from_millis(200);

/// What a caller is told that publishes too much.
const PUBLISH_LIMIT: &str =
    "more publications than allowed: see `overlay.api.publish_rps` and `client_publish_rps`";

/// What a configuration says, ready for use.
#[derive(Debug)]
pub(super) struct ApiSettings {
    pub(super) auth: ApiAuth,
    pub(super) origins: Origins,
    places: PlaceLimits,
    room: usize,
    subscribe_rate: Option<Rate>,
    token_rate: Option<Rate>,
    client_rate: Option<Rate>,
    publish_timeout: Duration,
    pub(super) write_timeout: Duration,
}

impl ApiSettings {
    pub(super) fn new(config: &ApiConfig) -> Self {
        let rate = |rps: u32| Rate::per_second(rps, rps).ok();
        let places = u32::try_from(config.per_client().max(config.per_token())).unwrap_or(u32::MAX);
        let subscribes = places.max(SUBSCRIBES_MIN);
        Self {
            auth: config.auth,
            origins: Origins::new(&config.allow_origins),
            places: PlaceLimits {
                node: config.max_subscribers,
                client: config.per_client(),
                token: config.per_token(),
            },
            room: config.box_bytes.as_usize(),
            subscribe_rate: Rate::new(subscribes, SUBSCRIBES_WITHIN, subscribes).ok(),
            token_rate: rate(config.publish_rps),
            client_rate: rate(config.client_publish_rps),
            publish_timeout: config.publish_timeout.as_duration(),
            write_timeout: config.write_timeout.as_duration(),
        }
    }
}

/// An application: the key by which topics are shared and the rate of publications is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Token(TokenId),
    Client(ClientKey),
}

impl Who {
    /// A caller with a token is known by that, from whichever address it comes; another one by its address.
    pub(super) fn new(client: ClientKey, caller: &Caller) -> Self {
        caller.token().map_or(Self::Client(client), Self::Token)
    }
}

/// What the handlers of all cores share.
#[derive(Debug)]
pub(super) struct State {
    pub(super) scope: Scope,
    pub(super) overlay: Arc<Shared>,
    pub(super) settings: ArcSwap<ApiSettings>,
    pub(super) metrics: ApiMetrics,
    pub(super) sockets: Children,
    places: Arc<Places>,
    /// One for what clients publish, one for what is published with tokens, one for subscriptions.
    books: [ShardedBook<Who, Allowance, RandomState>; 3],
    /// For those who find no room in a book.
    others: [Bucket; 3],
    publishing: Publishing<Who>,
    /// Makes the numbers of applications.
    numbers: RandomState,
}

impl State {
    pub(super) fn new(scope: &Scope, overlay: &Arc<Shared>, config: &ApiConfig) -> Arc<Self> {
        let book = || ShardedBook::new(CALLERS, RandomState::new());
        let state = Arc::new(Self {
            scope: scope.clone(),
            overlay: Arc::clone(overlay),
            settings: ArcSwap::from_pointee(ApiSettings::new(config)),
            metrics: ApiMetrics::new(scope),
            sockets: scope.children(&SOCKET),
            places: Arc::default(),
            books: [book(), book(), book()],
            others: Default::default(),
            publishing: Publishing::new(config.max_publishing, CALLERS),
            numbers: RandomState::new(),
        });
        let watched = Arc::downgrade(&state);
        scope.sampled(move || {
            let Some(state) = watched.upgrade() else { return };
            state.metrics.subscribers.set(i64::try_from(state.places.taken()).unwrap_or(i64::MAX));
        });
        state
    }

    /// Seconds of Unix time.
    pub(super) fn unix(&self) -> u64 {
        self.scope.clock().unix().as_secs()
    }

    /// Why what a caller showed is no longer good, if it is not.
    pub(super) fn over(&self, caller: &Caller) -> Option<&'static str> {
        caller.over(self.settings.load().auth, &self.overlay.settings.load().tokens, self.unix())
    }

    /// Takes a place for a subscriber.
    pub(super) fn place(&self, client: ClientKey, caller: &Caller) -> Result<Place, Refusal> {
        let limits = self.settings.load().places;
        self.places.take(client, caller.token(), limits).map_err(|full| {
            self.metrics.no_place(full);
            let detail = match full {
                Full::Node => format!("{} subscribers are there already", limits.node),
                Full::Client => format!("{} subscribers from this address are there already", limits.client),
                Full::Token => format!("{} subscribers with this token are there already", limits.token),
            };
            let reason = if full == Full::Node { Reason::Busy } else { Reason::Quota };
            Refusal::new(reason, detail).retry_after(NO_PLACE_RETRY)
        })
    }

    /// Subscribes to what the filter matches, from after the event at the cursor or from now.
    pub(super) async fn subscribe(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        who: Who,
    ) -> Result<Feed, Refusal> {
        let settings = self.settings.load_full();
        if let Some(rate) = settings.subscribe_rate.as_ref().filter(|_| who != Who::Client(ClientKey::Unix)) {
            let detail = "more subscriptions than a caller may begin in so short a time";
            self.spend(2, who, rate, TooMuch::Subscribe, detail)?;
        }
        let room = settings.room;
        Ok(Feed::open(&self.overlay, filter, self.number_of(who), after, room).await?)
    }

    /// The number by which the shards tell applications apart. Nobody outside can choose two that have the same.
    fn number_of(&self, who: Who) -> u64 {
        self.numbers.hash_one(who)
    }

    /// Lets a publication pass that comes no faster than allowed.
    pub(super) fn admit_publication(&self, client: ClientKey, caller: &Caller) -> Result<(), Refusal> {
        let settings = self.settings.load();
        let (by_client, who) = (Who::Client(client), Who::new(client, caller));
        let is_capped = client != ClientKey::Unix;
        if let Some(rate) = settings.client_rate.as_ref().filter(|_| is_capped) {
            self.spend(0, by_client, rate, TooMuch::Client, PUBLISH_LIMIT)?;
        }
        if let Some(rate) = settings.token_rate.as_ref().filter(|_| is_capped || caller.token().is_some()) {
            self.spend(1, who, rate, TooMuch::Token, PUBLISH_LIMIT)?;
        }
        Ok(())
    }

    fn spend(
        &self,
        book: usize,
        who: Who,
        rate: &Rate,
        why: TooMuch,
        detail: &'static str,
    ) -> Result<(), Refusal> {
        let now = self.scope.clock().now();
        let spent = match self.books[book].get_or_insert(&who, now, Allowance::default) {
            Ok(allowance) => allowance.check(rate, now),
            Err(quota::Full) => self.others[book].check(rate, now),
        };
        spent.map(drop).map_err(|exhausted| {
            self.metrics.too_much(why);
            Refusal::new(Reason::Quota, detail).retry_after(exhausted.wait)
        })
    }

    /// Takes a place for a publication that waits for its verdict.
    fn turn(&self, who: Who) -> Result<Turn<'_>, Refusal> {
        // A Unix socket is a local proxy's, which speaks for many.
        let who = Some(&who).filter(|who| **who != Who::Client(ClientKey::Unix));
        self.publishing.take(who, self.scope.clock().now()).map_err(|full| {
            self.metrics.too_much(TooMuch::Publishing);
            let (reason, detail) = match full {
                NoTurn::Node => (Reason::Busy, "as many publications wait for their verdicts as may"),
                NoTurn::Share => {
                    (Reason::Quota, "half of `overlay.api.max_publishing` publications of this caller wait")
                }
            };
            Refusal::new(reason, detail).retry_after(BUSY_RETRY)
        })
    }

    /// Publishes, and tells what became of it, before `wished`.
    pub(super) async fn publish(
        &self,
        topic: Topic,
        body: Bytes,
        wished: Deadline,
        who: Who,
    ) -> Result<Published, Refusal> {
        if body.len() > oap::PUBLICATION_MAX {
            self.overlay.metrics.rejected("size");
            return Err(OverlayError::FrameTooLarge.into());
        }
        self.overlay.admit_publication()?;
        let _turn = self.turn(who)?;
        let patience = self.settings.load().publish_timeout;
        let deadline = wished.tightened(self.scope.clock().within(patience));
        // A node that is idle would still publish it: nobody waits for that any more.
        if deadline.has_passed(self.scope.clock().now()) {
            self.scope.metrics().io_timeouts("publish").inc();
            return Err(OverlayError::Timeout { op: "publish" }.into());
        }
        let published = self.overlay.gossip.publish(topic, body, By::Application(self.number_of(who)));
        let published = self.scope.by("publish", deadline, published).await?;
        published.map_err(|error| {
            let refusal = Refusal::from(error);
            match refusal.reason {
                Reason::Busy if refusal.retry_after.is_none() => refusal.retry_after(BUSY_RETRY),
                _ => refusal,
            }
        })
    }
}
