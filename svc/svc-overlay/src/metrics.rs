//! What the overlay counts beyond the shared families.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use ron_kernel::{Scope, lock::Ranked, topology::MetricSpec};
use types::NodeId;

use crate::{
    locks, losses,
    objects::{OBJECT_BYTES, OBJECTS_TOTAL},
    session::CloseReason,
};

/// Peers with a label of their own; the others are `other`.
const NAMED_PEERS: usize = 32;

/// Beyond the shared families.
pub(crate) const METRICS: [MetricSpec; 15] = [
    MetricSpec { name: "handshake_timeouts_total", labels: "", doc: "handshakes that took too long" },
    MetricSpec {
        name: "backpressure_events_total",
        labels: "peer",
        doc: "publications that waited too long for a permit, by peer: the first 32, the others together",
    },
    MetricSpec { name: "session_open_total", labels: "", doc: "sessions that began" },
    MetricSpec { name: "session_close_total", labels: "reason", doc: "sessions that ended, by reason" },
    MetricSpec {
        name: "gossip_frames_total",
        labels: "dir",
        doc: "gossip frames received (rx) and written (tx)",
    },
    MetricSpec {
        name: "frame_reject_total",
        labels: "reason",
        doc: "frames, greetings and handshakes that were refused, by reason",
    },
    MetricSpec {
        name: "overlay_lost_total",
        labels: "reason",
        doc: "publications lost on the way to or from a peer; each is in the loss report",
    },
    MetricSpec {
        name: "overlay_published_total",
        labels: "verdict",
        doc: "publications of this node, by verdict",
    },
    MetricSpec {
        name: "overlay_delivered_total",
        labels: "",
        doc: "publications delivered to local subscribers",
    },
    MetricSpec {
        name: "overlay_gaps_total",
        labels: "",
        doc: "publications that were reported as missing to local subscribers; a gap counts for a million at most",
    },
    MetricSpec { name: "overlay_peers", labels: "", doc: "peers with a session" },
    MetricSpec {
        name: "overlay_outlived_total",
        labels: "",
        doc: "times that peers knew a later incarnation of this node than the current one: its clock was set back",
    },
    OBJECTS_TOTAL,
    OBJECT_BYTES,
    MetricSpec {
        name: "overlay_topics_refused_total",
        labels: "limit",
        doc: "topics and patterns that there was no room for, by the limit that was met: the share of an application, patterns that peers can be told of, topics relayed for patterns of peers, topics of peers",
    },
];

/// The reasons for rejected frames, as metric labels.
pub(crate) const REJECTS: [&str; 15] = [
    "size",
    "malformed",
    "unknown_kind",
    "out_of_order",
    "version",
    "checksum",
    "unauth",
    "forbidden",
    "quota",
    "busy",
    "shed",
    "limit",
    "mismatch",
    "tls",
    "truncated",
];

/// The names of [`TopicLimit`], in its order.
const TOPIC_LIMITS: [&str; 4] = ["application", "patterns", "relayed", "peer"];
const DIRS: [&str; 2] = ["rx", "tx"];
const VERDICTS: [&str; 3] = ["accepted", "local_only", "refused"];

type Label = (&'static str, &'static str);
type PeerLabels = [(&'static str, Cow<'static, str>); 2];

/// The limit that a topic or a pattern met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicLimit {
    /// The share of an application in all topics.
    Application,
    /// The share of an application in the patterns that peers are told of.
    Patterns,
    /// The topics that are relayed only for patterns of peers.
    Relayed,
    /// The topics that only peers take part in.
    Peer,
}

/// Counters with a handle each, because looking one up takes a lock.
#[derive(Clone, Debug)]
pub(crate) struct OverlayMetrics {
    service: &'static str,
    pub(crate) handshake_timeouts: Counter,
    pub(crate) session_open: Counter,
    pub(crate) delivered: Counter,
    pub(crate) gaps: Counter,
    pub(crate) peers: Gauge,
    pub(crate) outlived: Counter,
    closes: [Counter; CloseReason::LABELS.len()],
    frames: [Counter; DIRS.len()],
    rejects: [Counter; REJECTS.len()],
    losses: [Counter; losses::REASONS.len()],
    published: [Counter; VERDICTS.len()],
    topics_refused: [Counter; TOPIC_LIMITS.len()],
    backpressure: Family<PeerLabels, Counter>,
    /// The peers that have a label.
    named: Arc<Ranked<BTreeMap<NodeId, Counter>>>,
}

impl OverlayMetrics {
    /// Registers the families. Once for each node.
    pub(crate) fn new(scope: &Scope) -> Self {
        let service = ("service", scope.service());
        let plain: [Family<[Label; 1], Counter>; 5] = Default::default();
        let labelled: [Family<[Label; 2], Counter>; 6] = Default::default();
        let (peers, backpressure) = (Family::<[Label; 1], Gauge>::default(), Family::default());
        scope.all_metrics().register(|registry| {
            // The library adds `_total` itself.
            let name = |at: usize| METRICS[at].name.trim_end_matches("_total");
            for (family, at) in plain.iter().zip([0, 2, 8, 9, 11]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            for (family, at) in labelled.iter().zip([3, 4, 5, 6, 7, 14]) {
                registry.register(name(at), METRICS[at].doc, family.clone());
            }
            registry.register(name(1), METRICS[1].doc, Family::clone(&backpressure));
            registry.register(name(10), METRICS[10].doc, peers.clone());
        });
        let [handshake_timeouts, session_open, delivered, gaps, outlived] =
            plain.map(|family| family.get_or_create(&[service]).clone());
        let [closes, frames, rejects, lost, published, topics_refused] = labelled;
        let child = |family: &Family<[Label; 2], Counter>, label: Label| {
            family.get_or_create(&[service, label]).clone()
        };
        Self {
            service: scope.service(),
            handshake_timeouts,
            session_open,
            delivered,
            gaps,
            outlived,
            peers: peers.get_or_create(&[service]).clone(),
            closes: CloseReason::LABELS.map(|reason| child(&closes, ("reason", reason))),
            frames: DIRS.map(|dir| child(&frames, ("dir", dir))),
            rejects: REJECTS.map(|reason| child(&rejects, ("reason", reason))),
            losses: losses::REASONS.map(|reason| child(&lost, ("reason", reason))),
            published: VERDICTS.map(|verdict| child(&published, ("verdict", verdict))),
            topics_refused: TOPIC_LIMITS.map(|limit| child(&topics_refused, ("limit", limit))),
            backpressure,
            named: Arc::new(Ranked::new(&locks::PEER_LABELS, BTreeMap::new())),
        }
    }

    /// Counts the end of a session.
    pub(crate) fn closed(&self, reason: CloseReason) {
        self.closes[reason.index()].inc();
    }

    /// Counts gossip frames that came in.
    pub(crate) fn received(&self, frames: u64) {
        self.frames[0].inc_by(frames);
    }

    /// Counts gossip frames that were written.
    pub(crate) fn written(&self, frames: u64) {
        self.frames[1].inc_by(frames);
    }

    /// Counts something that was refused; `reason` is one of [`REJECTS`].
    pub(crate) fn rejected(&self, reason: &'static str) {
        if let Some(at) = REJECTS.iter().position(|known| *known == reason) {
            self.rejects[at].inc();
        }
    }

    /// Counts a topic or a pattern that there was no room for.
    pub(crate) fn topic_refused(&self, limit: TopicLimit) {
        self.topics_refused[limit as usize].inc();
    }

    /// Counts lost publications; `reason` is one of [`losses::REASONS`].
    pub(crate) fn lost(&self, reason: &'static str, count: u64) {
        if let Some(at) = losses::REASONS.iter().position(|known| *known == reason) {
            self.losses[at].inc_by(count);
        }
    }

    /// Counts a publication of this node; `verdict` is one of [`VERDICTS`].
    pub(crate) fn published(&self, verdict: &'static str) {
        if let Some(at) = VERDICTS.iter().position(|known| *known == verdict) {
            self.published[at].inc();
        }
    }

    /// Counts a publication that waited too long for `peer`.
    pub(crate) fn backpressure(&self, peer: NodeId) {
        let mut named = self.named.lock();
        let counter = match named.get(&peer) {
            Some(counter) => counter.clone(),
            None if named.len() < NAMED_PEERS => {
                let counter = self.peer_counter(peer.to_string()[..11].to_owned().into());
                named.insert(peer, counter.clone());
                counter
            }
            None => self.peer_counter("other".into()),
        };
        drop(named);
        counter.inc();
    }

    fn peer_counter(&self, peer: Cow<'static, str>) -> Counter {
        self.backpressure.get_or_create(&[("service", self.service.into()), ("peer", peer)]).clone()
    }
}
