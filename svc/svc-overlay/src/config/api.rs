//! The `[overlay.api]` table: where applications publish and subscribe.

use std::time::Duration;

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use ron_transport::{addr::ListenAddr, serve::HttpLimits, tls::settings::TlsConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::security::is_reachable;

/// More subscribers than this need `danger_ok`: each is a connection, with what waits for it.
const SAFE_MAX_SUBSCRIBERS: usize = 65_536;
/// More bytes that wait for one subscriber than this need `danger_ok`.
const SAFE_MAX_BOX: ByteSize = ByteSize::mib(64);
/// Longer waits for a verdict than this need `danger_ok`.
const SAFE_MAX_WAIT: Duration = Duration::from_secs(60);
/// Origins that are listed at most.
const MAX_ORIGINS: usize = 256;
/// Connections beyond those of subscribers.
const MORE_CONNS: usize = 1024;

/// Who may use the listener for applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiAuth {
    /// Callers present a capability token that covers the topic.
    #[default]
    Token,
    /// Callers need no token.
    None,
}

/// The listener for applications: publish and subscribe over HTTP and WebSockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// Whether the listener for applications runs.
    pub enabled: bool,
    /// The listening address: `127.0.0.1:9510`, `unix:/run/topics.sock` or `inherit:name`.
    pub listen: ListenAddr,
    /// Certificates; empty paths for plain HTTP.
    pub tls: TlsConfig,
    /// `token`: callers present a capability token, which is verified with the root keys in `[auth]`. `none`:
    /// callers need no token; allowed only on addresses of this machine.
    pub auth: ApiAuth,
    /// Origins of web pages, besides its own, that may use this listener: `"https://chat.example"`; `"*"` for all.
    pub allow_origins: Vec<String>,
    /// Concurrent subscribers, by event streams and WebSockets. Each takes a connection and up to `box_bytes`.
    pub max_subscribers: usize,
    /// Concurrent subscribers from one address; 0 means a quarter of `max_subscribers`. An IPv6 /64 counts as one
    /// address.
    pub max_subscribers_per_client: usize,
    /// Concurrent subscribers with one token, including tokens attenuated from it; 0 means a quarter of
    /// `max_subscribers`.
    pub max_subscribers_per_token: usize,
    /// Bytes of publications queued for one subscriber, in at most 1024 events; beyond it, the subscriber is told
    /// how many it missed. All queues together take at most this times `max_subscribers`, less if subscribers share
    /// topics.
    pub box_bytes: ByteSize,
    /// Publications per second with one token, or from one address without a token, with a burst of one second. 0
    /// for no limit.
    pub publish_rps: u32,
    /// Publications per second from one address, whatever its tokens, with a burst of one second. 0 for no limit.
    pub client_publish_rps: u32,
    /// Publications of all callers that may wait for their verdict; more are answered 429 `busy`. One token, or one
    /// address without a token, has at most half of them; more are answered 429 `quota`.
    pub max_publishing: usize,
    /// How long a publication may wait for its verdict; a caller may ask for less.
    pub publish_timeout: HumanDuration,
    /// Timeout for each wait for a subscriber to read more; then its connection closes.
    pub write_timeout: HumanDuration,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: ListenAddr::Tcp(([127, 0, 0, 1], 9510).into()),
            tls: TlsConfig::default(),
            auth: ApiAuth::default(),
            allow_origins: Vec::new(),
            max_subscribers: 4096,
            max_subscribers_per_client: 0,
            max_subscribers_per_token: 0,
            box_bytes: ByteSize::mib(1),
            publish_rps: 100,
            client_publish_rps: 1000,
            max_publishing: 128,
            publish_timeout: HumanDuration::from_secs(5),
            write_timeout: HumanDuration::from_secs(10),
        }
    }
}

impl ApiConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        if self.auth == ApiAuth::None && is_reachable(&self.listen) && !danger_ok {
            problems
                .at("listen", format!("{} can be reached from other machines, without a token", self.listen))
                .help("use api.auth = \"token\", or listen on 127.0.0.1");
        }
        self.tls.check(problems);
        self.check_origins(problems);
        for (key, value) in [
            ("max_subscribers", self.max_subscribers),
            ("max_publishing", self.max_publishing),
            ("box_bytes", self.box_bytes.as_usize()),
        ] {
            if value == 0 {
                problems.at(key, "must be at least 1");
            }
        }
        problems.guard("max_subscribers", self.max_subscribers, SAFE_MAX_SUBSCRIBERS, danger_ok);
        problems.guard("box_bytes", self.box_bytes, SAFE_MAX_BOX, danger_ok);
        for (key, wait) in [("publish_timeout", self.publish_timeout), ("write_timeout", self.write_timeout)]
        {
            if wait.as_duration().is_zero() {
                problems.at(key, "must be longer than nothing");
            }
            problems.guard(key, wait, SAFE_MAX_WAIT.into(), danger_ok);
        }
    }

    fn check_origins(&self, problems: &mut Problems) {
        if self.allow_origins.len() > MAX_ORIGINS {
            problems.at("allow_origins", format!("more than {MAX_ORIGINS} origins"));
        }
        for (index, origin) in self.allow_origins.iter().enumerate() {
            let at = format!("allow_origins.{index}");
            if origin == "*" {
                if self.auth == ApiAuth::None {
                    problems
                        .at(at, "every web page could publish and subscribe, without a token")
                        .help("name the origins, or use api.auth = \"token\"");
                }
            } else if !is_origin(origin) {
                problems
                    .at(at, format!("`{origin}` is no origin"))
                    .help("write scheme, host and port alone: \"https://chat.example\"");
            }
        }
    }

    /// Subscribers from one address.
    #[must_use]
    pub const fn per_client(&self) -> usize {
        or_quarter(self.max_subscribers_per_client, self.max_subscribers)
    }

    /// Subscribers with one token.
    #[must_use]
    pub const fn per_token(&self) -> usize {
        or_quarter(self.max_subscribers_per_token, self.max_subscribers)
    }

    /// The limits of the listener.
    #[must_use]
    pub fn http_limits(&self) -> HttpLimits {
        HttpLimits {
            max_conns: self.max_subscribers.saturating_add(MORE_CONNS),
            // Subscribers have a limit of their own; these are for whoever publishes.
            max_conns_per_client: self.per_client().saturating_add(MORE_CONNS / 4),
            write_timeout: self.write_timeout.as_duration(),
            ..HttpLimits::default()
        }
    }
}

const fn or_quarter(given: usize, of: usize) -> usize {
    match given {
        0 => of.div_ceil(4),
        given => given,
    }
}

/// Whether a text is what browsers send as `Origin`.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain(scheme) && is_plain(host) && !host.contains(['/', '?', '#', '@', '*'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_and_host_alone() {
        for good in ["https://chat.example", "http://127.0.0.1:8000", "https://[::1]:9", "app://x"] {
            assert!(is_origin(good), "{good}");
        }
        for wrong in
            ["chat.example", "https://", "https://a/", "https://a/b", "null", "https://*.a", "https://u@a"]
        {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }

    #[test]
    fn shares_are_a_quarter_unless_they_are_given() {
        let config = ApiConfig { max_subscribers: 10, max_subscribers_per_token: 7, ..ApiConfig::default() };
        assert_eq!((config.per_client(), config.per_token()), (3, 7));
    }
}
