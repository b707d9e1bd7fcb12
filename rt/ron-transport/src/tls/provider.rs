//! The cryptography of every endpoint: aws-lc-rs, with the key exchange groups and versions that were asked for.

use std::sync::Arc;

use rustls::{
    SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, aws_lc_rs::kx_group},
    version::{TLS12, TLS13},
};

use super::{MinVersion, Pq, PqFallback, PqMode, TlsError};

static NEWEST: [&SupportedProtocolVersion; 1] = [&TLS13];
static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// A provider that offers the groups of `pq`, most wanted first.
pub(super) fn provider(pq: Pq) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups(pq), ..aws_lc_rs::default_provider() })
}

/// The versions to speak. All-hybrid means TLS 1.3, because TLS 1.2 has no hybrid groups.
pub(super) fn versions(min: MinVersion, pq: Pq) -> &'static [&'static SupportedProtocolVersion] {
    let hybrid_alone = pq == Pq { mode: PqMode::Hybrid, fallback: PqFallback::Deny };
    if hybrid_alone || min == MinVersion::Tls13 { &NEWEST } else { &BOTH }
}

/// The protocol names, if each fits its one-byte length on the wire.
pub(super) fn checked_alpn(names: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, TlsError> {
    match names.iter().map(Vec::len).find(|length| !(1..=255).contains(length)) {
        Some(length) => Err(TlsError::BadAlpn { length }),
        None => Ok(names.to_vec()),
    }
}

fn groups(pq: Pq) -> Vec<&'static dyn SupportedKxGroup> {
    let hybrid = [kx_group::X25519MLKEM768, kx_group::SECP256R1MLKEM768];
    let classical = [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    match (pq.mode, pq.fallback) {
        (PqMode::Off, _) => classical.to_vec(),
        (PqMode::Hybrid, PqFallback::Deny) => hybrid.to_vec(),
        (PqMode::Hybrid, PqFallback::Allow) => hybrid.into_iter().chain(classical).collect(),
    }
}
