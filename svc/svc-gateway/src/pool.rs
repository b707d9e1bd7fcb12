//! Idle connections of one core to one server, newest first, bounded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ron_transport::client::{Home, HttpConn};

/// Idle connections. On a per-core data plane its lock is never contended; it is there so that the same code runs
/// on a shared runtime.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<HttpConn>>,
    max_idle: usize,
}

impl Pool {
    pub(crate) fn new(max_idle: usize) -> Self {
        Self { idle: Mutex::default(), max_idle }
    }

    /// The connection used last that is still alive. Dead ones met on the way are dropped.
    pub(crate) fn take(&self) -> Option<HttpConn> {
        loop {
            let mut conn = self.idle().pop()?;
            if conn.is_alive() {
                return Some(conn);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<HttpConn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Pool {
    fn put_back(&self, conn: HttpConn) {
        let mut idle = self.idle();
        if idle.len() < self.max_idle {
            idle.push(conn);
        }
    }
}
