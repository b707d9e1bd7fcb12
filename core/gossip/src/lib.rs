//! Gossip with accountable loss: Plumtree (Leitão, Pereira and Rodrigues, *Epidemic Broadcast Trees*, SRDS 2007)
//! with sequence numbers, so that every missing publication is reported.
//!
//! [`Engine`] only decides. Its caller reports events with their time ([`Event`]), and the engine returns what to
//! do ([`Action`]); the same seed and the same events give the same actions.
//!
//! * **Push.** A publication is pushed to the *eager* peers of its topic and announced to the others (lazy push). A
//!   node that gets a publication twice prunes the second sender; a node that misses an announced one grafts the
//!   announcer. What remains is a spanning tree with automatic repair.
//! * **Sequence numbers.** A publication is numbered per publisher, incarnation of the publisher, and topic.
//!   Announcements carry the highest number, also of publications that the announcer does not have, so every
//!   subscriber learns what exists.
//! * **Repair.** A missing publication is requested from one peer at a time, until [`Settings::patience`] has
//!   passed.
//! * **Gaps.** Every publication that is not delivered is reported in [`Action::Gap`], also those from before this
//!   node joined. For every number up to the highest known one, a subscriber gets either the publication or a gap.
//! * **Losses.** A publication that was not sent to a peer, because the peer's budget or queue was full or the peer
//!   refused it, is owed to that peer for as long as it is kept. After that, or when the peer leaves, it is
//!   reported in [`Action::Lost`], once, in runs of numbers.
//! * **Accepted.** A publication of this node is [`Verdict::Accepted`] once a neighbour has acknowledged it;
//!   otherwise the verdict says that only this node has it.
//! * **Bounds.** [`Settings`] limits publications in flight to one peer, publications kept for repair, publishers,
//!   topics, tracked numbers, and numbers requested at once.
//!
//! * **Shares.** A quarter of the topics is reserved for this node's own ([`Claim::Own`]). The rest is shared between
//!   applications, peers, and topics that are relayed for patterns of peers, so that none of them uses it up.
//!
//! [`PeerPatterns`] are the patterns that peers announce, and [`RelayShares`] the topics that are relayed for them.
//!
//! [`Lanes`] is the order in which a connection's writer sends: control first, then publications, fairly between
//! topics, with four bytes of publications to one of objects.

mod announce;
mod announce_pace;
mod cache;
mod effort;
mod engine;
mod event;
mod lanes;
mod members;
mod membership;
mod missed;
mod packet;
mod past_lives;
mod patterns;
mod publishers;
mod relay;
mod relays;
mod repair;
mod rng;
mod room;
mod settings;
mod signatures;
mod timers;
mod topic;
mod track;
mod untold;

pub use announce_pace::AnnouncePace;
pub use engine::{Engine, Stats};
pub use event::{Action, Claim, Event, Gap, GapReason, Loss, LossReason, PeerKey, Queue, Verdict};
pub use lanes::{GOSSIP_PER_BULK, Lanes, Next, Pushed, WhenFull};
pub use packet::{Kind, Lane, Packet};
pub use patterns::{Announcement, PeerPatterns};
pub use relays::{Relay, RelayShares};
pub use settings::{Settings, SettingsError};
pub use signatures::{Signatures, Unsigned};
