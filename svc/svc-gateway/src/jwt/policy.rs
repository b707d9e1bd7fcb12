//! What is asked of tokens beyond a good signature, as configured.

use std::{sync::Arc, time::Duration};

use super::ClaimRule;
use crate::{AuthConfig, GatewayConfig, TenantSource};

/// The requirements on tokens of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whose tokens are taken. Of several, each has a name.
    pub issuers: Vec<IssuerPolicy>,
    /// The claims that may name the tenant, by a text or a whole number; the first that a token has counts.
    pub tenant_claims: Vec<String>,
    /// What routes ask of claims, each rule once.
    pub claim_rules: Vec<Arc<ClaimRule>>,
}

/// What is asked of the tokens of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerPolicy {
    /// Who must have issued it; empty for anybody with one of the keys.
    pub issuer: String,
    /// Whom it must be for; empty if tokens name no audience. One that names some is then refused: it is for somebody
    /// else.
    pub audience: String,
    /// How far the issuer's clock may be from ours.
    pub leeway: Duration,
}

impl Policy {
    /// What `[auth]` and the routes of `[gateway]` ask for.
    #[must_use]
    pub fn new(auth: &AuthConfig, gateway: &GatewayConfig) -> Self {
        let claim = |source: &TenantSource| match source {
            TenantSource::Jwt(claim) => Some(claim.clone()),
            _ => None,
        };
        let issuers = auth.issuers().into_iter().map(|issuer| IssuerPolicy {
            issuer: issuer.issuer,
            audience: issuer.audience,
            leeway: issuer.leeway.as_duration(),
        });
        let mut claim_rules: Vec<Arc<ClaimRule>> = Vec::new();
        for rule in gateway.claim_rules() {
            if !claim_rules.iter().any(|known| **known == rule) {
                claim_rules.push(Arc::new(rule));
            }
        }
        Self {
            issuers: issuers.collect(),
            tenant_claims: gateway.tenant_from.iter().filter_map(claim).collect(),
            claim_rules,
        }
    }
}
