//! Connections to origins that are at rest, few and not for long.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Clock, lock::Ranked};
use ron_transport::client::{H2Conn, Home, HttpConn};
use types::Moment;

use crate::locks;

/// Connections at rest to one origin.
const MAX_IDLE: usize = 8;
/// Origins with connections at rest.
const MAX_ORIGINS: usize = 64;
/// How long one rests before it is closed.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The connections at rest, by scheme, host and port.
#[derive(Debug)]
pub(super) struct Pool {
    clock: Clock,
    /// Nothing else is locked under it.
    origins: Ranked<HashMap<Box<str>, AtRest>>,
}

#[derive(Debug, Default)]
struct AtRest {
    /// In the order in which they came to rest.
    alone: Vec<(HttpConn, Moment)>,
    /// One that carries many requests at once, and when it was last used.
    shared: Option<(H2Conn, Moment)>,
}

impl AtRest {
    fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.shared.is_none()
    }

    /// Closes what has rested for too long.
    fn sweep(&mut self, now: Moment) {
        let is_young = |since: Moment| now.since(since) < MAX_AGE;
        self.alone.retain_mut(|(conn, since)| is_young(*since) && conn.is_alive());
        self.shared.take_if(|(conn, since)| !conn.is_alive() || conn.in_flight() == 0 && !is_young(*since));
    }
}

impl Pool {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, origins: Ranked::new(&locks::ORIGIN_CONNECTIONS, HashMap::new()) })
    }

    /// The connection that came to rest last.
    pub(super) fn take(&self, origin: &str) -> Option<HttpConn> {
        let now = self.clock.now();
        let mut origins = self.origins.lock();
        let at_rest = origins.get_mut(origin)?;
        at_rest.sweep(now);
        at_rest.alone.pop().map(|(conn, _)| conn)
    }

    /// The connection that others use too, if it has room for one more.
    pub(super) fn shared(&self, origin: &str) -> Option<H2Conn> {
        let now = self.clock.now();
        let mut origins = self.origins.lock();
        let (conn, used) = origins.get_mut(origin)?.shared.as_mut()?;
        *used = now;
        (conn.is_alive() && conn.has_room()).then(|| conn.clone())
    }

    /// Lets others use a connection too.
    pub(super) fn share(&self, origin: &str, conn: &H2Conn) {
        let now = self.clock.now();
        self.with_room_for(origin, |at_rest| at_rest.shared = Some((conn.clone(), now)));
    }

    /// The way home for one response of this origin.
    pub(super) fn way_home(self: &Arc<Self>, origin: &str) -> Arc<WayHome> {
        let (pool, origin) = (Arc::downgrade(self), origin.into());
        Arc::new(WayHome { pool, origin, went_on: AtomicBool::new(false) })
    }

    /// Closes what has rested for too long.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        self.origins.lock().retain(|_, at_rest| {
            at_rest.sweep(now);
            !at_rest.is_empty()
        });
    }

    /// Closes everything that rests.
    pub(super) fn clear(&self) {
        drop(std::mem::take(&mut *self.origins.lock()));
    }

    /// Changes what rests of one origin. Beyond as many as there may be, none is remembered.
    fn with_room_for(&self, origin: &str, change: impl FnOnce(&mut AtRest)) {
        let mut origins = self.origins.lock();
        if let Some(at_rest) = origins.get_mut(origin) {
            return change(at_rest);
        }
        if origins.len() >= MAX_ORIGINS {
            origins.retain(|_, at_rest| !at_rest.is_empty());
        }
        if origins.len() < MAX_ORIGINS {
            change(origins.entry(origin.into()).or_default());
        }
    }
}

/// Where a connection goes when its response is complete, and what was noticed then.
#[derive(Debug)]
pub(super) struct WayHome {
    pool: Weak<Pool>,
    origin: Box<str>,
    went_on: AtomicBool,
}

impl WayHome {
    /// Whether the origin sent more than its response. Told when the response has ended.
    pub(super) fn saw_more(&self) -> bool {
        self.went_on.load(Ordering::Acquire)
    }
}

impl Home for WayHome {
    fn put_back(&self, mut conn: HttpConn) {
        if conn.went_on() {
            return self.went_on();
        }
        let Some(pool) = self.pool.upgrade() else { return };
        let now = pool.clock.now();
        pool.with_room_for(&self.origin, |at_rest| {
            if at_rest.alone.len() < MAX_IDLE {
                at_rest.alone.push((conn, now));
            }
        });
    }

    fn went_on(&self) {
        self.went_on.store(true, Ordering::Release);
    }
}
