//! What an engine is told, and what it asks for.

use bytes::Bytes;
use oap::{ErrorCode, Message, MessageId, Topic};
use types::{Moment, NodeId};

use crate::packet::{Lane, Packet};

/// A connected peer, by a small number that the caller chose. It may be used again once the peer is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub u32);

/// An input of the engine.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session with a peer is up. Peers are never this node itself, and have one session.
    PeerUp {
        /// What the peer is called from now on.
        peer: PeerKey,
        /// Who it is, proven by the session.
        node: NodeId,
    },
    /// The session is over; what was on its way may be lost.
    PeerDown {
        /// The peer that disconnected.
        peer: PeerKey,
    },
    /// A peer said something. What is not about gossip is ignored.
    Message {
        /// The peer that sent the message.
        from: PeerKey,
        /// The message that arrived.
        message: Message,
    },
    /// Something is to be published; answered by one [`Action::Verdict`] with the same ticket.
    Publish {
        /// The caller's name for this.
        ticket: u64,
        /// The topic to publish in.
        topic: Topic,
        /// The body, at most [`oap::PUBLICATION_MAX`] bytes.
        body: Bytes,
    },
    /// This node takes part in a topic: publications are delivered here and passed on. If it does already, the claim is
    /// replaced, except that the first of several applications keeps it.
    Subscribe {
        /// The topic to join.
        topic: Topic,
        /// On whose behalf.
        claim: Claim,
    },
    /// This node does not take part in the topic any more.
    Unsubscribe {
        /// The topic to leave.
        topic: Topic,
    },
    /// The moment of the last [`Action::SetTimer`] has come.
    Tick,
    /// Packets of a topic have left for a peer, so that others may follow them.
    Sent {
        /// The peer that the packets were sent to.
        peer: PeerKey,
        /// The topic of the packets.
        topic: Topic,
        /// Number of sent packets of kind [`Kind::Publication`](crate::Kind::Publication).
        publications: u32,
        /// Number of sent packets of kind [`Kind::Announcement`](crate::Kind::Announcement).
        announcements: u32,
    },
    /// Packets of kind [`Kind::Membership`](crate::Kind::Membership) have left for a peer, so that others may follow them.
    TopicsTold {
        /// The peer that the packets were sent to.
        peer: PeerKey,
        /// Number of sent packets.
        count: u32,
    },
    /// A packet will not leave: the peer's queue had no room. Not for packets of a peer that goes down.
    Refused {
        /// The peer whose queue rejected the packet.
        peer: PeerKey,
        /// The packet that was not sent.
        packet: Packet,
    },
}

/// On whose behalf this node takes part in a topic, or has published in it: decides how much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// On its own, or its operator's. All topics may be such, and a quarter is reserved for them.
    Own,
    /// On behalf of the application that the caller gave this number. Each has a share.
    Application(u64),
    /// On behalf of peers whose patterns match the topic. The caller bounds their number with
    /// [`RelayShares`](crate::RelayShares).
    Peers,
}

/// An output of the engine: what its caller must do.
#[derive(Clone, Debug)]
pub enum Action {
    /// A packet is to be sent. One of [`Lane::Gossip`] is answered by [`Event::Sent`], [`Event::TopicsTold`] or
    /// [`Event::Refused`]. One of [`Lane::Control`] is not; if it finds no room it may be dropped, if [`Packet::may_be_dropped`]
    /// says so, else the session is not worth keeping.
    Send {
        /// The peer to send to.
        to: PeerKey,
        /// What; the same packet may go to many.
        packet: Packet,
        /// In which of the writer's lanes.
        lane: Lane,
    },
    /// A publication is for the subscribers here. Publications of one publisher may come out of order, but never twice.
    Deliver {
        /// [`Packet::publication`] is what was published.
        packet: Packet,
        /// How many links it came over; zero if it was published here.
        hops: u8,
        /// It was named in a [`Gap`] before.
        late: bool,
    },
    /// Publications that subscribers here will not see.
    Gap(Gap),
    /// Publications were not sent or not taken, and this node will not try again. They may still come another way.
    Lost(Loss),
    /// What became of a publication of this node's own.
    Verdict {
        /// The ticket that [`Event::Publish`] had.
        ticket: u64,
        /// The publication's name, unless it was refused.
        id: Option<MessageId>,
        /// Whether a neighbour has acknowledged the publication.
        verdict: Verdict,
    },
    /// A peer has shown what this node itself signed in a life that is not before the present one: its clock went back, or
    /// it has lost its counter. It goes on in a life after that one; what waited for its verdict is refused as
    /// [`Verdict::Busy`].
    Outlived {
        /// The life that was met.
        incarnation: u64,
    },
    /// This node cannot take part in a topic: there are too many.
    SubscribeRefused {
        /// The topic that this node cannot join.
        topic: Topic,
    },
    /// A peer takes part in a topic that there is no room for. It is told of nothing in the topic until it says so again and there
    /// is room.
    NoRoomForPeer {
        /// The peer that takes part in the topic.
        peer: PeerKey,
    },
    /// A peer said what no honest peer says.
    Misbehaved {
        /// The peer that broke a rule.
        peer: PeerKey,
        /// What it is to be told.
        code: ErrorCode,
        /// The rule that it broke, for people.
        rule: &'static str,
    },
    /// [`Event::Tick`] is wanted at this moment. Replaces the timer that was set before.
    SetTimer {
        /// The time at which the engine wants to be called.
        at: Moment,
    },
}

/// Publications of one publisher that are missing, `from` and `to` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The topic of the missing publications.
    pub topic: Topic,
    /// The publisher of the missing publications.
    pub publisher: NodeId,
    /// In which of the publisher's lives.
    pub incarnation: u64,
    /// The first number that is missing.
    pub from: u64,
    /// The last number that is missing.
    pub to: u64,
    /// The reason why they are missing.
    pub reason: GapReason,
}

/// The reason why publications are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GapReason {
    /// They were published before this node took part, or came to hear of the publisher.
    BeforeJoining,
    /// Nobody who was asked sent them, within the time allowed.
    Unavailable,
    /// They came, and without the signature that their topic demands here.
    Unsigned,
    /// So many later ones came that they are beyond the window of numbers.
    OutOfWindow,
    /// The publisher was the least useful one when there was no room for another, or has begun so many lives since that this one
    /// is not followed.
    Forgotten,
    /// There was no room to remember another publisher.
    NoRoom,
}

/// What became of a publication of this node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// A neighbour has acknowledged it.
    Accepted,
    /// It is known here only. Neighbours that come later may still ask for it.
    LocalOnly,
    /// It was not published: too many wait for their verdict, everybody it would be pushed to is behind, or there are too
    /// many topics. It may be tried again in a second.
    Busy,
    /// It was not published: its body is too long.
    TooLarge,
}

/// Publications of one publisher, numbered in a row, that were not sent or not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first of them.
    pub id: MessageId,
    /// The number of the last of them.
    pub last: u64,
    /// The queue that lost them.
    pub queue: Queue,
    /// Who was to get them, or had sent them.
    pub peer: NodeId,
    /// The reason for the loss.
    pub reason: LossReason,
}

/// A place where publications can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// On the way out to a peer.
    Egress,
    /// At a peer that refused it.
    PeerIngress,
    /// The cache of publications for peers that request them.
    Cache,
    /// On the way in.
    Ingress,
}

/// The reason for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossReason {
    /// The queue had no room; it was announced instead, and not asked for while it was kept.
    Full,
    /// The topic's budget for the peer was used up; it was announced instead, and not asked for while it was kept.
    Budget,
    /// The peer said so, and did not ask for it while it was kept.
    Refused,
    /// Its turn came, or it was asked for, and it was not kept any more.
    Evicted,
    /// The peer went away before its turn came.
    Closed,
    /// Its digest is not that of its body, or its publisher signed it wrongly.
    Mismatch,
    /// It claims to be published by this node, which did not.
    Forged,
    /// This node does not take part in its topic.
    NotSubscribed,
    /// The table of publishers was full.
    Publishers,
    /// It is further beyond what its publisher has proven than can be believed, or nothing is proven yet.
    Unproven,
    /// Its topic is signed, and its publisher's key is not known here.
    Unlisted,
    /// Its topic is signed here, and it has no signature of its publisher: its publisher or a relay does not list the topic as
    /// signed, or somebody forged it on the way.
    Unsigned,
}

impl Loss {
    /// Returns the number of publications in the run.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.last.saturating_sub(self.id.seq).saturating_add(1)
    }
}

impl GapReason {
    /// As a label: one word, never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeJoining => "before_joining",
            Self::Unavailable => "unavailable",
            Self::Unsigned => "unsigned",
            Self::OutOfWindow => "out_of_window",
            Self::Forgotten => "forgotten",
            Self::NoRoom => "no_room",
        }
    }
}

impl Verdict {
    /// As a label: one word, never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::LocalOnly => "local_only",
            Self::Busy => "busy",
            Self::TooLarge => "too_large",
        }
    }
}

impl Queue {
    /// As a label: one word, never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Egress => "gossip_egress",
            Self::PeerIngress => "peer_ingress",
            Self::Cache => "gossip_cache",
            Self::Ingress => "gossip_ingress",
        }
    }
}

impl LossReason {
    /// As a label: one word, never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Budget => "budget",
            Self::Refused => "refused",
            Self::Evicted => "evicted",
            Self::Closed => "closed",
            Self::Mismatch => "mismatch",
            Self::Forged => "forged",
            Self::NotSubscribed => "not_subscribed",
            Self::Publishers => "publishers",
            Self::Unproven => "unproven",
            Self::Unlisted => "unlisted",
            Self::Unsigned => "unsigned",
        }
    }
}
