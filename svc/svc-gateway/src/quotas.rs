//! Rates of clients, tenants and capabilities: the first limits a request meets.

use http::{HeaderMap, HeaderName, HeaderValue};
use quota::{Exhausted, LimitField, Passed, PolicyField, Rate};
use ron_transport::{ConnInfo, caps::ClientKey};
use types::{Moment, Reason, Refusal};

use crate::{
    DrrConfig, QuotasConfig,
    caller::{Caller, Credential},
    fleet::Allowance,
    policy::Policy,
    shared::Shared,
    tenant::Tenant,
};

/// The rates in force; `None` where there is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    client: Option<Rate>,
    tenant: Option<Rate>,
    capability: Option<Rate>,
    refusals: Option<Rate>,
}

/// A rate that said something worth telling the client.
#[derive(Debug)]
pub(crate) struct Verdict {
    name: &'static str,
    rate: Rate,
    verdict: Result<Passed, Exhausted>,
}

impl Rates {
    pub(crate) fn new(quotas: &QuotasConfig, drr: &DrrConfig) -> Self {
        let rate = |per_second: u32| Rate::per_second(per_second, burst(per_second, quotas.burst)).ok();
        Self {
            client: rate(quotas.per_ip_rps),
            tenant: rate(drr.rate_limit_rps),
            capability: rate(quotas.per_cap_rps),
            refusals: rate(quotas.refusals_rps),
        }
    }

    /// Takes one request out of the allowance of a client's address, for what is answered before anybody asks whose it is.
    ///
    /// # Errors
    /// The allowance, if it is used up.
    pub(crate) fn charge_client(&self, client: &Allowance, now: Moment) -> Result<Option<Verdict>, Verdict> {
        charge_one("client", self.client, client, now)
    }

    /// Takes one request out of the allowance of a tenant that became known only after the others were charged.
    ///
    /// # Errors
    /// The allowance, if it is used up.
    pub(crate) fn charge_tenant(&self, tenant: &Tenant, now: Moment) -> Result<Option<Verdict>, Verdict> {
        charge_one("tenant", self.tenant, &tenant.rate, now)
    }

    /// Takes one request out of every allowance of its caller, or out of none.
    ///
    /// # Errors
    /// The allowance that is used up.
    pub(crate) fn charge(&self, caller: &Caller, now: Moment) -> Result<Option<Verdict>, Verdict> {
        let capability = match &caller.credential {
            Credential::Capability { rate, .. } => Some(&**rate),
            _ => None,
        };
        let limits = [
            ("client", self.client, Some(&*caller.client)),
            ("tenant", self.tenant, Some(&caller.tenant.rate)),
            ("capability", self.capability, capability),
        ];
        let mut tightest: Option<Verdict> = None;
        for (index, (name, rate, bucket)) in limits.iter().enumerate() {
            let (Some(rate), Some(bucket)) = (*rate, bucket) else { continue };
            let verdict = bucket.check(&rate, now);
            match verdict {
                Err(_) => {
                    refund(&limits[..index], now);
                    return Err(Verdict { name, rate, verdict });
                }
                Ok(passed)
                    if is_short(&passed, &rate)
                        && tightest.as_ref().is_none_or(|t| t.left() > passed.remaining) =>
                {
                    tightest = Some(Verdict { name, rate, verdict });
                }
                Ok(_) => {}
            }
        }
        Ok(tightest)
    }
}

/// Takes a request whose head cannot be served out of the allowance of its client. Returns what the client is told. Which
/// client of a trusted proxy it was cannot be known, so the proxy does not pay for all.
pub(crate) fn charge_for_head(
    conn: &ConnInfo,
    policy: &Policy,
    shared: &Shared,
    refusal: Refusal,
) -> Refusal {
    if policy.trusted_proxies.trusts(&conn.peer) {
        return refusal;
    }
    let now = shared.clock.now();
    let client = shared.client(ClientKey::of(&conn.peer), now);
    match policy.rates.charge_client(&client, now) {
        Ok(_) => refusal,
        Err(used_up) => {
            cut_off_floods(conn, ClientKey::of(&conn.peer), policy, shared, now);
            used_up.refusal()
        }
    }
}

/// Counts a refusal because of a rate, and ends the connection of an address that is refused too often. Not if a proxy speaks
/// for the client: others may speak through the same connection. Nor where addresses have no rate: then one of them may stand
/// for many clients, each with a tenant of its own.
pub(crate) fn cut_off_floods(
    conn: &ConnInfo,
    client: ClientKey,
    policy: &Policy,
    shared: &Shared,
    now: Moment,
) {
    let (Some(allowed), Some(_)) = (&policy.rates.refusals, &policy.rates.client) else { return };
    let is_its_own = client == ClientKey::of(&conn.peer) && !policy.trusted_proxies.trusts(&conn.peer);
    if is_its_own && shared.floods.refused(client, allowed, now) {
        conn.cut_off();
    }
}

/// How many refusals a connection counts that is closed because its client flooded it.
const REFUSALS_PER_FLOOD: u32 = 10;

/// Counts a connection that is closed because its client flooded it.
pub(crate) fn count_flood(conn: &ConnInfo, policy: &Policy, shared: &Shared) {
    let (client, now) = (ClientKey::of(&conn.peer), shared.clock.now());
    (0..REFUSALS_PER_FLOOD).for_each(|_| cut_off_floods(conn, client, policy, shared, now));
}

/// Takes one request out of the allowance of a route.
///
/// # Errors
/// The allowance, if it is used up.
pub(crate) fn charge_route(rate: Rate, bucket: &Allowance, now: Moment) -> Result<Option<Verdict>, Verdict> {
    charge_one("route", Some(rate), bucket, now)
}

fn charge_one(
    name: &'static str,
    rate: Option<Rate>,
    bucket: &Allowance,
    now: Moment,
) -> Result<Option<Verdict>, Verdict> {
    let Some(rate) = rate else { return Ok(None) };
    let told = |verdict| Verdict { name, rate, verdict };
    match bucket.check(&rate, now) {
        Ok(passed) => Ok(is_short(&passed, &rate).then(|| told(Ok(passed)))),
        Err(exhausted) => Err(told(Err(exhausted))),
    }
}

/// Gives back what earlier limits took for a request that a later one refuses.
fn refund(limits: &[(&str, Option<Rate>, Option<&Allowance>)], now: Moment) {
    for (_, rate, bucket) in limits {
        if let (Some(rate), Some(bucket)) = (rate, bucket) {
            bucket.refund(rate, now);
        }
    }
}

/// Whether so little is left that a client does well to know.
fn is_short(passed: &Passed, rate: &Rate) -> bool {
    passed.remaining < rate.burst() / 2
}

/// How many requests `seconds` of a rate are; at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
fn burst(per_second: u32, seconds: f64) -> u32 {
    ((f64::from(per_second) * seconds).ceil() as u32).max(1)
}

impl Verdict {
    /// Tells the client of its limit and what is left of it.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let fields = [
            (LimitField::FIELD, LimitField::new(self.name, &self.verdict).to_string()),
            (PolicyField::FIELD, PolicyField::new(self.name, self.rate).to_string()),
        ];
        for (name, value) in fields {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// The refusal, if that is what was said.
    pub(crate) fn refusal(&self) -> Refusal {
        let wait = self.verdict.as_ref().err().map(|exhausted| exhausted.wait);
        let detail = match self.name {
            "client" => "the rate of this address is used up",
            "tenant" => "the rate of this tenant is used up",
            "route" => "the rate of this route is used up",
            _ => "the rate of this capability is used up",
        };
        let refusal = Refusal::new(Reason::Quota, detail);
        wait.map_or(refusal.clone(), |wait| refusal.retry_after(wait))
    }

    fn left(&self) -> u32 {
        self.verdict.as_ref().map_or(0, |passed| passed.remaining)
    }
}
