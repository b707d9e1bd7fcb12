//! The issuer's keys of JWTs, kept fresh, and what is asked of tokens; both as configured.

use std::sync::Arc;

use ron_kernel::Scope;
use ron_transport::resolve::Resolver;

use crate::{
    AuthConfig, TenantSource,
    build::GatewaySettings,
    jwt::{JwksSettings, KeyRefresher, Policy, Verifier},
};

/// The verifier and the task that brings its keys.
#[derive(Clone, Debug)]
pub(crate) struct JwtKeys {
    verifier: Arc<Verifier>,
    refresher: KeyRefresher,
}

/// What a new configuration asks for, until it is put into force.
pub(crate) struct PreparedKeys {
    keys: JwtKeys,
    policy: Policy,
    settings: Option<JwksSettings>,
}

impl JwtKeys {
    pub(crate) fn new(scope: &Scope, resolver: &Resolver, settings: GatewaySettings<'_>) -> Self {
        let verifier = Arc::new(Verifier::new(policy(settings), scope.clock()));
        let refresher = KeyRefresher::start(scope, resolver, &verifier, jwks(settings.auth));
        Self { verifier, refresher }
    }

    /// The verifier, if the configuration takes JWTs.
    pub(crate) fn verifier_for(&self, config: &AuthConfig) -> Option<Arc<Verifier>> {
        jwks(config).map(|_| Arc::clone(&self.verifier))
    }

    pub(crate) fn prepare(&self, settings: GatewaySettings<'_>) -> PreparedKeys {
        PreparedKeys { keys: self.clone(), policy: policy(settings), settings: jwks(settings.auth) }
    }
}

impl PreparedKeys {
    pub(crate) fn commit(self) {
        self.keys.verifier.set_policy(self.policy);
        self.keys.refresher.follow(self.settings);
    }
}

fn policy(settings: GatewaySettings<'_>) -> Policy {
    let claims = settings.gateway.tenant_from.iter().filter_map(|source| match source {
        TenantSource::Jwt(claim) => Some(claim.clone()),
        _ => None,
    });
    Policy {
        issuer: settings.auth.jwt_issuer.clone(),
        audience: settings.auth.jwt_audience.clone(),
        tenant_claims: claims.collect(),
    }
}

/// Where keys come from; `None` if there is nowhere, or what is written was refused with the configuration.
fn jwks(config: &AuthConfig) -> Option<JwksSettings> {
    let source = config.jwks_url.parse().ok()?;
    Some(JwksSettings { every: config.jwks_refresh.as_duration(), ..JwksSettings::new(source) })
}
