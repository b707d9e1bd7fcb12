//! Writes on their way to a server: what is stored of their targets is invalidated, whether or not anybody gets the answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use http::{HeaderMap, Method, StatusCode};
use httpcache::invalidation;
use ron_transport::Request;
use types::Deadline;

use super::{ResponseCache, ask};

/// A write on its way. It is shared by its request and by whatever waits for the server after the request's client has left.
/// If it was sent and the last of them drops it without an answer, the server may have performed it: what is stored of its
/// target is invalidated.
#[derive(Debug)]
pub(crate) struct Written {
    cache: Arc<ResponseCache>,
    is_https: bool,
    host: String,
    target: String,
    method: Method,
    /// How often servers may have got it.
    sent: AtomicU32,
    is_answered: AtomicBool,
}

impl Written {
    /// A request that may change something.
    pub(crate) fn of(cache: &Arc<ResponseCache>, request: &Request, is_https: bool) -> Arc<Self> {
        Arc::new(Self {
            cache: Arc::clone(cache),
            is_https,
            host: ask::host(request).to_owned(),
            target: ask::target(request).into_owned(),
            method: request.method().clone(),
            sent: AtomicU32::new(0),
            is_answered: AtomicBool::new(false),
        })
    }

    /// A server may get it from now on.
    pub(crate) fn is_sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// The server that it was sent to did not get it.
    pub(crate) fn is_unsent(&self) {
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Invalidates what is stored of its target and of what the answer names, if the write has succeeded or an earlier try may
    /// have. Whether something is to be waited for until it cannot come back.
    pub(crate) fn answered(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.is_answered.store(true, Ordering::Relaxed);
        if self.sent.load(Ordering::Relaxed) == 0 {
            // No server got it: the answer is a denial.
            return false;
        }
        // What an earlier try has done can make the last one fail: there is nothing left to delete.
        let may_have_succeeded = self.sent.load(Ordering::Relaxed) > 1;
        if !may_have_succeeded && !invalidation::invalidates(&self.method, status) {
            return false;
        }
        let mut waits = self.invalidate();
        let path = self.target.split('?').next().unwrap_or_default();
        let scheme = ask::scheme(self.is_https);
        for target in invalidation::named_targets(headers, scheme, &self.host, path) {
            waits |= self.cache.invalidate(self.is_https, &self.host, &target);
        }
        waits
    }

    /// Waits until what was invalidated cannot come back with a restart: the client that is told of the write may rely on it.
    pub(crate) async fn settled(&self, deadline: Deadline) {
        // A disk that hangs must not keep the client from its answer for ever.
        self.cache.clock.by(deadline, self.cache.settled(false)).await;
    }

    fn invalidate(&self) -> bool {
        self.cache.invalidate(self.is_https, &self.host, &self.target)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if !*self.is_answered.get_mut() && *self.sent.get_mut() > 0 {
            self.invalidate();
        }
    }
}
