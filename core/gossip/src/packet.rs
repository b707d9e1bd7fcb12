//! What is sent: a message that is encoded once and shared by everybody it goes to.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use oap::{Frame, Message, Publication, Topic};

/// What a publication's frame needs besides its topic and its body, at most.
const PUBLICATION_ROOM: usize = 288;

/// A message to be sent, cheap to clone. Only an engine makes them.
#[derive(Clone, Debug)]
pub struct Packet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    frame: Frame,
    bytes: OnceLock<Bytes>,
}

/// What a packet is, as far as sending it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A publication; counted against the topic's budget for the peer.
    Publication,
    /// An announcement; one of a topic is on its way to a peer at a time.
    Announcement,
    /// Whether the sender takes part in a topic; a few of them are on their way to a peer at a time.
    Membership,
    /// A message of any other kind.
    Control,
}

/// The lanes of a connection's writer, the first served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Small, and what everything else depends on.
    Control,
    /// Publications, announcements, and topics that are joined or left.
    Gossip,
    /// Pieces of objects.
    Bulk,
}

impl Packet {
    /// A packet of a message that keeps the rules of [`Message::check`].
    pub(crate) fn new(message: Message) -> Self {
        Self(Arc::new(Inner { frame: Frame::connection(message), bytes: OnceLock::new() }))
    }

    /// A packet of a publication, which is encoded at once: from then on the body is a part of the frame, kept only once,
    /// and does not hold the buffer it was read into.
    pub(crate) fn of(publication: Publication) -> Self {
        let len = publication.body.len();
        let room = PUBLICATION_ROOM + publication.id.topic.as_str().len() + len;
        let mut frame = Frame::connection(Message::Publish(publication));
        let bytes = encode(&frame, room);
        if let Message::Publish(publication) = &mut frame.message {
            publication.body = bytes.slice(bytes.len() - len..);
        }
        Self(Arc::new(Inner { frame, bytes: bytes.into() }))
    }

    /// Returns the message in the packet.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0.frame.message
    }

    /// The frame as it is sent, without a checksum. Encoded once, however many it is sent to.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        self.0.bytes.get_or_init(|| encode(&self.0.frame, PUBLICATION_ROOM))
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
            Message::Subscribe(_) | Message::Unsubscribe(_) => Kind::Membership,
            _ => Kind::Control,
        }
    }

    /// Returns true if the engine sends it again should it get lost: nothing but time is lost with it.
    #[must_use]
    pub fn may_be_dropped(&self) -> bool {
        matches!(self.message(), Message::IWant(_) | Message::Graft(_) | Message::Prune(_))
    }

    /// The lane it belongs in: publications and announcements must not hold up what prunes and grafts.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.kind() {
            Kind::Publication | Kind::Announcement | Kind::Membership => Lane::Gossip,
            Kind::Control => Lane::Control,
        }
    }
}

fn encode(frame: &Frame, room: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(room);
    frame.encode(&mut bytes).expect("engines keep the rules of messages");
    bytes.freeze()
}
