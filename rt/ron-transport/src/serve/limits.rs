//! The limits of one HTTP listener, changeable while it runs.

use std::time::Duration;

use types::Moment;

use super::pace::time_for;

/// What a client may cost. The worst case of memory is `max_conns` × 2 × 64 KiB of buffers (or `max_head_bytes` for each,
/// if that is more), plus `h2_streams` × 2 × 64 KiB for each HTTP/2 connection that uploads and downloads on all its
/// streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// The maximum number of connections.
    pub max_conns: usize,
    /// Connections of one client; an IPv6 /64 is one client.
    pub max_conns_per_client: usize,
    /// Places beyond `max_conns` for clients that found none; see [`ConnInfo::spare`](crate::ConnInfo::spare). A
    /// connection has one for two seconds at most, and less if others come meanwhile: of the client that holds the
    /// most spare places, the oldest connection ends.
    pub spare_conns: usize,
    /// TLS handshake and PROXY header.
    pub handshake_timeout: Duration,
    /// Timeout for a whole request header, and for each wait for more of a body. Like the next ones it is up to a tenth
    /// longer on each connection, at random.
    pub read_timeout: Duration,
    /// Timeout for each wait for the client to read more of a response.
    pub write_timeout: Duration,
    /// Minimum average rate, in bytes per second, at which a client must send a body or read a response; only time
    /// spent waiting for the client counts. 0 for no minimum.
    pub min_rate: u64,
    /// How far a client may fall behind `min_rate` in one transfer, as time spent waiting for it.
    pub min_rate_grace: Duration,
    /// Timeout from the first byte of a request's header to the last byte of its body. Each 16 KiB of the body that
    /// has arrived add a second. Zero for no limit. It is checked while the connection waits for the client.
    pub request_timeout: Duration,
    /// The age, with a random variation of 10 %, at which a connection accepts no more requests: HTTP/1.1 responses
    /// carry `Connection: close`, HTTP/2 clients get a GOAWAY, and requests in progress are completed. `0s` for no
    /// limit.
    pub max_conn_age: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// Between requests, until the connection gives its buffers back.
    pub park_after: Duration,
    /// Header fields in a request.
    pub max_headers: usize,
    /// Bytes in a request's head.
    pub max_head_bytes: usize,
    /// Streams at once on an HTTP/2 connection.
    pub h2_streams: u32,
    /// Streams a client may open and reset before we have looked at them.
    pub h2_pending_resets: usize,
}

/// How long a client may be gone before its connection is looked at.
const LONGEST_UNSEEN: Duration = Duration::from_secs(1);

impl HttpLimits {
    /// The shortest of the times that a connection is judged by: looking that often, none is missed, and a client that has
    /// gone is not served for long.
    pub(super) fn first_look(&self) -> Duration {
        self.read_timeout.min(self.write_timeout).min(self.park_after).min(LONGEST_UNSEEN)
    }
}

impl HttpLimits {
    /// How long a single wait of an HTTP/2 stream may last while other streams of its connection get on.
    pub(super) fn longest_wait(&self) -> Duration {
        self.idle_timeout.max(self.min_rate_grace)
    }

    /// When a request that began at `began` has to have arrived.
    pub(super) fn request_until(&self, began: Moment) -> Moment {
        if self.request_timeout.is_zero() { Moment::END } else { began.after(self.request_timeout) }
    }

    /// When a connection that opened at `opened` takes no more requests: at `max_conn_age`, or up to a tenth of that
    /// earlier or later, as `chance` has it. So connections that opened together do not all close together.
    pub(super) fn last_request_at(&self, opened: Moment, chance: u64) -> Moment {
        if self.max_conn_age.is_zero() {
            return Moment::END;
        }
        let tenth = self.max_conn_age / 10;
        let spread = (tenth.as_nanos() * 2 * u128::from(chance)) >> u64::BITS;
        let spread = Duration::from_nanos(u64::try_from(spread).unwrap_or(u64::MAX));
        opened.after(self.max_conn_age.saturating_sub(tenth).saturating_add(spread))
    }
}

/// Bytes per second that a request has to arrive with to have all the time it needs.
const UNTIMED_RATE: u64 = 16 * 1024;

/// How much longer a request may take of whose body so many bytes have arrived.
pub(crate) fn more_time_for(bytes: usize) -> Duration {
    time_for(bytes as u64, UNTIMED_RATE)
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_conns: 1024,
            max_conns_per_client: 256,
            spare_conns: 0,
            handshake_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(5),
            min_rate: 256,
            min_rate_grace: Duration::from_secs(10),
            request_timeout: Duration::from_secs(300),
            max_conn_age: Duration::from_secs(3600),
            idle_timeout: Duration::from_secs(60),
            park_after: Duration::from_secs(2),
            max_headers: 100,
            max_head_bytes: 32 * 1024,
            h2_streams: 128,
            h2_pending_resets: 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_opened_together_do_not_all_close_together() {
        let limits = HttpLimits { max_conn_age: Duration::from_secs(1000), ..HttpLimits::default() };
        let closes = |chance| limits.last_request_at(Moment::ORIGIN, chance).since(Moment::ORIGIN).as_secs();
        assert_eq!((closes(0), closes(1 << 63), closes(u64::MAX)), (900, 1000, 1099));
        let any_age = HttpLimits { max_conn_age: Duration::ZERO, ..limits };
        assert_eq!(any_age.last_request_at(Moment::ORIGIN, 7), Moment::END);
    }

    #[test]
    fn bytes_that_have_arrived_give_a_request_more_time() {
        assert_eq!(more_time_for(160 * 1024), Duration::from_secs(10));
        assert_eq!(more_time_for(1), Duration::from_nanos(61_035));
    }
}
