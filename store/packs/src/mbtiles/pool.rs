//! A few connections, each used by one thread at a time.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::mbtiles::connection::Connection;

#[derive(Debug)]
pub(crate) struct Pool {
    free: Mutex<Vec<Connection>>,
    returned: Condvar,
}

/// A connection that comes back by itself.
struct Lent<'a> {
    connection: Option<Connection>,
    pool: &'a Pool,
}

impl Pool {
    /// A pool of these connections, one at least.
    pub(crate) fn new(connections: Vec<Connection>) -> Self {
        Self { free: Mutex::new(connections), returned: Condvar::new() }
    }

    /// Does something with a connection. Waits for one if need be: whatever is done with them is bounded, and so is the number
    /// of threads that wait.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Connection) -> T) -> T {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.returned.wait_while(free, |free| free.is_empty());
        let connection = wait.unwrap_or_else(PoisonError::into_inner).pop();
        let lent = Lent { connection, pool: self };
        act(lent.connection.as_ref().expect("waited until there was one"))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.connection.take());
        drop(free);
        self.pool.returned.notify_one();
    }
}
