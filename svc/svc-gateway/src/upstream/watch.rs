//! The task beside the requests: health checks, host names looked up again, and readiness that tells of upstreams
//! without a server.

use std::{
    collections::{HashMap, HashSet},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ron_kernel::{
    Scope,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use tokio::time::MissedTickBehavior;
use types::{Deadline, Moment};

use super::{
    group::{Group, Upstreams},
    health,
    server::Server,
};
use crate::config::EndpointConfig;

/// Checks in progress at once, and lookups beside them.
const MAX_AT_ONCE: usize = 32;
/// How often it looks whether something is due.
const TICK: Duration = Duration::from_millis(100);
/// How long an upstream must have a server again before readiness says so.
const SETTLE: Duration = Duration::from_millis(500);

/// The task that watches over upstreams.
pub(crate) const UPSTREAM_WATCH: TaskSpec = TaskSpec {
    name: "upstream_watch",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "checks the health of upstream servers and resolves host names again, at most 32 of each at once, of which \
     one upstream has at most half of what the others leave; reports upstreams that have no usable server",
};

/// Requests waiting for a connection to a server that may have no more.
pub(crate) const WAITING_QUEUE: QueueSpec = QueueSpec {
    name: "upstream_wait",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "requests whose server has `max_conns` connections",
    to: "connections that come free, on any core",
    doc: "tenants take turns, within the request's deadline; when it is full, a request of the tenant with the most is \
     refused; one queue per server, `max_waiting` long",
};

/// Starts the task of health checks and name resolution.
pub(crate) fn start(scope: &Scope, upstreams: &Upstreams) {
    let condition = scope.condition("upstream_down", Effect::Report, SETTLE);
    let upstreams = upstreams.clone();
    scope.task(&UPSTREAM_WATCH, move |ctx: TaskCtx| {
        let watch = Watch { upstreams: upstreams.clone(), condition: condition.clone(), due: HashMap::new() };
        async move { watch.run(ctx).await }
    });
}

/// What is done again and again, by what it is done to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Duty {
    /// The health check of the server at this place in memory, which is kept as long as the duty is.
    Check(usize),
    /// Looking up this endpoint of this upstream.
    Lookup(String, String),
}

impl Duty {
    const fn kind(&self) -> Kind {
        match self {
            Self::Check(_) => Kind::Check,
            Self::Lookup(..) => Kind::Lookup,
        }
    }
}

/// What servers that hang and name servers that hang take places of: neither keeps the other from being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Check,
    Lookup,
}

/// An upstream without a usable server, and why its servers failed.
fn in_words(group: &Group) -> String {
    let causes: Vec<String> =
        group.last_failures().iter().map(|(server, why)| format!("{server}: {why}")).collect();
    if causes.is_empty() { group.name.clone() } else { format!("{} ({})", group.name, causes.join("; ")) }
}

/// A duty with all that it needs.
struct Work {
    duty: Duty,
    group: Arc<Group>,
    task: Task,
}

enum Task {
    Check(Arc<Server>),
    Lookup { endpoint: EndpointConfig, name: String, port: u16 },
}

/// A duty in progress; it ends with when it is due again.
type Job = Pin<Box<dyn Future<Output = (Duty, Moment)> + Send>>;

struct Watch {
    upstreams: Upstreams,
    condition: Condition,
    /// When what is to be done next; [`Moment::END`] while it is in progress.
    due: HashMap<Duty, Moment>,
}

impl Watch {
    async fn run(mut self, ctx: TaskCtx) -> TaskResult {
        let clock = ctx.scope.clock();
        let mut jobs: FuturesUnordered<Job> = FuturesUnordered::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ctx.stopping() => return Ok(()),
                Some((duty, next)) = jobs.next(), if !jobs.is_empty() => {
                    self.due.insert(duty, next);
                }
                _ = tick.tick() => {
                    let now = clock.now();
                    self.report(now);
                    jobs.extend(self.take_due(now).into_iter().map(|work| Box::pin(work.run()) as Job));
                }
            }
        }
    }

    fn report(&self, now: Moment) {
        let groups = self.upstreams.groups();
        let down = groups.values().filter(|group| !group.has_usable(now));
        let names: Vec<String> = down.map(|group| in_words(group)).collect();
        if names.is_empty() {
            self.condition.clear();
        } else {
            self.condition.raise(format!("no usable server: {}", names.join(", ")));
        }
    }

    /// What is due and has a place, what has waited longest first; each is marked as in progress.
    fn take_due(&mut self, now: Moment) -> Vec<Work> {
        let all = self.duties();
        let known: HashSet<&Duty> = all.iter().map(|work| &work.duty).collect();
        self.due.retain(|duty, _| known.contains(duty));
        let due_at = |work: &Work| self.due.get(&work.duty).copied().unwrap_or(Moment::ORIGIN);
        let mut places = Places::default();
        let (running, waiting): (Vec<Work>, Vec<Work>) =
            all.into_iter().partition(|work| due_at(work) == Moment::END);
        for work in running {
            places.take(work.duty.kind(), &work.group.name);
        }
        let mut due: Vec<Work> = waiting.into_iter().filter(|work| due_at(work) <= now).collect();
        due.sort_by_key(due_at);
        due.retain(|work| places.offer(work.duty.kind(), &work.group.name));
        self.due.extend(due.iter().map(|work| (work.duty.clone(), Moment::END)));
        due
    }

    fn duties(&self) -> Vec<Work> {
        let mut all = Vec::new();
        for group in self.upstreams.groups().values() {
            let work = |duty, task| Work { duty, group: Arc::clone(group), task };
            all.extend(group.names().map(|(endpoint, name, port)| {
                let duty = Duty::Lookup(group.name.clone(), endpoint.url.to_string());
                work(duty, Task::Lookup { endpoint: endpoint.clone(), name: name.to_owned(), port })
            }));
            let checked = group.members();
            let checked = checked.iter().filter(|_| group.config.health.is_on());
            all.extend(checked.map(|member| {
                let duty = Duty::Check(Arc::as_ptr(&member.server).addr());
                work(duty, Task::Check(Arc::clone(&member.server)))
            }));
        }
        all
    }
}

/// The places of checks and lookups that are in progress.
#[derive(Debug, Default)]
struct Places {
    of_kind: HashMap<Kind, usize>,
    of_upstream: HashMap<(Kind, String), usize>,
}

impl Places {
    /// Takes a place for an upstream, if it has fewer than are free. So the servers of one upstream that hang never keep
    /// those of another from being checked.
    fn offer(&mut self, kind: Kind, upstream: &str) -> bool {
        let free = MAX_AT_ONCE.saturating_sub(self.of_kind.get(&kind).copied().unwrap_or(0));
        let has = self.of_upstream.get(&(kind, upstream.to_owned())).copied().unwrap_or(0);
        if has >= free {
            return false;
        }
        self.take(kind, upstream);
        true
    }

    fn take(&mut self, kind: Kind, upstream: &str) {
        *self.of_kind.entry(kind).or_default() += 1;
        *self.of_upstream.entry((kind, upstream.to_owned())).or_default() += 1;
    }
}

impl Work {
    async fn run(self) -> (Duty, Moment) {
        let group = &self.group;
        let next = match &self.task {
            Task::Check(server) => {
                health::check(group, server).await;
                health::next_check(group, server, group.tools.clock.now())
            }
            Task::Lookup { endpoint, name, port } => {
                let every = group.config.resolve_every.as_duration();
                match group.tools.resolver.lookup_within(name, *port, every).await {
                    Ok(addresses) => group.set_addresses(endpoint, &addresses),
                    // The old addresses are better than none.
                    Err(error) => {
                        tracing::warn!(upstream = group.name, name, %error, "a name was not resolved");
                    }
                }
                group.tools.clock.now().after(every)
            }
        };
        (self.duty, next)
    }
}

impl Upstreams {
    /// Waits until all servers are healthy once: see [`crate::Gateway::all_healthy_once`].
    pub(crate) async fn all_healthy_once(&self, deadline: Deadline) -> Result<(), Vec<String>> {
        let groups = self.groups().values().cloned().collect::<Vec<_>>();
        let mut missing: Vec<(Arc<Group>, EndpointConfig)> = Vec::new();
        for group in groups {
            missing
                .extend(group.config.endpoints.iter().map(|endpoint| (Arc::clone(&group), endpoint.clone())));
        }
        let clock = self.clock();
        loop {
            let mut still = Vec::new();
            for (group, endpoint) in missing {
                let well = clock.by(deadline, health::is_well(&group, &endpoint)).await.unwrap_or(false);
                if !well {
                    still.push((group, endpoint));
                }
            }
            missing = still;
            if missing.is_empty() {
                return Ok(());
            }
            let next = clock.now().after(TICK);
            if deadline.has_passed(next) {
                return Err(missing
                    .iter()
                    .map(|(group, at)| format!("{} of `{}`", at.url, group.name))
                    .collect());
            }
            clock.sleep_until(next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_that_hang_leave_places_for_others() {
        let mut places = Places::default();
        let taken = |places: &mut Places, kind, upstream: &str| {
            (0..1000).filter(|_| places.offer(kind, upstream)).count()
        };
        assert_eq!(taken(&mut places, Kind::Check, "a"), MAX_AT_ONCE / 2);
        assert_eq!(taken(&mut places, Kind::Check, "b"), MAX_AT_ONCE / 4);
        for upstream in ["c", "d", "e"] {
            assert!(taken(&mut places, Kind::Check, upstream) > 0, "{upstream}");
        }
        assert_eq!(
            taken(&mut places, Kind::Lookup, "a"),
            MAX_AT_ONCE / 2,
            "lookups have places of their own"
        );
    }
}
