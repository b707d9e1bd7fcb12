//! The services of a node: opened as the configuration says, listed for whoever needs all of them.

use std::sync::Arc;

use ron_kernel::{KERNEL_TOPOLOGY, Kernel, Scope, config::Snapshot, reload::Reconfigure, topology::Topology};
use ron_transport::{addr::ListenAddr, inherit::Inherited, listen::Listener};
use svc_gateway::{AuthConfig, Gateway, GatewayConfig, GatewaySettings, LocalServices};

use crate::{
    admin::{self, Admin},
    logging::LogControl,
    settings::AdminConfig,
};

use super::{drain::Drain, reread::Reread};

/// Every service there is, running or not; the generated pages describe all of them.
pub(crate) static TOPOLOGIES: [&Topology; 3] = [&KERNEL_TOPOLOGY, &admin::TOPOLOGY, &svc_gateway::TOPOLOGY];

/// The running services.
#[derive(Debug)]
pub(super) struct Parts {
    gateway: Option<Arc<Gateway>>,
    admin: Arc<Admin>,
    admin_scope: Scope,
}

impl Parts {
    /// Opens what the configuration enables, the admin listener last: once it answers, the others do.
    pub(super) async fn open(
        kernel: &Kernel,
        config: &Snapshot,
        inherited: &mut Inherited,
    ) -> Result<Self, String> {
        let (gateway_config, auth) = (config.get::<GatewayConfig>(), config.get::<AuthConfig>());
        let gateway = if gateway_config.enabled {
            let settings = GatewaySettings { gateway: &gateway_config, auth: &auth };
            let scope = kernel.scope(&svc_gateway::TOPOLOGY);
            let built = Gateway::build(&scope, settings, LocalServices::default(), inherited).await;
            Some(built.map_err(|error| error.to_string())?)
        } else {
            tracing::warn!("no service is enabled; only the admin listener answers");
            None
        };
        let admin_scope = kernel.scope(&admin::TOPOLOGY);
        let topologies = kernel.topologies();
        let admin = Admin::start(&admin_scope, &config.get::<AdminConfig>(), topologies, inherited)?;
        Ok(Self { gateway, admin, admin_scope })
    }

    /// What follows a new configuration, in the order in which it commits.
    pub(super) fn follow_config(&self, reread: Arc<Reread>, log: LogControl) -> Vec<Arc<dyn Reconfigure>> {
        let mut parts: Vec<Arc<dyn Reconfigure>> = vec![
            reread,
            Arc::new(log),
            Arc::new(Drain(self.admin_scope.clone())),
            Arc::clone(&self.admin) as _,
        ];
        parts.extend(self.gateway.iter().map(|gateway| Arc::clone(gateway) as Arc<dyn Reconfigure>));
        parts
    }

    /// What listens where.
    pub(super) fn addresses(&self) -> Vec<(&'static str, ListenAddr)> {
        let gateway = self.gateway.iter().map(|g| ("gateway", g.local_addr()));
        let redirect = self.gateway.iter().filter_map(|g| Some(("redirect to HTTPS", g.redirect_addr()?)));
        gateway.chain(redirect).chain([("admin", self.admin.local_addr())]).collect()
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
        let configured = &config.get::<AdminConfig>().listen;
        let admin = || Some((name("admin", configured), self.admin.listener()?));
        gateway.chain(redirect).chain([admin()]).collect()
    }

    /// The scope of the admin service, which the node's own tasks belong to.
    pub(super) fn admin_scope(&self) -> &Scope {
        &self.admin_scope
    }
}
