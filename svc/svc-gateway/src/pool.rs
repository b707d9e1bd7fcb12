//! Idle connections of one core to one server, newest first, bounded in number and in age.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ron_kernel::{Clock, metrics::Counter};
use ron_transport::client::{Home, HttpConn};
use types::Moment;

use crate::UpstreamConfig;

/// Idle connections. On a per-core data plane its lock is never contended; it is there so that the same code runs
/// on a shared runtime.
#[derive(Debug)]
pub(crate) struct Pool {
    /// In the order in which they fell idle.
    idle: Mutex<Vec<Idle>>,
    max_idle: usize,
    max_age: Duration,
    clock: Clock,
    /// Bodies that the server left unfinished.
    stalls: Counter,
}

#[derive(Debug)]
struct Idle {
    conn: HttpConn,
    since: Moment,
}

impl Pool {
    pub(crate) fn new(config: &UpstreamConfig, clock: Clock, stalls: Counter) -> Self {
        let (max_idle, max_age) = (config.max_idle, config.idle_timeout.as_duration());
        Self { idle: Mutex::default(), max_idle, max_age, clock, stalls }
    }

    /// The connection used last that is still alive. Dead and aged ones met on the way are dropped.
    pub(crate) fn take(&self) -> Option<HttpConn> {
        loop {
            let mut idle = self.idle().pop()?;
            if self.is_fit(&mut idle) {
                return Some(idle.conn);
            }
        }
    }

    /// Closes the connections that are too old, and those that the server has closed: until we close them too, the
    /// system keeps their sockets.
    pub(crate) fn sweep(&self) {
        let swept: Vec<Idle> = self.idle().extract_if(.., |idle| !self.is_fit(idle)).collect();
        // Closed only here, after the lock was let go.
        drop(swept);
    }

    fn is_fit(&self, idle: &mut Idle) -> bool {
        self.clock.now().since(idle.since) < self.max_age && idle.conn.is_alive()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Pool {
    fn put_back(&self, conn: HttpConn) {
        let since = self.clock.now();
        let mut idle = self.idle();
        if idle.len() < self.max_idle {
            idle.push(Idle { conn, since });
        }
    }

    fn stalled(&self) {
        self.stalls.inc();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::stream::Stream;
    use std::{
        io::{ErrorKind, Read},
        os::unix::net::UnixStream,
    };

    const MAX_AGE: Duration = Duration::from_secs(60);

    fn pool(max_idle: usize) -> Pool {
        let config = UpstreamConfig { max_idle, idle_timeout: MAX_AGE.into(), ..UpstreamConfig::default() };
        Pool::new(&config, Clock::start(), Counter::default())
    }

    /// Puts a connection into the pool; gives the server's end of it.
    async fn put_one(pool: &Pool) -> UnixStream {
        let (ours, servers) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        servers.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(tokio::net::UnixStream::from_std(ours).unwrap());
        pool.put_back(HttpConn::open(stream).await.unwrap());
        servers
    }

    fn is_open(mut servers_end: &UnixStream) -> bool {
        servers_end.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_closes_what_is_too_old_and_keeps_what_is_not() {
        let pool = pool(8);
        let old = put_one(&pool).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let young = put_one(&pool).await;
        tokio::time::advance(MAX_AGE - Duration::from_secs(1) - Duration::from_millis(1)).await;
        pool.sweep();
        assert!(is_open(&old) && is_open(&young));
        tokio::time::advance(Duration::from_millis(1)).await;
        pool.sweep();
        assert!(!is_open(&old) && is_open(&young));
        assert!(pool.take().is_some());
        assert!(pool.take().is_none());
    }

    #[tokio::test]
    async fn a_sweep_closes_what_the_server_has_closed() {
        let pool = pool(8);
        let (closing, staying) = (put_one(&pool).await, put_one(&pool).await);
        closing.shutdown(std::net::Shutdown::Write).unwrap();
        while is_open(&closing) {
            // Lets the runtime look at its sockets.
            tokio::task::yield_now().await;
            pool.sweep();
        }
        assert!(is_open(&staying));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_too_old_is_not_used_again_even_before_the_sweep() {
        let pool = pool(8);
        let old = put_one(&pool).await;
        tokio::time::advance(MAX_AGE).await;
        assert!(pool.take().is_none());
        assert!(!is_open(&old));
    }

    #[tokio::test]
    async fn one_connection_too_many_is_closed() {
        let pool = pool(1);
        let (first, second) = (put_one(&pool).await, put_one(&pool).await);
        assert!(is_open(&first) && !is_open(&second));
    }
}
