//! Host names to addresses: looked up in the kernel's blocking pool, once at a time per name, and remembered.
//!
//! The system's resolver blocks its thread for as long as it likes. So it runs where blocking work is bounded and named,
//! and a name that stops resolving keeps its last addresses for a while: a name server that is down should not take the
//! servers with it.

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ron_kernel::{
    Clock, Fault, Scope,
    blocking::Blocking,
    lock::{Ranked, RankedGuard},
};
use tokio::sync::watch;
use types::Moment;

use crate::{descriptors, locks};

/// Most addresses of one name that are kept, in the resolver's order.
pub const MAX_ADDRESSES: usize = 8;
/// Most names remembered at once.
pub const MAX_NAMES: usize = 1024;
/// How long an answer is used before the name is looked up again.
pub const FRESH: Duration = Duration::from_secs(30);
/// How long an answer stands in for lookups that fail.
pub const STALE: Duration = Duration::from_secs(10 * 60);
/// How long after a failure the name is left alone.
pub const RETRY: Duration = Duration::from_secs(1);
/// How long a caller waits for a new answer when an old one would do.
pub const STALE_WAIT: Duration = Duration::from_millis(100);

/// Why a name has no address for its caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ResolveError {
    /// It was not looked up: too much is being looked up already, or the node stops.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The name exists and has no address.
    #[error("the name has no address")]
    NoAddress,
    /// The system's resolver failed with this error.
    #[error("{0}")]
    Failed(Arc<io::Error>),
}

impl ResolveError {
    /// Whether this machine lacked what a look-up needs, such as a file descriptor. Nothing is known about the name then.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Fault(_) => true,
            Self::NoAddress => false,
            Self::Failed(error) => descriptors::are_exhausted(error),
        }
    }
}

/// Looks names up and remembers the answers. Cheap to clone; clones share what they remember.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<Inner>);

type Addresses = Arc<[IpAddr]>;
type Answer = Result<Addresses, ResolveError>;
type Source = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl Resolver {
    /// A resolver that asks the system.
    #[must_use]
    pub fn new(scope: &Scope) -> Self {
        Self::with_source(scope, ask_the_system)
    }

    /// A resolver that asks `source`, which may block.
    #[must_use]
    pub fn with_source(
        scope: &Scope,
        source: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            blocking: scope.blocking().clone(),
            clock: scope.clock(),
            source: Box::new(source),
            names: Ranked::new(&locks::RESOLVER, HashMap::new()),
        }))
    }

    /// The addresses of `host`, at least one and at most [`MAX_ADDRESSES`]. An IP address is its own answer.
    ///
    /// Cancel safe: a lookup that has begun runs to its end in the blocking pool and serves the next caller.
    ///
    /// # Errors
    /// [`ResolveError`], if there is no recent enough answer to fall back on.
    pub async fn lookup(&self, host: &str, port: u16) -> Result<Arc<[SocketAddr]>, ResolveError> {
        self.lookup_within(host, port, FRESH).await
    }

    /// The same, with an answer that is younger than `max_age` where that is less than [`FRESH`].
    ///
    /// Cancel safe, as [`lookup`](Self::lookup) is.
    ///
    /// # Errors
    /// [`ResolveError`], if there is no recent enough answer to fall back on.
    pub async fn lookup_within(
        &self,
        host: &str,
        port: u16,
        max_age: Duration,
    ) -> Result<Arc<[SocketAddr]>, ResolveError> {
        if let Ok(ip) = host.parse() {
            return Ok(Arc::new([SocketAddr::new(ip, port)]));
        }
        let addresses = self.addresses(host, max_age).await?;
        Ok(addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect())
    }

    async fn addresses(&self, host: &str, max_age: Duration) -> Answer {
        match self.0.remembered(host, max_age) {
            Memory::Fresh(answer) => answer,
            Memory::Nothing => self.ask(host, max_age).await,
            Memory::Stale(old) => match tokio::time::timeout(STALE_WAIT, self.ask(host, max_age)).await {
                Ok(Ok(new)) => Ok(new),
                _ => Ok(old),
            },
        }
    }

    /// Resolves the name, or waits for the task that does.
    async fn ask(&self, host: &str, max_age: Duration) -> Answer {
        loop {
            match Inner::turn(&self.0, host, max_age)? {
                Turn::Answered(answer) => return answer,
                Turn::Ours(lookup) => {
                    let answer = self.0.blocking.run_apart("resolve a name", || lookup.run()).await;
                    return answer.map_err(Fault::from)?;
                }
                // Its end is told by the sender being dropped. If it gave no answer, because its caller left before it
                // had a thread, it is our turn.
                Turn::Theirs(mut end) => drop(end.changed().await),
            }
        }
    }
}

struct Inner {
    blocking: Blocking,
    clock: Clock,
    source: Box<Source>,
    /// Nothing else is locked under it.
    names: Ranked<HashMap<Box<str>, Name>>,
}

/// What is known of a name.
#[derive(Default)]
struct Name {
    answer: Option<Answer>,
    learned: Moment,
    ask_again: Moment,
    /// Whether the last lookup failed, so that the name is left alone until `ask_again`.
    failed: bool,
    /// Closes when the lookup in progress ends.
    underway: Option<watch::Receiver<()>>,
}

enum Memory {
    Nothing,
    Stale(Addresses),
    Fresh(Answer),
}

enum Turn {
    Answered(Answer),
    Theirs(watch::Receiver<()>),
    Ours(Lookup),
}

impl Name {
    fn remembered(&self, now: Moment, max_age: Duration) -> Memory {
        let young_enough = self.failed || now < self.learned.after(max_age);
        match &self.answer {
            Some(answer) if now < self.ask_again && young_enough => Memory::Fresh(answer.clone()),
            Some(Ok(addresses)) if now < self.learned.after(STALE) => Memory::Stale(Arc::clone(addresses)),
            _ => Memory::Nothing,
        }
    }

    /// Learns what a lookup found, and gives what is true from now on.
    fn learn(&mut self, found: Answer, now: Moment) -> Answer {
        let old = self.remembered(now, Duration::ZERO);
        self.failed = found.is_err();
        let (answer, ask_again) = match (found, old) {
            (Ok(addresses), _) => {
                self.learned = now;
                (Ok(addresses), FRESH)
            }
            (Err(_), Memory::Stale(old)) => (Ok(old), RETRY),
            (Err(error), _) => (Err(error), RETRY),
        };
        self.ask_again = now.after(ask_again);
        self.answer.insert(answer).clone()
    }
}

impl Inner {
    fn names(&self) -> RankedGuard<'_, HashMap<Box<str>, Name>> {
        self.names.lock()
    }

    fn remembered(&self, host: &str, max_age: Duration) -> Memory {
        let now = self.clock.now();
        self.names().get(host).map_or(Memory::Nothing, |name| name.remembered(now, max_age))
    }

    fn turn(inner: &Arc<Self>, host: &str, max_age: Duration) -> Result<Turn, ResolveError> {
        let now = inner.clock.now();
        let mut names = inner.names();
        if !names.contains_key(host) {
            make_room(&mut names)?;
            names.insert(host.into(), Name::default());
        }
        let name = names.get_mut(host).expect("it is there, or was just put there");
        if let Memory::Fresh(answer) = name.remembered(now, max_age) {
            return Ok(Turn::Answered(answer));
        }
        if let Some(end) = &name.underway {
            return Ok(Turn::Theirs(end.clone()));
        }
        let (ends, end) = watch::channel(());
        name.underway = Some(end);
        Ok(Turn::Ours(Lookup { inner: Arc::clone(inner), host: host.into(), _ends: ends }))
    }
}

/// Forgets the name whose answer is the oldest, if there are too many.
fn make_room(names: &mut HashMap<Box<str>, Name>) -> Result<(), ResolveError> {
    if names.len() < MAX_NAMES {
        return Ok(());
    }
    let at_rest = names.iter().filter(|(_, name)| name.underway.is_none());
    let oldest = at_rest.min_by_key(|(_, name)| name.learned).map(|(host, _)| host.clone());
    oldest.and_then(|host| names.remove(&host)).map(drop).ok_or(ResolveError::Fault(Fault::Busy))
}

/// The one lookup of a name. It ends when it is dropped, whether it ran or not; then those who wait go on.
struct Lookup {
    inner: Arc<Inner>,
    host: Box<str>,
    _ends: watch::Sender<()>,
}

impl Lookup {
    /// Asks, and remembers the answer. Blocks.
    fn run(self) -> Answer {
        let found = match (self.inner.source)(&self.host) {
            Ok(addresses) if addresses.is_empty() => Err(ResolveError::NoAddress),
            Ok(addresses) => Ok(addresses.into_iter().take(MAX_ADDRESSES).collect()),
            Err(error) => Err(ResolveError::Failed(Arc::new(error))),
        };
        let now = self.inner.clock.now();
        let mut names = self.inner.names();
        match names.get_mut(&self.host) {
            Some(name) => name.learn(found, now),
            None => found,
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let mut names = self.inner.names();
        if let Some(name) = names.get_mut(&self.host) {
            name.underway = None;
            if name.answer.is_none() {
                names.remove(&self.host);
            }
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("names", &self.names().len()).finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "called in the blocking pool alone")]
fn ask_the_system(host: &str) -> io::Result<Vec<IpAddr>> {
    use std::net::ToSocketAddrs as _;
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}
