//! What a gateway says of itself to whoever watches it: slots, tenants, upstreams.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use ron_transport::tls::ServedCertificate;
use serde::Serialize;

use crate::{
    AcmeStatus, Gateway,
    tenant::{LATENCY_BOUNDS_MS, TenantKey, Tenants, Totals},
};

/// Tenants that are listed; the others are added up.
const LISTED: usize = 24;

/// A gateway at one moment. Counts are totals: who wants a rate takes differences.
#[derive(Debug, Serialize)]
pub struct GatewayStatus {
    /// The listening address.
    pub listen: String,
    /// The certificates that it shows to clients; none without TLS.
    pub certificates: Vec<CertificateStatus>,
    /// The names that it obtains certificates for, by ACME.
    pub acme: Vec<AcmeStatus>,
    /// The slots in use and the admission queue.
    pub slots: SlotsStatus,
    /// Upper bounds of each tenant's `latency`, in milliseconds; the last bucket has none.
    pub latency_bounds_ms: &'static [u64],
    /// Tenants that are known.
    pub known_tenants: usize,
    /// Those that were busiest of late, the busiest first.
    pub tenants: Vec<TenantStatus>,
    /// Requests served for the others.
    pub served_for_others: u64,
    /// The upstreams by name.
    pub upstreams: Vec<UpstreamStatus>,
}

/// A certificate that clients are shown.
#[derive(Debug, Serialize)]
pub struct CertificateStatus {
    /// The file that it was read from.
    pub path: String,
    /// The name for which clients are shown it; `None` for the one that is shown where no other fits.
    pub name: Option<String>,
    /// The DNS names that it is for.
    pub dns_names: Vec<String>,
    /// When it expires, as Unix time in seconds.
    pub expires: Option<u64>,
}

impl From<ServedCertificate> for CertificateStatus {
    fn from(served: ServedCertificate) -> Self {
        Self {
            path: served.path.display().to_string(),
            name: served.name,
            dns_names: served.dns_names,
            expires: served.not_after.map(|at| at.as_secs()),
        }
    }
}

/// The slots, and who waits for one.
#[derive(Debug, Serialize)]
pub struct SlotsStatus {
    /// Whether requests are admitted at all, or all at once.
    pub enabled: bool,
    /// Requests that may be upstream at once.
    pub slots: u32,
    /// Tickets that may wait.
    pub room: usize,
    /// Number of requests in the admission queue.
    pub waiting: usize,
    /// The state of each class.
    pub classes: Vec<ClassStatus>,
}

/// One class of tenants.
#[derive(Debug, Serialize)]
pub struct ClassStatus {
    /// The name of the class.
    pub name: &'static str,
    /// The weight of the class.
    pub weight: u32,
    /// Number of its requests that hold a slot.
    pub inside: usize,
    /// Number of its requests in the admission queue.
    pub waiting: usize,
    /// Slot-milliseconds that it has left, or owes if negative.
    pub tokens_ms: i64,
}

/// The state of one tenant.
#[derive(Debug, Serialize)]
pub struct TenantStatus {
    #[serde(skip)]
    pub(crate) key: TenantKey,
    /// Its name, or its address if it has none.
    pub name: String,
    /// The class of the tenant.
    pub class: &'static str,
    /// The weight of the tenant within its class.
    pub weight: u32,
    /// Number of requests served.
    pub served: u64,
    /// Milliseconds in which it held slots, each counted.
    pub slot_ms: u64,
    /// Requests by the time from when they came to when they left their slot.
    pub latency: Vec<u32>,
    /// Number of refusals, by reason.
    pub refused: BTreeMap<&'static str, u32>,
    /// Number of its requests in the admission queue.
    pub waiting: usize,
    /// Number of its open streams.
    pub streams: u32,
}

/// The state of one upstream.
#[derive(Debug, Serialize)]
pub struct UpstreamStatus {
    /// The name of the upstream.
    pub name: String,
    /// The state of each server.
    pub servers: Vec<ServerStatus>,
    /// Tries that failed, by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Requests by the time until the head of their response; the bounds are those of the kernel's histograms.
    pub latency: Vec<u64>,
}

/// One server of an upstream.
#[derive(Debug, Serialize)]
pub struct ServerStatus {
    /// The address of the server.
    pub endpoint: String,
    /// `usable`, `open`, `unhealthy` or `ejected`.
    pub state: &'static str,
    /// Its breaker: `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// The weight of the server.
    pub weight: u32,
    /// Number of connections in use.
    pub busy: usize,
    /// Number of open connections.
    pub connections: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// Why a request to it, or its health check, failed last; `None` if none has.
    pub last_error: Option<ServerError>,
}

/// The last failure of a server.
#[derive(Debug, Serialize)]
pub struct ServerError {
    /// The cause of the failure.
    pub cause: String,
    /// The age of the failure, in milliseconds.
    pub ago_ms: u64,
    /// Failures so far, of whatever cause.
    pub count: u64,
}

impl Gateway {
    /// The gateway at this moment. Visits every tenant, so it is for once a second, not for every request.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        let (shared, policy) = (self.shared(), self.policy());
        let (mut tenants, served_for_others) = busiest(&shared.tenants);
        for tenant in &mut tenants {
            tenant.weight = policy.drr.weight_of(&tenant.key.name);
        }
        GatewayStatus {
            listen: self.local_addr().to_string(),
            certificates: self.certificates().into_iter().map(CertificateStatus::from).collect(),
            acme: self.acme_status().to_vec(),
            slots: shared.admission.look(&mut tenants),
            latency_bounds_ms: &LATENCY_BOUNDS_MS,
            known_tenants: shared.tenants.len(),
            tenants,
            served_for_others,
            upstreams: self.upstreams().status(),
        }
    }
}

/// The tenants that were busiest of late, and what was served for all others.
fn busiest(tenants: &Tenants) -> (Vec<TenantStatus>, u64) {
    let (mut busy, mut others) = (Vec::new(), 0);
    tenants.visit(|key, tenant| match tenant.record().look() {
        0 => others += tenant.record().served_so_far(),
        lately => busy.push((lately, key.clone(), tenant.record().totals(), tenant.open_streams())),
    });
    busy.sort_by_key(|(lately, ..)| Reverse(*lately));
    others += busy.iter().skip(LISTED).map(|(_, _, totals, _)| totals.served).sum::<u64>();
    let listed = busy.into_iter().take(LISTED);
    (listed.map(|(_, key, totals, streams)| tenant_status(key, totals, streams)).collect(), others)
}

fn tenant_status(key: TenantKey, totals: Totals, streams: u32) -> TenantStatus {
    TenantStatus {
        name: key.name.to_string(),
        class: key.class.name(),
        weight: 1,
        served: totals.served,
        slot_ms: millis(totals.slot_time),
        latency: totals.latency.to_vec(),
        refused: totals.refused.into_iter().map(|(reason, count)| (reason.as_str(), count)).collect(),
        waiting: 0,
        streams,
        key,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
