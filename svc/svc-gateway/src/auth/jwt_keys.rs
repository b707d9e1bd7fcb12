//! The keys of the issuers of JWTs, kept fresh, and what is asked of tokens; both as configured.

use std::sync::Arc;

use ron_kernel::Scope;
use ron_transport::resolve::Resolver;

use crate::{
    build::GatewaySettings,
    jwt::{JwksSettings, KeyRefresher, Policy, Verifier},
};

/// The verifier and the task that brings its keys.
#[derive(Clone, Debug)]
pub(crate) struct JwtKeys {
    verifier: Arc<Verifier>,
    refresher: KeyRefresher,
}

impl JwtKeys {
    pub(crate) fn new(
        scope: &Scope,
        resolver: &Resolver,
        settings: GatewaySettings<'_>,
        jwks: Vec<JwksSettings>,
    ) -> Self {
        let verifier = Arc::new(Verifier::new(policy(settings), scope.clock()));
        let refresher = KeyRefresher::start(scope, resolver, &verifier, jwks);
        Self { verifier, refresher }
    }

    /// Returns the verifier of tokens.
    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    /// Puts another configuration into force.
    pub(crate) fn follow(&self, settings: GatewaySettings<'_>, jwks: Vec<JwksSettings>) {
        self.verifier.set_policy(policy(settings));
        self.refresher.follow(jwks);
    }
}

fn policy(settings: GatewaySettings<'_>) -> Policy {
    Policy::new(settings.auth, settings.gateway)
}
