//! `omnigate version`: what this program is.

use serde_json::{Value, json};

use crate::failure::Failure;

/// The program's version and how it was built; `/version` of the admin listener answers the same.
pub(crate) fn about() -> Value {
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "features": features(),
    })
}

/// Optional parts that were compiled in.
fn features() -> Vec<&'static str> {
    let known = [
        ("otlp", ron_traces::AVAILABLE),
        ("postgres", ron_ledger::POSTGRES_AVAILABLE),
        ("quic", svc_overlay::QUIC_AVAILABLE),
        ("redis", svc_gateway::REDIS_AVAILABLE),
    ];
    known.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

/// Prints the version.
pub(super) fn run(json: bool) -> Result<(), Failure> {
    let about = about();
    if json {
        return super::print(&super::pretty(&about));
    }
    let text = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
    let (name, version, target, build) = (text("name"), text("version"), text("target"), text("build"));
    super::print(&format!("{name} {version} ({target}, {build})\nfeatures: {}\n", features().join(", ")))
}
