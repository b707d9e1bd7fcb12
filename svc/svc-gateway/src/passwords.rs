//! Checking passwords: slow on purpose, so few at once, never on a core that serves requests, and not again for what was
//! right a moment ago.

mod hash;
mod memo;
mod places;
mod users;

use std::{collections::BTreeMap, hash::RandomState, path::PathBuf, sync::Arc, time::Duration};

use quota::{Bucket, Rate, ShardedBook};
use ron_kernel::{
    Clock, Scope,
    blocking::Blocking,
    metrics::QueueMetrics,
    topology::{Policy, QueueSpec},
};
use ron_transport::caps::ClientKey;
use types::{Deadline, Moment, Reason, Refusal};

pub use hash::{HashError, hash_password};
use memo::Memo;
use places::{Place, Places};
pub(crate) use users::Users;
pub use users::{LineProblem, UsersError};

use crate::{GatewayConfig, basic_auth::Shown};

/// Checks at once. Each takes a thread of the blocking pool, and up to 128 MiB if the file of users says so.
const AT_ONCE: usize = 2;
/// Wrong passwords of one address that are checked at once, and then one in five seconds.
const TRIES: u32 = 20;
const TRY_AGAIN_EVERY: Duration = Duration::from_secs(5);
/// Addresses whose wrong passwords are counted; the others share one count. About 100 bytes each.
const MAX_ADDRESSES: usize = 16_384;
/// How long a request may wait for its check.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// When a request that could not wait may be tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Requests whose password is to be checked.
pub(crate) const PASSWORD_QUEUE: QueueSpec = QueueSpec {
    name: "passwords",
    capacity: 128,
    policy: Policy::RejectNew,
    from: "requests on routes with `basic_auth` whose password is not remembered",
    to: "two threads of the blocking pool",
    doc: "addresses take turns, for 10 s at most; when it is full, a request of the address with the most is refused; \
     an address may send 20 wrong passwords, then one every five seconds",
};

/// Checks passwords, for all cores.
#[derive(Debug)]
pub(crate) struct Passwords {
    clock: Clock,
    blocking: Blocking,
    places: Arc<Places>,
    queue: QueueMetrics,
    memo: Memo,
    rate: Option<Rate>,
    tries: ShardedBook<ClientKey, Bucket, RandomState>,
    /// Of everybody there was no more room for.
    other: Arc<Bucket>,
}

impl Passwords {
    pub(crate) fn new(scope: &Scope) -> Self {
        Self {
            clock: scope.clock(),
            blocking: scope.blocking().clone(),
            places: Arc::new(Places::new(AT_ONCE, PASSWORD_QUEUE.capacity)),
            queue: scope.metrics().queue(PASSWORD_QUEUE.name, "request"),
            memo: Memo::new(),
            rate: Rate::new(1, TRY_AGAIN_EVERY, TRIES).ok(),
            tries: ShardedBook::new(MAX_ADDRESSES, RandomState::new()),
            other: Arc::default(),
        }
    }

    /// Requests that wait for their check.
    pub(crate) fn sample(&self) {
        self.queue.depth.set(i64::try_from(self.places.waiting()).unwrap_or(i64::MAX));
    }

    /// Makes sure that a password is right, for a client at this address.
    ///
    /// Cancel safe: a check that has begun goes on to its end, and its result is lost.
    ///
    /// # Errors
    /// `unauth` if it is not, `quota` if too many of the address were wrong, `busy` if too many checks wait.
    pub(crate) async fn check(
        &self,
        users: &Arc<Users>,
        shown: Shown,
        client: ClientKey,
        deadline: Deadline,
    ) -> Result<String, Refusal> {
        let now = self.clock.now();
        // Of the name alone, so that a name that is not there always meets the same hash.
        let chance = self.memo.sum(&[shown.user.as_bytes()]).chance();
        let (hash, is_user) = users.hash_of(&shown.user, chance);
        let sum = self.memo.sum(&[shown.user.as_bytes(), hash.text().as_bytes(), &shown.password]);
        if is_user && self.memo.knows(&sum, now) {
            return Ok(shown.user);
        }
        let tries = self.tries(client, now);
        // Counted once the check begins. Many requests of one page may wait with the same password, and need no check once
        // the first of them was right.
        self.count(&tries, now)?;
        self.refund(&tries);
        let place = self.place(client, deadline.tightened(Deadline::within(now, MAX_WAIT))).await?;
        let now = self.clock.now();
        if is_user && self.memo.knows(&sum, now) {
            return Ok(shown.user);
        }
        self.count(&tries, now)?;
        let (users, user) = (Arc::clone(users), shown.user.clone());
        let right = move || {
            let _until_done = place;
            users.hash_of(&shown.user, chance).0.fits(&shown.password)
        };
        let checked = self.blocking.run("check a password", right).await;
        let is_right = checked.map_err(|error| {
            tracing::warn!(%error, "a password could not be checked");
            busy()
        })?;
        if !(is_right && is_user) {
            return Err(Refusal::new(Reason::Unauth, "the user name or the password is wrong"));
        }
        self.memo.add(sum, self.clock.now());
        self.refund(&tries);
        Ok(user)
    }

    /// What an address has left of wrong passwords.
    fn tries(&self, client: ClientKey, now: Moment) -> Arc<Bucket> {
        let tries = self.tries.get_or_insert(&client, now, Bucket::default);
        tries.unwrap_or_else(|_| Arc::clone(&self.other))
    }

    /// Counts a check for its address, as long as it may turn out wrong.
    fn count(&self, tries: &Bucket, now: Moment) -> Result<(), Refusal> {
        let Some(rate) = &self.rate else { return Ok(()) };
        let counted = tries.check(rate, now);
        counted.map(drop).map_err(|used_up| {
            let detail = "too many passwords from this address were wrong";
            Refusal::new(Reason::Quota, detail).retry_after(used_up.wait)
        })
    }

    /// Waits for its turn.
    async fn place(&self, client: ClientKey, deadline: Deadline) -> Result<Place, Refusal> {
        let left = deadline.remaining(self.clock.now());
        let place = tokio::time::timeout(left, Places::take(&self.places, client)).await.ok().flatten();
        place.ok_or_else(|| {
            self.queue.busy.inc();
            self.queue.dropped.inc();
            busy()
        })
    }

    /// Has a check count for nothing: the password was right, or was not looked at.
    fn refund(&self, tries: &Bucket) {
        if let Some(rate) = &self.rate {
            tries.refund(rate);
        }
    }
}

fn busy() -> Refusal {
    Refusal::new(Reason::Busy, "too many passwords are being checked").retry_after(RETRY)
}

/// The users of each file that routes name. Blocking.
///
/// # Errors
/// [`UsersError`] of the first file that cannot be used.
pub(crate) fn load_users(config: &GatewayConfig) -> Result<BTreeMap<PathBuf, Arc<Users>>, UsersError> {
    let mut loaded = BTreeMap::new();
    for basic in config.route.iter().filter_map(|route| route.basic_auth.as_ref()) {
        if !loaded.contains_key(&basic.users_path) {
            loaded.insert(basic.users_path.clone(), Arc::new(Users::load(&basic.users_path)?));
        }
    }
    Ok(loaded)
}

/// Makes sure that the files of users that a configuration names can be used. Blocking.
///
/// # Errors
/// [`UsersError`] of the first file that cannot.
pub fn check_users(config: &GatewayConfig) -> Result<(), UsersError> {
    load_users(config).map(drop)
}
