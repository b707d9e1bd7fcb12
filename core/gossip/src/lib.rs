//! Gossip with accountable loss: a tree that pushes, announcements that repair it, and a name for everything that is missing.
//!
//! [`Engine`] decides and does nothing else. It is told what happens ([`Event`]) and when, and says what is to be done
//! ([`Action`]); the same seed and the same events give the same actions.
//!
//! * **Push.** A publication goes to the peers of its topic that are *eager*; to the others it is announced. Whoever gets a
//!   publication twice prunes the second sender, whoever misses an announced one grafts the announcer: what remains is a
//!   tree, and its repair.
//! * **Numbers.** A publication is numbered per publisher, life of the publisher, and topic. Announcements carry the highest
//!   number, also of what the announcer itself has not got, so every subscriber comes to know what there is.
//! * **Repair.** What is missing is asked for from one peer at a time, until [`Settings::patience`] is over.
//! * **A gap is named.** Whatever was published and is not delivered ends in [`Action::Gap`], also what was published before
//!   this node took part. Of everything up to the highest number known, a subscriber gets one or the other.
//! * **A drop is named.** Whatever was to be sent to a peer and was not, because its budget or its queue was full or it
//!   refused, is owed to that peer for as long as it is kept; then, or when the peer goes, it is named in [`Action::Lost`],
//!   once, in runs of numbers.
//! * **Accepted.** A publication of this node's own is [`Verdict::Accepted`] once a neighbour has acknowledged it; otherwise
//!   it is known here only, and that is said.
//! * **Bounds.** Publications on their way to one peer, those kept for repair, publishers remembered, topics, numbers told
//!   apart, numbers asked for at once: [`Settings`] has them all.
//!
//! [`Lanes`] is the order in which a connection's writer sends what it has: control, then publications, fairly between
//! topics, four bytes to one of objects.

mod announce;
mod cache;
mod effort;
mod engine;
mod event;
mod lanes;
mod members;
mod membership;
mod missed;
mod packet;
mod publishers;
mod relay;
mod repair;
mod rng;
mod settings;
mod signatures;
mod timers;
mod topic;
mod track;

pub use engine::{Engine, Stats};
pub use event::{Action, Event, Gap, GapReason, Loss, LossReason, PeerKey, Queue, Verdict};
pub use lanes::{GOSSIP_PER_BULK, Lanes, Next, Pushed, WhenFull};
pub use packet::{Kind, Lane, Packet};
pub use settings::{Settings, SettingsError};
pub use signatures::{Signatures, Unsigned};
