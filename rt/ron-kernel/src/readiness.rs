//! Truthful readiness: named conditions, each with an effect, folded per service and for the node.
//!
//! Raising takes effect at once, because traffic is being hurt now. Clearing waits until the condition has been
//! gone for its `settle` time, so that a flapping cause does not make the node flap.
//!
//! Each service's conditions have one writer at a time: whoever holds their lock, which is never held across an await. A
//! change is made, folded for the requests that read it with one load, and told on the bus before the lock is let go, so
//! all three agree on which change was the last.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use types::Moment;

use crate::{
    Clock, Fault,
    bus::{Bus, KernelEvent},
    lock::Ranked,
    metrics::{Gauge, Metrics},
    own,
};

/// The effect of an active condition on readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Effect {
    /// Listed; the service stays ready.
    Report = 1,
    /// Writes are refused with `degraded`; reads work.
    ShedWrites = 2,
    /// The service is not ready; the node is, as long as it has another one.
    ServiceDown = 3,
    /// The node is not ready.
    Down = 4,
}

impl Effect {
    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::ShedWrites => "shed_writes",
            Self::ServiceDown => "service_down",
            Self::Down => "down",
        }
    }
}

/// The readiness of all services of a node.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Board>);

#[derive(Debug)]
struct Board {
    clock: Clock,
    metrics: Metrics,
    bus: Bus,
    services: Ranked<BTreeMap<&'static str, Arc<ServiceBoard>>>,
}

/// One service's conditions, and their folded effect where a request can read it with one load.
#[derive(Debug)]
struct ServiceBoard {
    worst: AtomicU8,
    conditions: Ranked<BTreeMap<&'static str, State>>,
}

#[derive(Debug)]
struct State {
    declared: Effect,
    /// What it does now: as declared, unless it was raised as something else.
    effect: Effect,
    settle: Duration,
    gauge: Gauge,
    /// Why it stands; `None` while it does not.
    standing: Option<String>,
    /// When it was cleared, while it has not settled yet.
    cleared_at: Option<Moment>,
}

/// A standing condition, as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The service that the condition belongs to.
    pub service: &'static str,
    /// The name of the condition.
    pub name: &'static str,
    /// The effect of the condition on readiness.
    pub effect: Effect,
    /// The reason why the condition is active.
    pub reason: String,
}

/// A handle to raise and clear one condition.
#[derive(Clone, Debug)]
pub struct Condition {
    board: Readiness,
    service: Arc<ServiceBoard>,
    service_name: &'static str,
    name: &'static str,
}

/// One service's readiness, read on every request.
#[derive(Clone, Debug)]
pub struct ServiceReadiness(Arc<ServiceBoard>);

impl ServiceReadiness {
    /// Whether writes are to be refused.
    #[must_use]
    pub fn sheds_writes(&self) -> bool {
        self.0.worst.load(Ordering::Relaxed) >= Effect::ShedWrites as u8
    }

    /// Lets a write pass, unless writes are to be refused.
    ///
    /// # Errors
    /// [`Fault::Degraded`].
    pub fn admit_write(&self) -> Result<(), Fault> {
        if self.sheds_writes() { Err(Fault::Degraded) } else { Ok(()) }
    }
}

impl Readiness {
    pub(crate) fn new(clock: Clock, metrics: Metrics, bus: Bus) -> Self {
        Self(Arc::new(Board { clock, metrics, bus, services: Ranked::new(&own::SERVICES, BTreeMap::new()) }))
    }

    /// Declares a condition of a service. Declaring it twice gives the same condition.
    #[must_use]
    pub fn condition(
        &self,
        service: &'static str,
        name: &'static str,
        effect: Effect,
        settle: Duration,
    ) -> Condition {
        let board = self.service_board(service);
        board.conditions.lock().entry(name).or_insert_with(|| State {
            declared: effect,
            effect,
            settle,
            gauge: self.0.metrics.service(service).degraded(name),
            standing: None,
            cleared_at: None,
        });
        Condition { board: self.clone(), service: board, service_name: service, name }
    }

    /// The fast view of one service.
    #[must_use]
    pub fn service(&self, service: &'static str) -> ServiceReadiness {
        ServiceReadiness(self.service_board(service))
    }

    /// The services that have declared conditions.
    #[must_use]
    pub fn services(&self) -> Vec<&'static str> {
        self.0.services.lock().keys().copied().collect()
    }

    /// The standing conditions, of one service or of all, worst first.
    #[must_use]
    pub fn standing(&self, only: Option<&str>) -> Vec<Standing> {
        let services: Vec<_> =
            self.0.services.lock().iter().map(|(name, board)| (*name, Arc::clone(board))).collect();
        let mut all: Vec<Standing> = services
            .iter()
            .filter(|(service, _)| only.is_none_or(|wanted| wanted == *service))
            .flat_map(|(service, board)| board.standing(service))
            .collect();
        all.sort_by(|a, b| b.effect.cmp(&a.effect).then(a.service.cmp(b.service)).then(a.name.cmp(b.name)));
        all
    }

    /// The worst effect that stands, of one service or of all.
    #[must_use]
    pub fn worst(&self, only: Option<&str>) -> Option<Effect> {
        self.standing(only).first().map(|s| s.effect)
    }

    /// Lets conditions whose cause has been gone for long enough clear. The prober calls it.
    pub fn settle(&self) {
        let services: Vec<_> =
            self.0.services.lock().iter().map(|(name, board)| (*name, Arc::clone(board))).collect();
        for (service, board) in services {
            board.settle(service, self.0.clock.now(), &self.0.bus);
        }
    }

    fn service_board(&self, service: &'static str) -> Arc<ServiceBoard> {
        let mut services = self.0.services.lock();
        Arc::clone(services.entry(service).or_insert_with(|| {
            Arc::new(ServiceBoard {
                worst: AtomicU8::new(0),
                conditions: Ranked::new(&own::CONDITIONS, BTreeMap::new()),
            })
        }))
    }
}

impl ServiceBoard {
    fn standing(&self, service: &'static str) -> Vec<Standing> {
        let conditions = self.conditions.lock();
        let stand =
            conditions.iter().filter_map(|(name, state)| Some((name, state, state.standing.clone()?)));
        stand.map(|(name, state, reason)| Standing { service, name, effect: state.effect, reason }).collect()
    }

    fn settle(&self, service: &'static str, now: Moment, bus: &Bus) {
        let mut conditions = self.conditions.lock();
        for (name, state) in conditions.iter_mut() {
            if state.cleared_at.is_some_and(|at| now.since(at) >= state.settle) {
                state.standing = None;
                state.cleared_at = None;
                state.gauge.set(0);
                let reason = "cleared".to_owned();
                bus.publish(KernelEvent::Condition { service, name, effect: None, reason });
            }
        }
        self.fold(&conditions);
    }

    fn fold(&self, conditions: &BTreeMap<&'static str, State>) {
        let worst = conditions.values().filter(|s| s.standing.is_some()).map(|s| s.effect as u8).max();
        self.worst.store(worst.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Condition {
    /// The condition stands, from now on, because of `reason`.
    pub fn raise(&self, reason: impl Into<String>) {
        self.stand(None, reason.into());
    }

    /// The same, with another effect than the declared one.
    pub fn raise_as(&self, effect: Effect, reason: impl Into<String>) {
        self.stand(Some(effect), reason.into());
    }

    fn stand(&self, effect: Option<Effect>, reason: String) {
        let mut conditions = self.service.conditions.lock();
        let state = conditions.get_mut(self.name).expect("declared when the handle was made");
        let effect = effect.unwrap_or(state.declared);
        let news = state.standing.as_ref() != Some(&reason) || state.effect != effect;
        state.effect = effect;
        state.cleared_at = None;
        state.gauge.set(1);
        state.standing = Some(reason.clone());
        self.service.fold(&conditions);
        if news {
            let (service, name) = (self.service_name, self.name);
            self.board.0.bus.publish(KernelEvent::Condition { service, name, effect: Some(effect), reason });
        }
    }

    /// The cause is gone; the condition clears once it has stayed gone for its settle time.
    pub fn clear(&self) {
        let now = self.board.0.clock.now();
        {
            let mut conditions = self.service.conditions.lock();
            let state = conditions.get_mut(self.name).expect("declared when the handle was made");
            if state.standing.is_some() && state.cleared_at.is_none() {
                state.cleared_at = Some(now);
            }
        }
        self.board.settle();
    }

    /// Returns true if the condition is active.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.service.conditions.lock().get(self.name).is_some_and(|s| s.standing.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counter;

    fn board() -> Readiness {
        Readiness::new(Clock::start(), Metrics::new("n"), Bus::new(Counter::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_stands_at_once_and_clears_only_after_it_has_settled() {
        let board = board();
        let condition = board.condition("svc", "lost_workers", Effect::Down, Duration::from_millis(500));
        condition.raise("2 of 4 workers are gone");
        assert_eq!(board.worst(None), Some(Effect::Down));
        condition.clear();
        tokio::time::advance(Duration::from_millis(499)).await;
        board.settle();
        assert!(condition.stands());
        tokio::time::advance(Duration::from_millis(1)).await;
        board.settle();
        assert!(!condition.stands());
        assert_eq!(board.worst(None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flapping_cause_keeps_the_condition_standing() {
        let board = board();
        let condition = board.condition("svc", "flaps", Effect::ShedWrites, Duration::from_millis(500));
        for _ in 0..10 {
            condition.raise("again");
            condition.clear();
            tokio::time::advance(Duration::from_millis(400)).await;
            board.settle();
            assert!(board.service("svc").sheds_writes());
        }
    }

    #[tokio::test]
    async fn services_do_not_answer_for_each_other() {
        let board = board();
        board.condition("ledger", "outage", Effect::ShedWrites, Duration::ZERO).raise("no connection");
        assert!(board.service("ledger").sheds_writes());
        assert!(!board.service("gateway").sheds_writes());
        assert_eq!(board.worst(Some("gateway")), None);
        assert_eq!(board.worst(None), Some(Effect::ShedWrites));
    }

    #[tokio::test]
    async fn a_report_is_listed_but_sheds_nothing() {
        let board = board();
        board.condition("node", "bad_reload", Effect::Report, Duration::ZERO).raise("line 3");
        assert!(!board.service("node").sheds_writes());
        assert_eq!(board.standing(Some("node"))[0].reason, "line 3");
    }
}
