//! The rewarder of a node: its ledger, its store and its credentials put together.

use std::sync::Arc;

use ron_accounting::Announce;
use ron_kernel::{Kernel, Scope, config::Snapshot};
use ron_ledger::{Ledger, LedgerError, Place, Scrutiny, WaitingLedger};
use ron_transport::inherit::Inherited;
use svc_gateway::{AuthConfig, AuthFiles};
use svc_rewarder::{
    Authority, LoadAuthority, Rewarder, RewarderConfig, RewarderSettings, StorePlace, TOPOLOGY,
};

use crate::settings::{LedgerConfig, NodeConfig};

/// Opens the rewarder, if it is enabled; what it seals is told to `announce`.
pub(super) async fn open(
    kernel: &Kernel,
    config: &Snapshot,
    announce: Option<Arc<dyn Announce>>,
    inherited: &mut Inherited,
) -> Result<Option<Arc<Rewarder>>, String> {
    let (rewarder, node) = (config.get::<RewarderConfig>(), config.get::<NodeConfig>());
    if !rewarder.enabled {
        return Ok(None);
    }
    let ledger = config.get::<LedgerConfig>();
    let (place, scrutiny) = (ledger.place_of_node(&node.data_dir, node.amnesia)?, ledger.scrutiny());
    let checkpoint_keys = ledger.trusted();
    if !place.is_durable() {
        tracing::warn!("the ledger is in memory: every balance is lost when this process ends");
    }
    let store = match &place {
        Place::Server(url) => StorePlace::Postgres(url.clone()),
        Place::File(_) | Place::Memory => StorePlace::Local,
    };
    let scope = kernel.scope(&TOPOLOGY);
    let auth_files = AuthFiles::default();
    let load_authority: LoadAuthority = Arc::new(move |config| load_authority(&auth_files, config));
    let (load, snapshot) = (Arc::clone(&load_authority), config.clone());
    let open = move || Ok::<_, String>((open_ledger(&place, &scrutiny)?, load(&snapshot)?));
    let (ledger, authority) =
        scope.blocking().run("open the ledger", open).await.map_err(|error| error.to_string())??;
    let held = Arc::clone(&ledger);
    let built = build(
        &scope,
        config,
        (ledger, store, &checkpoint_keys),
        (authority, load_authority),
        announce,
        inherited,
    );
    let built = built.await;
    if built.is_err() {
        // A connection to a server is closed by a thread that may block.
        let _ = scope.blocking().run("close the ledger", move || drop(held)).await;
    }
    built.map(Some)
}

async fn build(
    scope: &Scope,
    config: &Snapshot,
    (ledger, store, checkpoint_keys): (Arc<dyn Ledger>, StorePlace, &[[u8; 32]]),
    (authority, load_authority): (Authority, LoadAuthority),
    announce: Option<Arc<dyn Announce>>,
    inherited: &mut Inherited,
) -> Result<Arc<Rewarder>, String> {
    let (rewarder, node) = (config.get::<RewarderConfig>(), config.get::<NodeConfig>());
    if authority.ring.is_empty() && rewarder.is_open() {
        return Err(format!(
            "rewarder: {} can be reached from other machines, and there are no `auth.root_keys` to say who may ask; \
             list one (`omnigate token keygen`), or listen on 127.0.0.1",
            rewarder.listen
        ));
    }
    let clock = scope.clock();
    let settings = RewarderSettings {
        rewarder: &rewarder,
        data_dir: (!node.amnesia).then_some(node.data_dir.as_path()),
        store,
        ledger,
        checkpoint_keys,
        authority,
        load_authority,
        wall_clock: Arc::new(move || clock.wall()),
        announce,
    };
    Rewarder::build(scope, settings, inherited).await.map_err(|error| error.to_string())
}

/// What capability tokens are checked with: the same keys as the gateway's. Blocking.
fn load_authority(files: &AuthFiles, config: &Snapshot) -> Result<Authority, String> {
    let loaded = files.load(&config.get::<AuthConfig>());
    let (ring, revoked) = loaded.map_err(|error| error.to_string())?;
    Ok(Authority { ring, revoked })
}

/// Opens a ledger. Blocking.
pub(crate) fn open_ledger(place: &Place, scrutiny: &Scrutiny) -> Result<Arc<dyn Ledger>, String> {
    if let Place::File(path) = place
        && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        make_folder(folder)?;
    }
    let failed = |error: LedgerError| format!("ledger: {place:?}: {error}");
    if !matches!(place, Place::Server(_)) {
        return place.open(scrutiny).map(Arc::from).map_err(failed);
    }
    let ledger = WaitingLedger::new(place.clone(), scrutiny.clone());
    match ledger.open() {
        Err(error) if error.is_transient() || matches!(error, LedgerError::BadSetup(_)) => {
            tracing::warn!(%error, "the node continues without its ledger, and tries again");
        }
        opened => drop(opened.map_err(failed)?),
    }
    Ok(Arc::new(ledger))
}

#[expect(clippy::disallowed_methods, reason = "every caller is on the blocking pool")]
fn make_folder(folder: &std::path::Path) -> Result<(), String> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("ledger: {} cannot be made: {error}", folder.display()))
}
