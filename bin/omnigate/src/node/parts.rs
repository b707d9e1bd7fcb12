//! The services of a node: opened as the configuration says, listed for whoever needs all of them.

use std::sync::Arc;

use ron_kernel::{
    KERNEL_TOPOLOGY, Kernel, Scope,
    config::{Snapshot, Table as _},
    reload::{Reconfigure, ReloadDesk},
    topology::Topology,
};
use ron_traces::{Traces, TracesConfig};
use ron_transport::{addr::ListenAddr, inherit::Inherited, listen::Listener};
use svc_edge::{Edge, EdgeConfig, EdgeSettings};
use svc_gateway::{
    AuthConfig, AuthFiles, Gateway, GatewayConfig, GatewaySettings, LocalServices, OBJECTS, ObjectBridge,
};
use svc_overlay::{Api, Overlay, OverlayConfig, OverlaySettings};
use svc_rewarder::{Rewarder, RewarderConfig};

use crate::{
    admin::{self, Admin, ConfigInForce, FollowingAdmin, MadeOf, Shown},
    audit_outlet::AuditOutlet,
    logging::LogControl,
    sandbox::{self, StaysWithin},
    settings::{AdminConfig, NodeConfig},
};

use super::{
    accounting::{self, Board},
    drain::Drain,
    local_edge::LocalEdge,
    overlay_objects::OverlayObjects,
    reread::Reread,
    rewarder, upgrade, watched,
};

/// Every service there is, running or not; the generated pages describe all of them.
pub(crate) static TOPOLOGIES: [&Topology; 8] = [
    &KERNEL_TOPOLOGY,
    &admin::TOPOLOGY,
    &svc_gateway::TOPOLOGY,
    &svc_edge::TOPOLOGY,
    &svc_overlay::TOPOLOGY,
    &svc_overlay::API_TOPOLOGY,
    &svc_rewarder::TOPOLOGY,
    &ron_traces::TOPOLOGY,
];

/// The running services.
#[derive(Debug)]
pub(super) struct Parts {
    traces: Option<Arc<Traces>>,
    gateway: Option<Arc<Gateway>>,
    edge: Option<Arc<Edge>>,
    overlay: Option<Arc<Overlay>>,
    api: Option<Arc<Api>>,
    rewarder: Option<Arc<Rewarder>>,
    admin: Arc<Admin>,
    admin_scope: Scope,
}

impl Parts {
    /// Opens what the configuration enables, the admin listener last: once it answers, the others do.
    pub(super) async fn open(
        kernel: &Kernel,
        config: &Snapshot,
        inherited: &mut Inherited,
        (in_force, reloads): (ConfigInForce, ReloadDesk),
        audit: &AuditOutlet,
    ) -> Result<Self, String> {
        // Before all that has something to tell.
        let traces = open_traces(kernel, config).await?;
        // Before the gateway, because its routes may lead to them.
        let edge = open_edge(kernel, config, inherited).await?;
        let overlay = open_overlay(kernel, config, inherited).await?;
        let api = open_api(kernel, config, overlay.as_deref(), inherited).await?;
        let gateway = open_gateway(kernel, config, local_services(&edge, &overlay), inherited).await?;
        let board = Arc::new(Board::default());
        let announce = overlay.is_some().then(|| Arc::clone(&board) as _);
        let rewarder = rewarder::open(kernel, config, announce, inherited).await?;
        if edge.is_none() && gateway.is_none() && overlay.is_none() && rewarder.is_none() {
            tracing::warn!("no service is enabled; only the admin listener answers");
        }
        let admin_scope = kernel.scope(&admin::TOPOLOGY);
        if let (Some(overlay), Some(rewarder)) = (&overlay, &rewarder) {
            accounting::start_announcer(&admin_scope, board, overlay);
            accounting::start_collector(&admin_scope, overlay, rewarder);
        }
        let topologies = kernel.topologies();
        let watched = watched::parts(gateway.as_ref(), edge.as_ref());
        let shown = Shown { config: in_force, parts: watched, rewarder: rewarder.clone() };
        let settings = config.get::<AdminConfig>();
        let made_of =
            MadeOf { topologies, gateway: gateway.clone(), overlay: overlay.clone(), shown, reloads };
        let admin = Admin::start(&admin_scope, &settings, audit, made_of, inherited).await?;
        Ok(Self { traces, gateway, edge, overlay, api, rewarder, admin, admin_scope })
    }

    /// What follows a new configuration, in the order in which it commits.
    pub(super) fn follow_config(&self, reread: Arc<Reread>, log: LogControl) -> Vec<Arc<dyn Reconfigure>> {
        let mut parts: Vec<Arc<dyn Reconfigure>> = vec![
            reread,
            Arc::new(StaysWithin::new(&self.admin_scope, sandbox::held_to())),
            Arc::new(log),
            Arc::new(Drain(self.admin_scope.clone())),
            Arc::new(FollowingAdmin(Arc::clone(&self.admin))),
        ];
        parts.extend(self.traces.iter().map(|traces| Arc::clone(traces) as Arc<dyn Reconfigure>));
        parts.extend(self.edge.iter().map(|edge| Arc::clone(edge) as Arc<dyn Reconfigure>));
        parts.extend(self.overlay.iter().map(|overlay| Arc::clone(overlay) as Arc<dyn Reconfigure>));
        parts.extend(self.api.iter().map(|api| Arc::clone(api) as Arc<dyn Reconfigure>));
        parts.extend(self.gateway.iter().map(|gateway| Arc::clone(gateway) as Arc<dyn Reconfigure>));
        parts.extend(self.rewarder.iter().map(|rewarder| Arc::clone(rewarder) as Arc<dyn Reconfigure>));
        parts
    }

    /// Returns the listening addresses of all services.
    pub(super) fn addresses(&self) -> Vec<(&'static str, ListenAddr)> {
        let gateway = self.gateway.iter().map(|g| ("gateway", g.local_addr()));
        let redirect = self.gateway.iter().filter_map(|g| Some(("redirect to HTTPS", g.redirect_addr()?)));
        let edge = self.edge.iter().map(|edge| ("edge", edge.local_addr()));
        let overlay = self.overlay.iter().map(|overlay| ("overlay", overlay.local_addr()));
        let api = self.api.iter().map(|api| ("topics", api.local_addr()));
        let quic = self.overlay.iter().filter_map(|overlay| overlay.quic_addr());
        let overlay = overlay.chain(quic.map(|addr| ("QUIC", ListenAddr::Tcp(addr)))).chain(api);
        let rewarder = self.rewarder.iter().map(|rewarder| ("rewarder", rewarder.local_addr()));
        let admin = [("admin", self.admin.local_addr())];
        gateway.chain(redirect).chain(edge).chain(overlay).chain(rewarder).chain(admin).collect()
    }

    /// Addresses to look at with a browser: the console, and the edge's packs.
    pub(super) fn to_look_at(&self) -> Vec<String> {
        let packs = self.edge.iter().flat_map(|edge| edge.to_look_at());
        self.admin.console_url().into_iter().chain(packs).collect()
    }

    /// The listening sockets, each under the name by which a successor with this configuration looks for it; `None` once
    /// the node drains.
    pub(super) fn listeners(&self, config: &Snapshot) -> Option<Vec<(String, Arc<Listener>)>> {
        let name = |service: &str, configured: &ListenAddr| match configured {
            ListenAddr::Inherited(name) => name.clone(),
            _ => service.to_owned(),
        };
        let gateway = self.gateway.iter().map(|gateway| {
            let configured = &config.get::<GatewayConfig>().listen;
            Some((name("gateway", configured), gateway.listener()?))
        });
        let redirect = self.gateway.iter().filter_map(|gateway| {
            let configured = config.get::<GatewayConfig>().redirect_http.clone()?;
            Some(Some((name("gateway_redirect", &configured), gateway.redirect_listener()?)))
        });
        let edge = self.edge.iter().map(|edge| {
            let configured = &config.get::<EdgeConfig>().listen;
            Some((name("edge", configured), edge.listener()?))
        });
        let overlay = self.overlay.iter().map(|overlay| {
            let configured = &config.get::<OverlayConfig>().listen;
            Some((name("overlay", configured), overlay.listener()?))
        });
        let api = self.api.iter().map(|api| {
            let configured = &config.get::<OverlayConfig>().api.listen;
            Some((name("overlay_api", configured), api.listener()?))
        });
        let overlay = overlay.chain(api);
        let rewarder = self.rewarder.iter().map(|rewarder| {
            let configured = &config.get::<RewarderConfig>().listen;
            Some((name("rewarder", configured), rewarder.listener()?))
        });
        let configured = &config.get::<AdminConfig>().listen;
        let admin = || Some((name("admin", configured), self.admin.listener()?));
        gateway.chain(redirect).chain(edge).chain(overlay).chain(rewarder).chain([admin()]).collect()
    }

    /// The scope of the admin service, which the node's own tasks belong to.
    pub(super) fn admin_scope(&self) -> &Scope {
        &self.admin_scope
    }
}

async fn open_traces(kernel: &Kernel, config: &Snapshot) -> Result<Option<Arc<Traces>>, String> {
    let traces = config.get::<TracesConfig>();
    if traces.url.is_empty() {
        return Ok(None);
    }
    let started = Traces::start(&kernel.scope(&ron_traces::TOPOLOGY), &traces).await;
    started.map(|traces| Some(Arc::new(traces))).map_err(|error| error.to_string())
}

async fn open_edge(
    kernel: &Kernel,
    config: &Snapshot,
    inherited: &mut Inherited,
) -> Result<Option<Arc<Edge>>, String> {
    let (edge, node) = (config.get::<EdgeConfig>(), config.get::<NodeConfig>());
    if !edge.enabled {
        return Ok(None);
    }
    let data_dir = (!node.amnesia).then_some(node.data_dir.as_path());
    let settings = EdgeSettings { edge: &edge, node: &node.name, data_dir };
    let built = Edge::build(&kernel.scope(&svc_edge::TOPOLOGY), settings, inherited).await;
    built.map(Some).map_err(|error| error.to_string())
}

async fn open_overlay(
    kernel: &Kernel,
    config: &Snapshot,
    inherited: &mut Inherited,
) -> Result<Option<Arc<Overlay>>, String> {
    let (overlay, node) = (config.get::<OverlayConfig>(), config.get::<NodeConfig>());
    if !overlay.enabled {
        return Ok(None);
    }
    let auth_files = AuthFiles::default();
    let settings = OverlaySettings {
        config,
        data_dir: (!node.amnesia).then_some(node.data_dir.as_path()),
        idle: node.profile.idle(),
        tokens: Arc::new(move |config| {
            auth_files.load(&config.get::<AuthConfig>()).map_err(|error| error.to_string())
        }),
        held_elsewhere: inherited.predecessor().map(|pid| Arc::new(move || upgrade::is_alive(pid)) as _),
    };
    let built = Overlay::build(&kernel.scope(&svc_overlay::TOPOLOGY), settings, inherited).await;
    built.map(Some).map_err(|error| error.to_string())
}

/// The listener for applications, if the overlay has one.
async fn open_api(
    kernel: &Kernel,
    config: &Snapshot,
    overlay: Option<&Overlay>,
    inherited: &mut Inherited,
) -> Result<Option<Arc<Api>>, String> {
    let api = &config.get::<OverlayConfig>().api;
    let Some(overlay) = overlay.filter(|_| api.enabled) else { return Ok(None) };
    let built = Api::build(&kernel.scope(&svc_overlay::API_TOPOLOGY), overlay, api, inherited).await;
    built.map(Some).map_err(|error| error.to_string())
}

/// What the gateway's routes may lead to in this process.
fn local_services(edge: &Option<Arc<Edge>>, overlay: &Option<Arc<Overlay>>) -> LocalServices {
    let mut services = LocalServices::default();
    if let Some(edge) = edge {
        services = services.with(EdgeConfig::NAME, Arc::new(LocalEdge(Arc::clone(edge))));
    }
    if let Some(overlay) = overlay {
        services = services.with(OBJECTS, Arc::new(ObjectBridge::new(OverlayObjects(overlay.objects()))));
    }
    services
}

async fn open_gateway(
    kernel: &Kernel,
    config: &Snapshot,
    services: LocalServices,
    inherited: &mut Inherited,
) -> Result<Option<Arc<Gateway>>, String> {
    let (gateway, auth) = (config.get::<GatewayConfig>(), config.get::<AuthConfig>());
    if !gateway.enabled {
        return Ok(None);
    }
    let node = config.get::<NodeConfig>();
    let data_dir = (!node.amnesia).then_some(node.data_dir.as_path());
    let settings = GatewaySettings { gateway: &gateway, auth: &auth, data_dir };
    let built = Gateway::build(&kernel.scope(&svc_gateway::TOPOLOGY), settings, services, inherited).await;
    built.map(Some).map_err(|error| error.to_string())
}
