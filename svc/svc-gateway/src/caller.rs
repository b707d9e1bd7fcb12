//! Who a request is from, told before any work is spent on it.
//!
//! Nothing here can be forged but what the configuration says to believe: a capability is verified while it is read, a
//! JWT counts only once it was verified, and an address is the connection's unless a trusted proxy names another.

mod credential;
mod memo;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use ron_transport::caps::ClientKey;
use types::{ActorId, Moment};

pub(crate) use credential::Credential;
pub(crate) use memo::ConnMemo;

use crate::{
    TenantSource,
    client_addr::Client,
    fleet::Allowance,
    jwt::Claims,
    policy::Policy,
    shared::Shared,
    tenant::{Class, Tenant, TenantKey, TenantName},
};
use memo::Evidence;

/// Who a request is from. Each connection has its own, so that requests need not count references to what cores share.
#[derive(Debug)]
pub(crate) struct Caller {
    /// How far the rate of the client's address is used up.
    pub(crate) client: Arc<Allowance>,
    pub(crate) tenant: Arc<Tenant>,
    /// The client's address; `None` where the tenant is the address.
    pub(crate) address: Option<ClientKey>,
    /// The tenant as servers are told; absent for tenants without a name.
    pub(crate) tenant_field: Option<HeaderValue>,
    pub(crate) credential: Credential,
}

impl Caller {
    /// Tells who sent a request with these headers, by what its connection has seen before where that is enough.
    pub(crate) fn of(
        client: &Client,
        memo: &ConnMemo,
        headers: &HeaderMap,
        policy: &Policy,
        shared: &Shared,
        now: Moment,
    ) -> Arc<Self> {
        let evidence = Evidence::of(client, headers, policy);
        if let Some(known) = memo.recall(&evidence, shared.clock.unix_at(now)) {
            return known;
        }
        let credential = Credential::read(headers, policy, shared, now);
        let caller = Arc::new(Self::told_by(client, headers, credential, policy, shared, now));
        memo.remember(&evidence, &caller);
        caller
    }

    /// The caller of the same request now that its JWT is verified. The connection knows it from now on.
    pub(crate) fn verified(
        claims: &Arc<Claims>,
        client: &Client,
        memo: &ConnMemo,
        headers: &HeaderMap,
        policy: &Policy,
        shared: &Shared,
        now: Moment,
    ) -> Arc<Self> {
        let (evidence, credential) =
            (Evidence::of(client, headers, policy), Credential::Jwt(Arc::clone(claims)));
        let caller = Arc::new(Self::told_by(client, headers, credential, policy, shared, now));
        memo.remember(&evidence, &caller);
        caller
    }

    /// Keeps a credential that ends here from going on.
    pub(crate) fn hide_credential(&self, headers: &mut HeaderMap) {
        if self.credential.ends_here() {
            headers.remove(AUTHORIZATION);
        }
    }

    fn told_by(
        client: &Client,
        headers: &HeaderMap,
        credential: Credential,
        policy: &Policy,
        shared: &Shared,
        now: Moment,
    ) -> Self {
        let name = policy.sources.iter().find_map(|source| name_from(source, client, &credential, headers));
        let (name, is_named) = match name {
            Some(Told::Name(name)) => (TenantName::Named(name), true),
            Some(Told::Address) | None => (TenantName::Client(client.key), false),
        };
        let class = class_of(client, &credential, is_named, policy);
        // Tenants for whom there is no room of their own share rates and slots, but no name.
        let tenant_field = match &name {
            TenantName::Named(name) => HeaderValue::from_str(name).ok(),
            TenantName::Client(_) | TenantName::Other => None,
        };
        let tenant = shared.tenants.get(&TenantKey { class, name }, now);
        let is_address = matches!(tenant.key.name, TenantName::Client(_));
        let address = (!is_address).then_some(client.key);
        Self { client: shared.client(client.key, now), tenant, address, tenant_field, credential }
    }
}

/// What a source of tenants answers.
enum Told {
    Name(Arc<str>),
    /// The client is known only by its address.
    Address,
}

fn name_from(
    source: &TenantSource,
    client: &Client,
    credential: &Credential,
    headers: &HeaderMap,
) -> Option<Told> {
    let name = match (source, credential) {
        (TenantSource::Cert, _) => client.certified_name().filter(|name| ActorId::new(name).is_ok())?,
        (TenantSource::Ip, _) => return Some(Told::Address),
        (TenantSource::Capability, Credential::Capability { bearer, .. }) => bearer.tenant()?,
        (TenantSource::Jwt(_), Credential::Jwt(claims)) => claims.tenant.as_ref()?.as_str(),
        (TenantSource::Header(name), _) => {
            let value = headers.get(name)?.to_str().ok()?;
            // What cannot be booked is nobody's name.
            ActorId::new(value).is_ok().then_some(value)?
        }
        _ => return None,
    };
    Some(Told::Name(name.into()))
}

fn class_of(client: &Client, credential: &Credential, is_named: bool, policy: &Policy) -> Class {
    if client.origin().address().is_some_and(|ip| policy.internal_from.contains(ip)) {
        return Class::Internal;
    }
    match credential {
        Credential::Capability { bearer, .. } => bearer.class().into(),
        Credential::Jwt(_) => Class::Authed,
        _ if is_named => Class::Authed,
        _ => Class::Anon,
    }
}
