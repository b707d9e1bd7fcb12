//! What an edge says of itself to whoever watches it: its cache and its packs.

use ron_kernel::failures::LastFailure;
use ron_transport::tls::ServedCertificate;
use serde::Serialize;
use serde_json::Value;

use crate::{Edge, fill::OriginState, preview};

/// An edge at one moment. Counts are totals: who wants a rate takes differences.
#[derive(Debug, Serialize)]
pub struct EdgeStatus {
    /// The listening address.
    pub listen: String,
    /// The certificates that it shows to clients, by file, with the last moment of each as Unix time in seconds.
    pub certificates: Vec<EdgeCertificate>,
    /// The origins that objects are fetched from.
    pub origins: Vec<OriginStatus>,
    /// Whether it fetches what it does not have.
    pub live: bool,
    /// Requests answered with what is here.
    pub hits: u64,
    /// Requests for what is not here.
    pub misses: u64,
    /// Number of damages found so far.
    pub quarantined: u64,
    /// Requests that wait for a disk or an origin, or are being sent.
    pub inside: u64,
    /// Answers that are ready in RAM.
    pub ram_entries: u64,
    /// Total size of the entries in RAM, in bytes.
    pub ram_bytes: u64,
    /// The bytes that there may be.
    pub ram_limit: u64,
    /// The packs, as `/edge/packs` lists them.
    pub packs: Value,
    /// The address of the packs' maps for a browser, if there is one.
    pub maps: Vec<String>,
}

/// A certificate that clients are shown.
#[derive(Debug, Serialize)]
pub struct EdgeCertificate {
    /// The file that it was read from.
    pub path: String,
    /// The name for which clients are shown it; `None` for the one that is shown where no other fits.
    pub name: Option<String>,
    /// The DNS names that it is for.
    pub dns_names: Vec<String>,
    /// When it expires, as Unix time in seconds.
    pub expires: Option<u64>,
}

/// An origin that objects are fetched from.
#[derive(Debug, Serialize)]
pub struct OriginStatus {
    /// Its entry in the list of origins.
    pub name: String,
    /// The state of the circuit breaker: `closed` or `open`.
    pub breaker: &'static str,
    /// Why a fill failed last; `None` if none has.
    pub last_error: Option<OriginError>,
}

/// The last failure of an origin.
#[derive(Debug, Serialize)]
pub struct OriginError {
    /// The cause of the failure.
    pub cause: String,
    /// The age of the failure, in milliseconds.
    pub ago_ms: u64,
    /// Failures so far, of whatever cause.
    pub count: u64,
}

impl Edge {
    fn certificates(&self) -> Vec<EdgeCertificate> {
        let shown = |served: ServedCertificate| EdgeCertificate {
            path: served.path.display().to_string(),
            name: served.name,
            dns_names: served.dns_names,
            expires: served.not_after.map(|at| at.as_secs()),
        };
        self.server().certificates().into_iter().map(shown).collect()
    }

    fn origins(&self) -> Vec<OriginStatus> {
        let now = self.shared().clock.now();
        let error = |last: LastFailure| OriginError {
            cause: last.cause.to_string(),
            ago_ms: u64::try_from(now.since(last.at).as_millis()).unwrap_or(u64::MAX),
            count: last.count,
        };
        let shown = |state: OriginState| OriginStatus {
            name: state.name.to_string(),
            breaker: if state.is_open { "open" } else { "closed" },
            last_error: state.last.map(error),
        };
        self.shared().fill.iter().flat_map(|fill| fill.origins()).map(shown).collect()
    }
}

impl Edge {
    /// The edge at this moment.
    #[must_use]
    pub fn status(&self) -> EdgeStatus {
        let shared = self.shared();
        EdgeStatus {
            listen: self.local_addr().to_string(),
            certificates: self.certificates(),
            origins: self.origins(),
            live: shared.fill.is_some(),
            hits: shared.metrics.hits.get(),
            misses: shared.metrics.misses.get(),
            quarantined: shared.metrics.quarantined.get(),
            inside: shared.ingress.inside().into(),
            ram_entries: shared.ram.entries() as u64,
            ram_bytes: shared.ram.bytes(),
            ram_limit: shared.ram.limit(),
            packs: preview::packs_json(&shared.registry.all())["packs"].take(),
            maps: self.to_look_at(),
        }
    }
}
