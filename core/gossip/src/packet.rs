//! What is sent: a message that is encoded once and shared by everybody it goes to.

use std::sync::Arc;

use oap::{Message, Publication, Topic};

/// A message to be sent, cheap to clone.
#[derive(Clone, Debug)]
pub struct Packet(Arc<Message>);

/// What a packet is, as far as sending it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A publication; counted against the topic's budget for the peer.
    Publication,
    /// An announcement; one of a topic is on its way to a peer at a time.
    Announcement,
    /// Anything else.
    Control,
}

/// The lanes of a connection's writer, the first served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Small, and what everything else depends on.
    Control,
    /// Publications.
    Gossip,
    /// Objects.
    Bulk,
}

impl Packet {
    /// A packet of this message.
    #[must_use]
    pub fn new(message: Message) -> Self {
        Self(Arc::new(message))
    }

    /// What is said.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0
    }

    /// What was published, if this is a publication.
    #[must_use]
    pub fn publication(&self) -> Option<&Publication> {
        match self.message() {
            Message::Publish(publication) => Some(publication),
            _ => None,
        }
    }

    /// The topic it is about.
    #[must_use]
    pub fn topic(&self) -> Option<&Topic> {
        match self.message() {
            Message::Publish(publication) => Some(&publication.id.topic),
            Message::IHave(have) => Some(&have.topic),
            Message::IWant(want) => Some(&want.topic),
            Message::Graft(graft) => Some(&graft.topic),
            Message::Accepted(accepted) => Some(&accepted.topic),
            Message::Prune(topic) | Message::Subscribe(topic) | Message::Unsubscribe(topic) => Some(topic),
            _ => None,
        }
    }

    /// What it is, as far as sending it goes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.message() {
            Message::Publish(_) => Kind::Publication,
            Message::IHave(_) => Kind::Announcement,
            _ => Kind::Control,
        }
    }

    /// The lane it belongs in: publications and announcements must not hold up what prunes and grafts.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.kind() {
            Kind::Publication | Kind::Announcement => Lane::Gossip,
            Kind::Control => Lane::Control,
        }
    }
}
