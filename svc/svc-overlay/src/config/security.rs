//! How nodes know each other.

use ron_kernel::config::Problems;
use ron_transport::{
    addr::ListenAddr,
    tls::{
        self,
        raw_key::PeerKey,
        settings::{PqFallback, PqMode},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How nodes authenticate each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// Over TLS; both prove their keys, and only listed ones are let in.
    #[default]
    Mtls,
    /// Over TLS; both prove their keys, and those that are not listed show a token.
    Token,
    /// Without TLS, between addresses of this machine only.
    Plaintext,
}

/// Post-quantum key exchange between nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PqConfig {
    /// `hybrid` offers X25519MLKEM768 first; `off` offers only classical groups.
    pub mode: PqMode,
    /// Peers without post-quantum key exchange: `allow` them, or `deny` them.
    pub fallback: PqFallback,
}

impl PqConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.mode == PqMode::Off && self.fallback == PqFallback::Deny {
            problems
                .at("pq.fallback", "would refuse every peer, because nothing post-quantum is offered")
                .help("use mode = \"hybrid\", or fallback = \"allow\"");
        }
    }

    /// As the TLS library is told.
    pub(crate) fn groups(&self) -> tls::Pq {
        tls::Pq {
            mode: match self.mode {
                PqMode::Off => tls::PqMode::Off,
                PqMode::Hybrid => tls::PqMode::Hybrid,
            },
            fallback: match self.fallback {
                PqFallback::Allow => tls::PqFallback::Allow,
                PqFallback::Deny => tls::PqFallback::Deny,
            },
        }
    }
}

/// Whether other machines can reach an address. An inherited socket is asked once it is at hand.
pub(crate) fn is_reachable(addr: &ListenAddr) -> bool {
    matches!(addr, ListenAddr::Tcp(addr) if !addr.ip().to_canonical().is_loopback())
}

/// Reads a public key written as 64 hexadecimal digits.
pub(crate) fn public_key(digits: &str) -> Option<PeerKey> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(PeerKey::from_ed25519(key))
}
