//! `omnigate check`: whether the configuration would work, as far as can be told without opening a socket.

use ron_kernel::config::{Snapshot, Table as _};
use ron_transport::tls::{ClientTls, ServerTls};
use svc_edge::EdgeConfig;
use svc_gateway::{
    AcmeError, AcmeSettings, AuthConfig, GatewayConfig, OBJECTS, check_services, check_users,
    jwt::JwksSettings, load_auth,
};
use svc_overlay::OverlayConfig;

use crate::{
    config_file::ConfigSource,
    failure::{Failure, wants_color},
    settings::{AdminConfig, NodeConfig},
    unworkable,
};

/// Loads the configuration and everything it names; warnings go to standard error.
pub(super) fn run(source: &ConfigSource) -> Result<(), Failure> {
    let snapshot = source.load()?;
    let warnings = snapshot.warnings();
    if !warnings.is_empty() {
        eprintln!("{}", warnings.render(wants_color()));
    }
    let is_configured = unworkable::has_gateway_settings(&snapshot);
    for finding in unworkable::findings(&snapshot).iter().filter(|found| is_configured || !found.is_usual) {
        eprintln!("{}", finding.render());
    }
    check_certificates(&snapshot)?;
    let (gateway, auth) = (snapshot.get::<GatewayConfig>(), snapshot.get::<AuthConfig>());
    if gateway.enabled {
        check_upstreams(&gateway)?;
        check_users(&gateway).map_err(|error| Failure::bad_config(format!("gateway: {error}")))?;
        if gateway.has_acme() {
            let bad = |error| Failure::bad_config(format!("gateway: {error}"));
            AcmeSettings::check(&gateway).map_err(bad)?;
            if snapshot.get::<NodeConfig>().amnesia {
                return Err(bad(AcmeError::Amnesia));
            }
        }
        let edge = snapshot.get::<EdgeConfig>().enabled.then_some(EdgeConfig::NAME);
        let objects = snapshot.get::<OverlayConfig>().enabled.then_some(OBJECTS);
        check_services(&gateway, edge.into_iter().chain(objects)).map_err(Failure::bad_config)?;
    }
    load_auth(&auth).map_err(Failure::bad_config)?;
    JwksSettings::load(&auth).map_err(|error| Failure::bad_config(format!("auth: {error}")))?;
    super::print(&format!("ok: {}\n", source.name()))
}

/// Loads the certificates, which looks at the keys' modes too.
fn check_certificates(snapshot: &Snapshot) -> Result<(), Failure> {
    let (gateway, edge) = (snapshot.get::<GatewayConfig>(), snapshot.get::<EdgeConfig>());
    let (admin, overlay) = (snapshot.get::<AdminConfig>(), snapshot.get::<OverlayConfig>());
    for (name, enabled, tls) in [
        (GatewayConfig::NAME, gateway.enabled, &gateway.tls),
        (EdgeConfig::NAME, edge.enabled, &edge.tls),
        (AdminConfig::NAME, true, &admin.tls),
        ("overlay.api", overlay.enabled && overlay.api.enabled, &overlay.api.tls),
    ] {
        let has_own = !tls.cert_path.as_os_str().is_empty() || !tls.sni.is_empty();
        if !enabled || !has_own {
            continue;
        }
        let tls = tls.server_config_beside(Vec::new());
        let loaded =
            ServerTls::load(&tls).map_err(|error| Failure::bad_config(format!("{name}.tls: {error}")))?;
        for warning in loaded.warnings() {
            eprintln!("warning: {name}.tls: {warning}");
        }
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
