//! The `[admin]` table.

use ron_kernel::config::{Checks, Problems, Secret, Table};
use ron_transport::addr::ListenAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shorter tokens can be guessed.
const TOKEN_MIN: usize = 16;

/// What to do about an admin listener that strangers could reach.
pub(crate) const OPEN_REMEDY: &str =
    "set `admin.token` (in the file or as OMNIGATE_ADMIN__TOKEN), or listen on 127.0.0.1";

/// The listener for operators: metrics, health, readiness, topology, events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AdminConfig {
    /// Where it listens: `127.0.0.1:9600`, `unix:/run/omnigate-admin.sock` or `inherit:name`. Anything but this
    /// machine needs a token.
    pub(crate) listen: ListenAddr,
    /// With it, everything but `/healthz` and `/readyz` needs `Authorization: Bearer <token>`; 16 characters at least.
    pub(crate) token: Option<Secret>,
    /// Whether `POST /rehearse/<service>/<task>` may end a task as a crash would, so that you can watch it come back.
    pub(crate) rehearse: bool,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: ListenAddr::Tcp(([127, 0, 0, 1], 9600).into()), token: None, rehearse: false }
    }
}

impl Table for AdminConfig {
    const NAME: &'static str = "admin";

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if let Some(what) = self.token.as_ref().and_then(token_problem) {
            problems.at("token", what).help("`openssl rand -hex 32` makes a good one");
        }
        if self.token.is_none() && is_open(&self.listen) {
            let message = format!("{} can be reached from other machines, without a token", self.listen);
            problems.at("listen", message).help(OPEN_REMEDY);
        }
    }
}

/// Whether other machines can reach an address. An inherited socket is asked once it is at hand.
pub(crate) fn is_open(addr: &ListenAddr) -> bool {
    matches!(addr, ListenAddr::Tcp(addr) if !addr.ip().to_canonical().is_loopback())
}

fn token_problem(token: &Secret) -> Option<String> {
    let token = token.expose();
    if token.len() < TOKEN_MIN {
        return Some(format!("a token has at least {TOKEN_MIN} characters"));
    }
    // Anything else could not be sent in a header.
    (!token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then(|| "a token has visible ASCII characters only, no spaces".to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_closed() {
        for closed in
            ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/a", "inherit:a"]
        {
            assert!(!is_open(&closed.parse().unwrap()), "{closed}");
        }
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1"] {
            assert!(is_open(&open.parse().unwrap()), "{open}");
        }
    }

    #[test]
    fn a_token_is_long_and_fits_a_header() {
        let problem = |token: &str| token_problem(&Secret::new(token));
        assert_eq!(problem(&"x".repeat(TOKEN_MIN)), None);
        assert!(problem(&"x".repeat(TOKEN_MIN - 1)).is_some());
        assert!(problem(&format!("{} y", "x".repeat(TOKEN_MIN))).is_some());
        assert!(problem(&format!("{}é", "x".repeat(TOKEN_MIN))).is_some());
    }
}
