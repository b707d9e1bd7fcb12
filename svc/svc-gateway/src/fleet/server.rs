//! A connection to the store: Redis, Valkey, or what speaks their protocol.
//!
//! It is our own client, over the dialer and the TLS that upstreams have: it needs five commands, the usual clients start
//! tasks that nobody supervises, and bring along the URL library with its tables of Unicode, which `deny.toml` bans.

use std::{io, time::Duration};

use resp::{Malformed, Reply, write_command};
use ron_kernel::Clock;
use ron_transport::{
    addr::{Host, Target},
    dial::{DialError, dial},
    resolve::Resolver,
    stream::Stream,
    tls::{ClientTls, HandshakeError, TlsStream},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::config::QuotaStore;

/// The oldest major version that runs scripts which read the time and then write.
const OLDEST: u32 = 5;
/// How much of an error of the server is shown.
const MAX_SHOWN: usize = 120;
/// The most bytes of replies that wait to be read.
const MAX_UNREAD: usize = 256 * 1024;
/// How long dialling, the handshake and each exchange may take.
pub(super) const TIMEOUT: Duration = Duration::from_millis(500);

/// Gives out tokens of a limit.
const LEASE: &str = include_str!("lease.lua");
/// Enters this gateway into the list of gateways.
const BEAT: &str = include_str!("beat.lua");

/// Why the store is of no use now.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerError {
    /// The server cannot be reached.
    #[error("{0}")]
    Dial(String),
    /// It did not prove to be who it should be.
    #[error("its certificate is refused: {0}")]
    Handshake(#[from] HandshakeError),
    /// It did not answer in time.
    #[error("it did not answer within {TIMEOUT:?}")]
    Timeout,
    /// The connection broke off.
    #[error("the connection broke off: {0}")]
    Io(#[from] io::Error),
    /// It closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// It speaks something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Something else was asked for.
    #[error("it answers something that was not asked for: is it Redis?")]
    Unexpected,
    /// The user name or the password is wrong.
    #[error("it refuses the user name or the password ({0})")]
    Credentials(String),
    /// The password is missing.
    #[error("it wants a password (NOAUTH)")]
    NoCredentials,
    /// There is no memory left.
    #[error("its memory is full (OOM): raise `maxmemory`, or have it evict keys")]
    Full,
    /// The server is a replica, or part of a cluster.
    #[error("it is a node of a cluster or a replica, and does not take writes ({0})")]
    Elsewhere(String),
    /// The version of the server is too old.
    #[error("its version is {0}; {OLDEST}.0 or later is needed")]
    TooOld(String),
    /// Any other error that it answers.
    #[error("it answers: {0}")]
    Refused(String),
}

/// Where the store is, and how it is spoken to.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) store: QuotaStore,
    pub(super) tls: Option<ClientTls>,
    pub(super) resolver: Resolver,
    pub(super) clock: Clock,
}

/// What a connection is made of.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl Transport for Stream {}
impl Transport for TlsStream<Stream> {}

/// A connection that is ready for questions.
pub(super) struct Connection {
    transport: Box<dyn Transport>,
    clock: Clock,
    unread: Vec<u8>,
    lease: String,
    beat: String,
}

impl Server {
    /// Connects, proves who we are, checks the version and loads the scripts.
    ///
    /// Cancel safe: dropping the future closes the connection.
    pub(super) async fn connect(&self) -> Result<Connection, ServerError> {
        let transport = self.dial().await?;
        let mut connection = Connection {
            transport,
            clock: self.clock,
            unread: Vec::new(),
            lease: String::new(),
            beat: String::new(),
        };
        connection.authenticate(&self.store).await?;
        connection.check_version().await?;
        connection.lease = connection.load(LEASE).await?;
        connection.beat = connection.load(BEAT).await?;
        Ok(connection)
    }

    async fn dial(&self) -> Result<Box<dyn Transport>, ServerError> {
        let endpoint = &self.store.endpoint;
        let stream = dial(endpoint, &self.resolver, TIMEOUT).await.map_err(|error| unreachable(&error))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = match endpoint.target() {
            Target::Tcp { host: Host::Ip(ip), .. } => ip.to_string(),
            Target::Tcp { host: Host::Name(name), .. } => name.clone(),
            Target::Unix(_) => "localhost".to_owned(),
        };
        Ok(Box::new(tls.connect(stream, &name, TIMEOUT).await?))
    }
}

/// Without the endpoint, which would be shown as one of HTTP.
fn unreachable(error: &DialError) -> ServerError {
    ServerError::Dial(match error {
        DialError::Timeout { after, .. } => format!("it cannot be reached within {after:?}"),
        DialError::Refused { .. } => "it refuses the connection".to_owned(),
        DialError::Resolve { source, .. } => format!("its name does not resolve: {source}"),
        DialError::Proxy { source, .. } => format!("it cannot be reached: {source}"),
        DialError::Io { source, .. } => format!("it cannot be reached: {source}"),
    })
}

impl Connection {
    async fn authenticate(&mut self, store: &QuotaStore) -> Result<(), ServerError> {
        let (user, password) = (store.user.as_bytes(), store.password.expose().as_bytes());
        let words: [&[u8]; 3] = [b"AUTH", user, password];
        let without_user: [&[u8]; 2] = [b"AUTH", password];
        if !user.is_empty() || !password.is_empty() {
            // A server that does not know the command repeats what it was sent: only the first word is shown.
            let words = if user.is_empty() { &without_user[..] } else { &words };
            if let Reply::Error(error) = self.call(words).await? {
                return Err(ServerError::Credentials(code(&error).to_owned()));
            }
        }
        if store.database != 0 {
            self.done(&[b"SELECT", store.database.to_string().as_bytes()]).await?;
        }
        Ok(())
    }

    /// Refuses a server that is too old. One that does not tell its version is taken as it is.
    async fn check_version(&mut self) -> Result<(), ServerError> {
        match self.call(&[b"INFO", b"server"]).await? {
            Reply::Bulk(info) => match version(&info) {
                Some((version, major)) if major < OLDEST => Err(ServerError::TooOld(version.to_owned())),
                _ => Ok(()),
            },
            Reply::Error(error) if code(&error) == "NOAUTH" => Err(ServerError::NoCredentials),
            Reply::Error(_) => Ok(()),
            _ => Err(ServerError::Unexpected),
        }
    }

    async fn load(&mut self, script: &str) -> Result<String, ServerError> {
        match self.done(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await? {
            Reply::Bulk(hash) => String::from_utf8(hash).map_err(|_| ServerError::Unexpected),
            _ => Err(ServerError::Unexpected),
        }
    }

    /// Enters a gateway into the list for so many milliseconds. Returns how many are in it.
    pub(super) async fn beat(&mut self, list: &str, gateway: &str, millis: u64) -> Result<u32, ServerError> {
        let (sha, millis) = (self.beat.clone(), millis.to_string());
        let words = ["EVALSHA", &sha, "1", list, gateway, &millis].map(str::as_bytes);
        let count = self.done(&words).await?.integer().ok_or(ServerError::Unexpected)?;
        u32::try_from(count).map_err(|_| ServerError::Unexpected)
    }

    /// Asks for tokens of several limits at once: by name, nanoseconds between two tokens, nanoseconds for a burst to come
    /// back, and how many. Returns what was answered, in the same order: how many tokens, how many are left, and the
    /// microseconds until there is one more.
    pub(super) async fn lease(
        &mut self,
        asks: impl Iterator<Item = (String, u64, u64, u32)>,
    ) -> Result<Vec<Result<[u64; 3], ServerError>>, ServerError> {
        let (mut sent, mut count) = (Vec::new(), 0);
        for (name, interval, window, tokens) in asks {
            let (interval, window, tokens) = (micros(interval), micros(window), tokens.to_string());
            let words = ["EVALSHA", &self.lease, "1", &name, &interval, &window, &tokens].map(str::as_bytes);
            write_command(&mut sent, &words);
            count += 1;
        }
        let replies = self.exchange(&sent, count).await?;
        Ok(replies.into_iter().map(|reply| grant(reply.map_err_reply()?)).collect())
    }

    async fn call(&mut self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        let mut sent = Vec::new();
        write_command(&mut sent, words);
        let mut replies = self.exchange(&sent, 1).await?;
        replies.pop().ok_or(ServerError::Unexpected)
    }

    async fn done(&mut self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        self.call(words).await?.map_err_reply()
    }

    /// Sends commands and reads as many replies, all within [`TIMEOUT`].
    async fn exchange(&mut self, sent: &[u8], count: usize) -> Result<Vec<Reply>, ServerError> {
        let clock = self.clock;
        let exchange = async {
            self.transport.write_all(sent).await?;
            self.transport.flush().await?;
            let mut replies = Vec::with_capacity(count);
            while replies.len() < count {
                replies.push(self.reply().await?);
            }
            Ok(replies)
        };
        clock.by(clock.within(TIMEOUT), exchange).await.unwrap_or(Err(ServerError::Timeout))
    }

    async fn reply(&mut self) -> Result<Reply, ServerError> {
        loop {
            if let Some((reply, length)) = resp::read(&self.unread)? {
                self.unread.drain(..length);
                return Ok(reply);
            }
            if self.unread.len() > MAX_UNREAD {
                return Err(ServerError::Malformed(Malformed::TooLarge));
            }
            if self.transport.read_buf(&mut self.unread).await? == 0 {
                return Err(ServerError::Closed);
            }
        }
    }
}

/// Makes an error of an answer that is one.
trait ErrorReply: Sized {
    /// The answer, unless it is an error.
    fn map_err_reply(self) -> Result<Self, ServerError>;
}

impl ErrorReply for Reply {
    fn map_err_reply(self) -> Result<Self, ServerError> {
        let error = match self {
            Self::Error(error) => error,
            other => return Ok(other),
        };
        Err(match code(&error) {
            "NOAUTH" => ServerError::NoCredentials,
            "OOM" => ServerError::Full,
            word @ ("MOVED" | "ASK" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN") => {
                ServerError::Elsewhere(word.to_owned())
            }
            _ => ServerError::Refused(error.chars().take(MAX_SHOWN).collect()),
        })
    }
}

fn grant(reply: Reply) -> Result<[u64; 3], ServerError> {
    let Reply::Array(items) = reply else { return Err(ServerError::Unexpected) };
    let numbers = items.iter().map(|item| item.integer().and_then(|number| u64::try_from(number).ok()));
    let numbers: Option<Vec<u64>> = numbers.collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or(ServerError::Unexpected)
}

/// Nanoseconds as microseconds with three digits after the point.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// The first word of an error.
fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

/// The version that a server tells, and its first number.
fn version(info: &[u8]) -> Option<(&str, u32)> {
    let mut lines = str::from_utf8(info).ok()?.lines();
    let version = lines.find_map(|line| line.strip_prefix("redis_version:"))?.trim();
    let major = version.split('.').next()?.parse().ok()?;
    Some((version.get(..MAX_SHOWN).unwrap_or(version), major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_a_server_tells_of_itself() {
        let info = |text: &str| version(text.as_bytes()).map(|(text, major)| (text.to_owned(), major));
        assert_eq!(
            info("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"),
            Some(("7.0.15".to_owned(), 7))
        );
        assert_eq!(info("redis_version:4.0.14\r\n"), Some(("4.0.14".to_owned(), 4)));
        assert_eq!(info("# Server\r\nvalkey_version:9.0.0\r\n"), None);
        assert_eq!(info("redis_version:new\r\n"), None);
    }

    #[test]
    fn nanoseconds_are_told_as_microseconds() {
        let table = [(0, "0.000"), (1, "0.001"), (333_333_334, "333333.334"), (20_000_000, "20000.000")];
        for (nanos, text) in table {
            assert_eq!(micros(nanos), text);
        }
    }

    #[test]
    fn an_answer_has_three_numbers() {
        let numbers = |all: &[i64]| Reply::Array(all.iter().map(|number| Reply::Integer(*number)).collect());
        assert!(matches!(grant(numbers(&[1, 2, 3])), Ok([1, 2, 3])));
        for wrong in
            [numbers(&[1, 2]), numbers(&[1, 2, 3, 4]), numbers(&[1, -2, 3]), Reply::Integer(1), Reply::Null]
        {
            assert!(matches!(grant(wrong), Err(ServerError::Unexpected)));
        }
    }

    #[test]
    fn errors_say_what_to_do_and_a_long_one_is_cut() {
        let said =
            |error: &str| Reply::Error(error.to_owned()).map_err_reply().expect_err("an error").to_string();
        assert!(said("OOM command not allowed when used memory > 'maxmemory'.").contains("maxmemory"));
        assert!(said("NOAUTH Authentication required.").contains("wants a password"));
        assert!(said("MOVED 3999 127.0.0.1:6381").contains("(MOVED)"));
        assert!(said("READONLY You can't write against a read only replica.").contains("(READONLY)"));
        assert_eq!(said(&"é".repeat(4000)).chars().filter(|c| *c == 'é').count(), MAX_SHOWN);
    }
}
