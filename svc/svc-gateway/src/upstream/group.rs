//! The upstreams of a configuration, each a group of servers that all cores share.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU32},
};

use arc_swap::{ArcSwap, Guard};
use ron_kernel::{
    Clock, Scope, blocking::Blocking, failures::FailureLog, metrics::LatencyHistogram, supervisor::Children,
};
use ron_transport::{
    addr::{Endpoint, Host, Target},
    client::{Drivers, H2Options},
    descriptors,
    resolve::Resolver,
    tls::ClientTls,
};
use types::Moment;
use zeroize::Zeroizing;

use super::{
    budget::RetryShares,
    exchange::ABANDONED,
    metrics::{GroupMetrics, UpstreamFamilies},
    roster::Roster,
    server::{Server, Standing},
    sticky::Sticky,
};
use crate::{
    BuildError, UpstreamConfig,
    config::{EndpointConfig, Protocol},
    mirror::MIRRORED,
    pool::Pool,
};

/// The most servers of one upstream whose failures are written into one line.
const MOST_NAMED: usize = 4;

/// The groups in force, by name.
pub(crate) type Groups = BTreeMap<String, Arc<Group>>;

/// All upstreams of the gateway, and what they are made with.
#[derive(Clone, Debug)]
pub(crate) struct Upstreams {
    tools: Tools,
    groups: Arc<ArcSwap<Groups>>,
}

/// The tools that every upstream uses.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) clock: Clock,
    pub(crate) resolver: Resolver,
    pub(crate) families: UpstreamFamilies,
    /// Run what shared connections need.
    pub(crate) drivers: Drivers,
    /// Run what is left of requests that nobody waits for.
    pub(crate) abandoned: Children,
    /// Run copies of requests.
    pub(crate) mirrored: Children,
    blocking: Blocking,
    cores: usize,
    /// What the cookies of servers are made with, where the configuration has no secret for that.
    secret: Arc<ProcessSecret>,
}

/// A secret that lasts as long as the process.
struct ProcessSecret(Zeroizing<[u8; 32]>);

impl ProcessSecret {
    fn new() -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        aws_lc_rs::rand::fill(&mut *secret).expect("the system has random numbers");
        Self(secret)
    }
}

impl std::fmt::Debug for ProcessSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProcessSecret")
    }
}

impl Upstreams {
    pub(crate) fn new(scope: &Scope, resolver: Resolver) -> Self {
        let tools = Tools {
            clock: scope.clock(),
            resolver,
            families: UpstreamFamilies::register(scope),
            drivers: Drivers::new(scope),
            abandoned: scope.children(&ABANDONED),
            mirrored: scope.children(&MIRRORED),
            blocking: scope.blocking().clone(),
            cores: scope.planes().cores().len(),
            secret: Arc::new(ProcessSecret::new()),
        };
        Self { tools, groups: Arc::default() }
    }

    /// The groups of a configuration. Nothing of what is in force changes before they are committed.
    ///
    /// Cancel safe: what was prepared is dropped.
    ///
    /// # Errors
    /// If the certificates of an upstream cannot be used.
    pub(crate) async fn prepare(
        &self,
        config: &BTreeMap<String, UpstreamConfig>,
    ) -> Result<Groups, BuildError> {
        let current = self.groups.load_full();
        let mut groups = Groups::new();
        for (name, config) in config {
            let old = current.get(name);
            // Files may have changed where the configuration has not.
            let tls = self.load_tls(config).await?;
            let group = match old {
                Some(old) if old.config == *config && tls.is_none() => Arc::clone(old),
                _ => Arc::new(Group::new(name, config, tls, old.map(Arc::as_ref), &self.tools)),
            };
            groups.insert(name.clone(), group);
        }
        Ok(groups)
    }

    async fn load_tls(&self, config: &UpstreamConfig) -> Result<Option<ClientTls>, BuildError> {
        let Some(source) = config.client_tls() else { return Ok(None) };
        Ok(Some(self.tools.blocking.run("load certificates", move || ClientTls::load(&source)).await??))
    }

    /// Puts groups into force.
    pub(crate) fn commit(&self, groups: Groups) {
        groups.values().for_each(|group| group.apply_config());
        let before = self.groups.swap(Arc::new(groups));
        let now = self.groups.load();
        before
            .values()
            .filter(|group| !now.contains_key(&group.name))
            .for_each(|group| group.metrics.forget());
        self.share_idle(&now);
    }

    /// Gives each pool its share of the idle connections that there may be: a quarter of the files that the process may open.
    /// Otherwise connections that nobody uses could leave none for clients.
    fn share_idle(&self, groups: &Groups) {
        let pools = |group: &Group| group.members().iter().map(|member| member.pools.len()).sum::<usize>();
        let count: usize = groups.values().map(|group| pools(group)).sum();
        let share = (descriptors::share(usize::MAX) / count.max(1)).max(1);
        for group in groups.values() {
            let members = group.members();
            members.iter().flat_map(|member| member.pools.iter()).for_each(|pool| pool.set_idle_share(share));
        }
    }

    /// How long a service in this process takes.
    pub(crate) fn latency_of_service(&self, name: &str) -> LatencyHistogram {
        self.tools.families.latency_of_service(name)
    }

    pub(super) fn clock(&self) -> Clock {
        self.tools.clock
    }

    /// The groups in force.
    pub(crate) fn groups(&self) -> Guard<Arc<Groups>> {
        self.groups.load()
    }

    /// Closes the idle connections of a core that are of no more use. Names may have other addresses than before, so the shares
    /// of all pools are looked at too.
    pub(crate) fn sweep(&self, core: usize) {
        self.share_idle(&self.groups());
        for group in self.groups().values() {
            group.members().iter().for_each(|member| member.pools[core].sweep());
        }
    }

    /// Publishes the state of all servers.
    pub(crate) fn sample(&self) {
        let (groups, now) = (self.groups(), self.tools.clock.now());
        let mut waiting = 0;
        for group in groups.values() {
            let members = group.members();
            group.metrics.sample(members.iter().map(|member| &member.server), now);
            waiting += members.iter().map(Member::waiting).sum::<usize>();
        }
        self.tools.families.queue().depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
}

/// One upstream: its servers, and what their requests share.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) config: UpstreamConfig,
    pub(crate) tools: Tools,
    pub(super) tls: Option<ClientTls>,
    /// Whether its servers may take many requests on one connection.
    pub(super) may_share: bool,
    pub(super) budget: RetryShares,
    /// How clients are kept at their server; `None` if they are not.
    pub(super) sticky: Option<Sticky>,
    /// Copies of requests on their way here.
    pub(super) mirrored: Arc<AtomicU32>,
    pub(crate) metrics: GroupMetrics,
    /// Requests that got no answer although no server failed.
    pub(super) unanswered: FailureLog,
    members: ArcSwap<Vec<Member>>,
    /// The rosters, by core.
    rosters: Box<[Arc<ArcSwap<Roster>>]>,
}

/// A server of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// As configured: its address may be one of several of its name.
    origin: Endpoint,
    pub(crate) server: Arc<Server>,
    /// The connection pools, by core.
    pools: Arc<[Arc<Pool>]>,
}

impl Group {
    fn new(
        name: &str,
        config: &UpstreamConfig,
        tls: Option<ClientTls>,
        old: Option<&Self>,
        tools: &Tools,
    ) -> Self {
        let spoken_to_alike =
            |old: &&Self| old.config.tls == config.tls && old.config.protocol == config.protocol;
        let known = old.filter(spoken_to_alike).map(Self::members);
        let known: &[Member] = known.as_ref().map_or(&[], |members| members.as_slice());
        let members = config.endpoints.iter().flat_map(|endpoint| {
            let kept: Vec<_> = known.iter().filter(|member| member.origin == endpoint.url).cloned().collect();
            if kept.is_empty() {
                vec![Member::new(name, endpoint, endpoint.url.clone(), config, tools)]
            } else {
                kept
            }
        });
        let members: Vec<Member> = members.collect();
        let mut metrics = tools.families.of(name);
        if config.sticky.as_ref().is_some_and(|sticky| !sticky.cookie.is_empty()) {
            tools.families.count_sticky(&mut metrics);
        }
        let sticky = config.sticky.as_ref().and_then(|sticky| Sticky::new(sticky, name, &tools.secret.0[..]));
        let rosters = rosters(&members, tools.cores, sticky.as_ref())
            .map(|roster| Arc::new(ArcSwap::from_pointee(roster)));
        Self {
            name: name.to_owned(),
            config: config.clone(),
            tools: tools.clone(),
            may_share: match config.protocol {
                Protocol::Http1 => false,
                Protocol::H2 => true,
                Protocol::Auto => tls.is_some(),
            },
            tls,
            budget: RetryShares::new(config.retry.budget_permille()),
            metrics,
            unanswered: FailureLog::default(),
            rosters: rosters.collect(),
            sticky,
            mirrored: old.map(|old| Arc::clone(&old.mirrored)).unwrap_or_default(),
            members: ArcSwap::from_pointee(members),
        }
    }

    pub(crate) fn members(&self) -> Guard<Arc<Vec<Member>>> {
        self.members.load()
    }

    /// Returns the options for opening shared connections.
    pub(super) fn h2_options(&self) -> H2Options {
        H2Options { stall_limit: Some(self.config.timeout.as_duration()), ..H2Options::default() }
    }

    pub(super) fn roster(&self, core: usize) -> Arc<ArcSwap<Roster>> {
        Arc::clone(&self.rosters[core])
    }

    /// The endpoints whose host is a name.
    pub(super) fn names(&self) -> impl Iterator<Item = (&EndpointConfig, &str, u16)> {
        self.config.endpoints.iter().filter_map(|endpoint| match endpoint.url.target() {
            Target::Tcp { host: Host::Name(name), port } => Some((endpoint, name.as_str(), *port)),
            _ => None,
        })
    }

    /// These are an endpoint's addresses from now on, in any order. Servers that stay keep what is known of them. Called by
    /// one task alone.
    pub(super) fn set_addresses(&self, endpoint: &EndpointConfig, addresses: &[SocketAddr]) {
        let before = self.members.load_full();
        let of_endpoint = |member: &&Member| member.origin == endpoint.url;
        // Name servers rotate their lists; the same addresses in another order are no change.
        let addresses: BTreeSet<SocketAddr> = addresses.iter().copied().collect();
        let wanted: Vec<Endpoint> =
            addresses.iter().filter_map(|address| at_address(&endpoint.url, *address)).collect();
        let same = before.iter().filter(of_endpoint).map(|member| &member.server.endpoint).eq(&wanted);
        if same || wanted.is_empty() {
            return;
        }
        let known =
            |wanted: &Endpoint| before.iter().filter(of_endpoint).find(|m| m.server.endpoint == *wanted);
        let fresh =
            |wanted: &Endpoint| Member::new(&self.name, endpoint, wanted.clone(), &self.config, &self.tools);
        let members = self.config.endpoints.iter().flat_map(|configured| {
            if configured == endpoint {
                let of_name = wanted.iter().map(|at| known(at).cloned().unwrap_or_else(|| fresh(at)));
                return of_name.collect();
            }
            before.iter().filter(|member| member.origin == configured.url).cloned().collect::<Vec<_>>()
        });
        let members: Vec<Member> = members.collect();
        tracing::info!(upstream = self.name, endpoint = %endpoint.url, addresses = wanted.len(), "resolved");
        for (current, roster) in
            self.rosters.iter().zip(rosters(&members, self.tools.cores, self.sticky.as_ref()))
        {
            current.store(Arc::new(roster));
        }
        self.members.store(Arc::new(members));
    }

    /// The servers of a configured endpoint: several if its host is a name.
    pub(super) fn servers_of(&self, endpoint: &EndpointConfig) -> Vec<Arc<Server>> {
        let members = self.members();
        let of_endpoint = members.iter().filter(|member| member.origin == endpoint.url);
        of_endpoint.map(|member| Arc::clone(&member.server)).collect()
    }

    /// Whether any server is used at `now`.
    pub(super) fn has_usable(&self, now: Moment) -> bool {
        self.members().iter().any(|member| member.server.standing(now) == Standing::Usable)
    }

    /// Why requests to its servers failed last, by server; those that have not failed are left out.
    pub(super) fn last_failures(&self) -> Vec<(String, Arc<str>)> {
        let failed =
            |member: &Member| Some((member.server.endpoint.to_string(), member.server.last_failure()?.cause));
        self.members().iter().filter_map(failed).take(MOST_NAMED).collect()
    }

    /// Puts the configuration into force for servers that were there before.
    fn apply_config(&self) {
        for member in self.members().iter() {
            let configured = self.config.endpoints.iter().find(|endpoint| endpoint.url == member.origin);
            member.server.set_config(configured.map_or(1, |endpoint| endpoint.weight), &self.config);
            member.pools.iter().for_each(|pool| pool.set_config(&self.config));
        }
        // Weights may have changed.
        for (current, roster) in
            self.rosters.iter().zip(rosters(&self.members(), self.tools.cores, self.sticky.as_ref()))
        {
            current.store(Arc::new(roster));
        }
    }
}

impl Member {
    /// Requests that wait for a connection to it, or for a place on one.
    fn waiting(&self) -> usize {
        self.server.seats.waiting() + self.pools.iter().map(|pool| pool.shared.waiting()).sum::<usize>()
    }

    fn new(
        upstream: &str,
        configured: &EndpointConfig,
        at: Endpoint,
        config: &UpstreamConfig,
        tools: &Tools,
    ) -> Self {
        let (queue, refusals) = (tools.families.queue(), tools.families.stream_refusals());
        let server = Arc::new(Server::new(upstream, at, configured, config, queue, refusals.clone()));
        let stalls = &tools.families.timeouts().rpc;
        let pool = || Arc::new(Pool::new(Arc::clone(&server), config, tools.clock, stalls.clone()));
        let pools: Arc<[Arc<Pool>]> = (0..tools.cores).map(|_| pool()).collect();
        server.set_pools(&pools);
        Self { origin: configured.url.clone(), server, pools }
    }
}

/// The rosters of all cores.
fn rosters(members: &[Member], cores: usize, sticky: Option<&Sticky>) -> impl Iterator<Item = Roster> {
    let of_core = |core: usize| members.iter().map(|member| Arc::clone(&member.pools[core])).collect();
    (0..cores).map(move |core| Roster::new(of_core(core), sticky))
}

/// The endpoint with its host's name replaced by an address.
fn at_address(endpoint: &Endpoint, address: SocketAddr) -> Option<Endpoint> {
    Endpoint::tcp(endpoint.scheme(), Host::Ip(address.ip()), address.port()).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_kernel::Kernel;

    fn config(endpoints: &[&str]) -> BTreeMap<String, UpstreamConfig> {
        let endpoints = endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect();
        [("up".to_owned(), UpstreamConfig { endpoints, ..UpstreamConfig::default() })].into()
    }

    fn addresses(text: &[&str]) -> Vec<SocketAddr> {
        text.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn urls(group: &Group) -> Vec<String> {
        group.members().iter().map(|member| member.server.endpoint.to_string()).collect()
    }

    #[test]
    fn a_names_addresses_come_and_go_and_those_that_stay_keep_what_is_known_of_them() {
        let kernel = Kernel::builder("test").build().unwrap();
        let scope = kernel.scope(&crate::TOPOLOGY);
        let upstreams = Upstreams::new(&scope, Resolver::new(&scope));
        let prepare = |endpoints: &[&str]| kernel.block_on(upstreams.prepare(&config(endpoints))).unwrap();
        upstreams.commit(prepare(&["http://10.0.0.9:1", "http://app:80"]));
        let group = Arc::clone(&upstreams.groups()["up"]);
        assert_eq!(urls(&group), ["http://10.0.0.9:1", "http://app:80"]);

        let app = group.config.endpoints[1].clone();
        group.set_addresses(&app, &addresses(&["10.0.0.1:80", "10.0.0.2:80"]));
        assert_eq!(urls(&group), ["http://10.0.0.9:1", "http://10.0.0.1:80", "http://10.0.0.2:80"]);
        let second = Arc::clone(&group.members()[2].server);
        group.set_addresses(&app, &addresses(&["10.0.0.2:80", "10.0.0.3:80"]));
        assert_eq!(urls(&group), ["http://10.0.0.9:1", "http://10.0.0.2:80", "http://10.0.0.3:80"]);
        assert!(Arc::ptr_eq(&second, &group.members()[1].server));
        let members = group.members().clone();
        group.set_addresses(&app, &addresses(&["10.0.0.3:80", "10.0.0.2:80"]));
        assert!(Arc::ptr_eq(&members, &group.members()), "the same addresses in another order are no change");
        group.set_addresses(&app, &[]);
        assert_eq!(urls(&group).len(), 3, "no answer is no reason to forget");

        upstreams.commit(prepare(&["http://app:80", "http://10.0.0.8:1"]));
        let group = Arc::clone(&upstreams.groups()["up"]);
        assert_eq!(urls(&group), ["http://10.0.0.2:80", "http://10.0.0.3:80", "http://10.0.0.8:1"]);
        assert!(Arc::ptr_eq(&second, &group.members()[0].server));
        for core in scope.planes().cores() {
            assert_eq!(group.roster(core.index()).load().pools().len(), 3);
        }
    }
}
