//! What a connection's last request told about its caller, so that the next one need not be worked out again.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, header::AUTHORIZATION};
use ron_kernel::lock::Ranked;
use ron_transport::caps::ClientKey;

use super::{Caller, Credential};
use crate::{
    admission::HeldPromises,
    client_addr::{Client, Origin},
    locks,
    policy::Policy,
};

/// What is kept for one connection: its last caller, and what its clients were promised.
pub(crate) struct ConnMemo {
    last: Ranked<Option<Box<Last>>>,
    promises: HeldPromises,
}

impl Default for ConnMemo {
    fn default() -> Self {
        Self { last: Ranked::new(&locks::CONN_MEMO, None), promises: HeldPromises::default() }
    }
}

/// Everything that a caller is told by. The same evidence under the same policy tells the same caller.
pub(super) struct Evidence<'a> {
    /// Counts policies: another may tell another caller.
    generation: u64,
    /// Counts the keys that JWTs are verified with: others may refuse what these took.
    keys: u64,
    client: ClientKey,
    /// Whether an address gives its caller rights is not told by the key alone.
    origin: Origin,
    authorization: Option<&'a [u8]>,
    headers: &'a HeaderMap,
    /// The fields of the header that may name the tenant.
    tenant_fields: &'a [HeaderName],
}

struct Last {
    generation: u64,
    keys: u64,
    client: ClientKey,
    origin: Origin,
    /// Copies: a header's value would keep the whole head it was read from.
    authorization: Option<Box<[u8]>>,
    /// One for each field that may name the tenant.
    tenants: Box<[Option<Box<[u8]>>]>,
    /// From when on the credential counts no more, since the Unix epoch.
    until: Duration,
    caller: Arc<Caller>,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(client: &Client, headers: &'a HeaderMap, policy: &'a Policy) -> Self {
        Self {
            generation: policy.generation,
            keys: policy.auth.jwt.as_ref().map_or(0, |verifier| verifier.generation()),
            client: client.key,
            origin: client.origin(),
            authorization: headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes),
            headers,
            tenant_fields: &policy.tenant_fields,
        }
    }

    /// What each field says that may name the tenant.
    fn tenants(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let headers = self.headers;
        self.tenant_fields.iter().map(|name| headers.get(name).map(http::HeaderValue::as_bytes))
    }
}

impl ConnMemo {
    /// What its clients were promised when they were refused.
    pub(crate) fn promises(&self) -> &HeldPromises {
        &self.promises
    }

    /// The caller that the same evidence told before, if that still holds.
    pub(super) fn recall(&self, evidence: &Evidence<'_>, unix: Duration) -> Option<Arc<Caller>> {
        let last = self.last.lock();
        let last = last.as_ref()?;
        let holds = last.generation == evidence.generation
            && last.keys == evidence.keys
            && last.client == evidence.client
            && last.origin == evidence.origin
            && last.authorization.as_deref() == evidence.authorization
            && last.tenants.iter().map(Option::as_deref).eq(evidence.tenants())
            && unix < last.until;
        holds.then(|| Arc::clone(&last.caller))
    }

    /// Lets go of what the next request can tell again.
    pub(crate) fn forget(&self) {
        let last = self.last.lock().take();
        drop(last);
    }

    /// Keeps what the evidence told, where it will tell the same next time.
    pub(super) fn remember(&self, evidence: &Evidence<'_>, caller: &Arc<Caller>) {
        let until = match &caller.credential {
            Credential::None => Duration::MAX,
            Credential::Capability { bearer, .. } => {
                bearer.expires().map_or(Duration::MAX, Duration::from_secs)
            }
            Credential::Jwt(claims) => claims.expires,
            // Verified, it is another caller's.
            Credential::UnverifiedJwt | Credential::Refused(_) => return,
        };
        let last = Last {
            generation: evidence.generation,
            keys: evidence.keys,
            client: evidence.client,
            origin: evidence.origin,
            authorization: evidence.authorization.map(Into::into),
            tenants: evidence.tenants().map(|value| value.map(Into::into)).collect(),
            until,
            caller: Arc::clone(caller),
        };
        *self.last.lock() = Some(Box::new(last));
    }
}

impl fmt::Debug for ConnMemo {
    /// Formats the memo without credentials, which are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnMemo")
    }
}
