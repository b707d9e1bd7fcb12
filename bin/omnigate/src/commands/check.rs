//! `omnigate check`: whether the configuration would work, as far as can be told without opening a socket.

use ron_transport::tls::{ClientTls, ServerTls};
use svc_gateway::{AuthConfig, GatewayConfig, check_services, jwt::JwksSettings, load_auth};

use crate::{
    config_file::ConfigSource,
    failure::{Failure, wants_color},
};

/// Loads the configuration and everything it names; warnings go to standard error.
pub(super) fn run(source: &ConfigSource) -> Result<(), Failure> {
    let snapshot = source.load()?;
    let warnings = snapshot.warnings();
    if !warnings.is_empty() {
        eprintln!("{}", warnings.render(wants_color()));
    }
    let (gateway, auth) = (snapshot.get::<GatewayConfig>(), snapshot.get::<AuthConfig>());
    if gateway.enabled {
        check_certificates(&gateway)?;
        check_upstreams(&gateway)?;
        check_services(&gateway, []).map_err(Failure::bad_config)?;
    }
    load_auth(&auth).map_err(Failure::bad_config)?;
    JwksSettings::load(&auth).map_err(|error| Failure::bad_config(format!("auth: {error}")))?;
    super::print(&format!("ok: {}\n", source.name()))
}

/// Loads the certificates, which looks at the keys' modes too.
fn check_certificates(gateway: &GatewayConfig) -> Result<(), Failure> {
    let Some(tls) = gateway.tls.server_config() else {
        return Ok(());
    };
    let loaded =
        ServerTls::load(&tls).map_err(|error| Failure::bad_config(format!("gateway.tls: {error}")))?;
    for warning in loaded.warnings() {
        eprintln!("warning: gateway.tls: {warning}");
    }
    Ok(())
}

/// Loads whom upstreams are trusted by, and what is shown to them.
fn check_upstreams(gateway: &GatewayConfig) -> Result<(), Failure> {
    for (name, upstream) in &gateway.upstream {
        if let Some(tls) = upstream.client_tls() {
            let bad = |error| Failure::bad_config(format!("gateway.upstream.{name}.tls: {error}"));
            ClientTls::load(&tls).map_err(bad)?;
        }
    }
    Ok(())
}
