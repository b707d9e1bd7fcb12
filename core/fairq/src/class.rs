//! One class: its two lanes of waiting tenants, and its standing among the classes.

use crate::{
    calendar::Calendar,
    contest::{self, Contender, Standing},
    cost::{GENESIS, nanos, virtual_time},
    flows::{Flows, LaneKind, Place, Shelves},
    list::List,
    rounds::Rounds,
    stats::Counts,
};
use std::hash::Hash;
use types::Moment;

#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) contender: Contender,
    /// Quick tenants and slow ones, apart, so that slow ones can be held back without losing their order.
    lanes: [Lane; 2],
    /// Virtual time between the lanes.
    lane_clock: u64,
    pub(crate) shelves: Shelves,
    /// Tenants that neither wait nor run, longest idle first.
    pub(crate) idle: List,
    /// Tenants that wait until one of their own slots comes back.
    pub(crate) capped: List,
    /// Number of tickets of this class that wait in the queue.
    pub(crate) waiting: usize,
    /// The weights of the tenants that wait.
    pub(crate) waiting_weight: u64,
    /// The weights of the tenants that wait or run.
    pub(crate) busy_weight: u64,
    pub(crate) counts: Counts,
    /// When its refused clients were told to return: the part of the queue's calendar that is its own.
    pub(crate) calendar: Calendar,
}

/// Tenants that share a virtual clock. The lane's weight is that of the tenants that wait in it, so two lanes share a
/// class's slots as their tenants would in one.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) contender: Contender,
    pub(crate) rounds: Rounds,
    pub(crate) weight: u64,
    /// Since when nobody waits, or up to when that time was let pass.
    quiet_since: Moment,
}

impl Class {
    pub(crate) fn new(now: Moment) -> Self {
        let lane = || Lane {
            contender: Contender::new(GENESIS, now),
            rounds: Rounds::new(),
            weight: 0,
            quiet_since: now,
        };
        Self {
            contender: Contender::new(GENESIS, now),
            lanes: [lane(), lane()],
            lane_clock: GENESIS,
            shelves: Shelves::new(),
            idle: List::EMPTY,
            capped: List::EMPTY,
            waiting: 0,
            waiting_weight: 0,
            busy_weight: 0,
            counts: Counts::default(),
            calendar: Calendar::new(now),
        }
    }

    pub(crate) fn lane(&self, kind: LaneKind) -> &Lane {
        &self.lanes[slot(kind)]
    }

    pub(crate) fn lane_mut(&mut self, kind: LaneKind) -> &mut Lane {
        &mut self.lanes[slot(kind)]
    }

    /// Whether somebody waits who may have a slot.
    pub(crate) fn can_serve(&self, slow_may: bool) -> bool {
        self.lanes[0].weight > 0 || slow_may && self.lanes[1].weight > 0
    }

    /// Takes out the tenant that is next.
    pub(crate) fn next<K: Clone + Eq + Hash>(
        &mut self,
        flows: &mut Flows<K>,
        slow_may: bool,
        now: Moment,
    ) -> Option<(u32, LaneKind)> {
        let lanes = self.lanes.iter_mut().zip([true, slow_may]).map(|(lane, may)| Standing {
            weight: lane.weight,
            eligible: may && lane.weight > 0,
            contender: &mut lane.contender,
        });
        let chosen = contest::choose(&mut self.lane_clock, now, lanes)?;
        let id = self.lanes[chosen].rounds.next(flows, now)?;
        Some((id, if chosen == 0 { LaneKind::Quick } else { LaneKind::Slow }))
    }

    /// Lets a tenant wait in a lane, moving its debt there from the other one if need be.
    pub(crate) fn enter_lane<K: Clone + Eq + Hash>(
        &mut self,
        flows: &mut Flows<K>,
        id: u32,
        kind: LaneKind,
        newcomer: bool,
        now: Moment,
    ) {
        let flow = flows.get_mut(id);
        if flow.lane != kind {
            let debt = flow.account.stamp.saturating_sub(self.lane(flow.lane).rounds.clock());
            flow.account.stamp = self.lane(kind).rounds.clock() + debt;
            flow.lane = kind;
        }
        let weight = flow.weight();
        let lane = self.lane_mut(kind);
        lane.weight += weight;
        lane.rounds.file(flows, id, newcomer, now);
    }

    /// A tenant no longer waits in its lane; [`Rounds`] may still list it.
    pub(crate) fn leave_lane<K: Clone + Eq + Hash>(&mut self, flows: &mut Flows<K>, id: u32, now: Moment) {
        let (kind, weight) = (flows.get(id).lane, flows.get(id).weight());
        let lane = self.lane_mut(kind);
        lane.rounds.unfile(flows, id);
        lane.weight -= weight;
        if lane.weight == 0 {
            lane.contender.retire();
            lane.quiet_since = now;
        }
    }

    /// Files a tenant again that was charged or refunded while it waits. Who waits ahead of the rounds loses that place
    /// by a charge, but not by a refund.
    pub(crate) fn refile<K: Clone + Eq + Hash>(
        &mut self,
        flows: &mut Flows<K>,
        id: u32,
        charged: bool,
        now: Moment,
    ) {
        let (kind, place) = (flows.get(id).lane, flows.get(id).place);
        if matches!(place, Place::Round(_)) || charged && place == Place::Fresh {
            let rounds = &mut self.lane_mut(kind).rounds;
            rounds.unfile(flows, id);
            rounds.file(flows, id, false, now);
        }
    }

    /// Where nobody waits, lets debts decay with time: at the rate that this class's tenants are sure of. `slots` is
    /// the class's own part of them, in thousandths.
    pub(crate) fn pass_time(&mut self, milli_slots: u64, now: Moment) {
        let busy = self.busy_weight.max(1);
        for lane in &mut self.lanes {
            if lane.rounds.waiting() == 0 {
                let elapsed = nanos(now.since(lane.quiet_since));
                let served = u128::from(elapsed) * u128::from(milli_slots) / 1000;
                lane.rounds.pass(virtual_time(u64::try_from(served).unwrap_or(u64::MAX), busy));
                lane.quiet_since = lane.quiet_since.max(now);
            }
        }
    }
}

fn slot(kind: LaneKind) -> usize {
    match kind {
        LaneKind::Quick => 0,
        LaneKind::Slow => 1,
    }
}
