//! The kinds of frames: their numbers, their flags, and where they belong.

use crate::{CONNECTION, frame::LENGTH_LEN, message::Message};

/// On PUB: the digest is followed by the publisher's signature.
pub(crate) const FLAG_SIGNED: u8 = 1;

/// On PUB: the header ends with a proof of the publisher's head.
pub(crate) const FLAG_PROVEN: u8 = 2;

/// The kind of a frame, as its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Start = 2,
    Data = 3,
    End = 4,
    Ack = 5,
    Error = 6,
    Goaway = 7,
    Ping = 8,
    Pong = 9,
    Publish = 16,
    IHave = 17,
    IWant = 18,
    Graft = 19,
    Prune = 20,
    Subscribe = 21,
    Unsubscribe = 22,
    Accepted = 23,
    Patterns = 24,
}

/// Whether an encoded frame counts for the rate that its reader said in HELLO: START, PING and gossip do.
#[must_use]
pub fn counts_for_rate(frame: &[u8]) -> bool {
    let kind = frame.get(LENGTH_LEN).copied().and_then(Kind::from_number);
    let is_free = |kind: Kind| {
        matches!(
            kind,
            Kind::Hello | Kind::Data | Kind::End | Kind::Ack | Kind::Pong | Kind::Error | Kind::Goaway
        )
    };
    kind.is_some_and(|kind| !is_free(kind))
}

impl Kind {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Hello,
            2 => Self::Start,
            3 => Self::Data,
            4 => Self::End,
            5 => Self::Ack,
            6 => Self::Error,
            7 => Self::Goaway,
            8 => Self::Ping,
            9 => Self::Pong,
            16 => Self::Publish,
            17 => Self::IHave,
            18 => Self::IWant,
            19 => Self::Graft,
            20 => Self::Prune,
            21 => Self::Subscribe,
            22 => Self::Unsubscribe,
            23 => Self::Accepted,
            24 => Self::Patterns,
            _ => return None,
        })
    }

    /// The flags it may have.
    pub(crate) fn flags(self) -> u8 {
        if self == Self::Publish { FLAG_SIGNED | FLAG_PROVEN } else { 0 }
    }

    pub(crate) fn belongs_to(self, stream: u32) -> bool {
        match self {
            Self::Start | Self::Data | Self::End | Self::Ack => stream != CONNECTION,
            Self::Error => true,
            _ => stream == CONNECTION,
        }
    }

    pub(crate) fn of(message: &Message) -> Self {
        match message {
            Message::Hello(_) => Self::Hello,
            Message::Start(_) => Self::Start,
            Message::Data(_) => Self::Data,
            Message::End => Self::End,
            Message::Ack { .. } => Self::Ack,
            Message::Error(_) => Self::Error,
            Message::Goaway(_) => Self::Goaway,
            Message::Ping(_) => Self::Ping,
            Message::Pong(_) => Self::Pong,
            Message::Publish(_) => Self::Publish,
            Message::IHave(_) => Self::IHave,
            Message::IWant(_) => Self::IWant,
            Message::Graft(_) => Self::Graft,
            Message::Prune(_) => Self::Prune,
            Message::Subscribe(_) => Self::Subscribe,
            Message::Unsubscribe(_) => Self::Unsubscribe,
            Message::Accepted(_) => Self::Accepted,
            Message::Patterns(_) => Self::Patterns,
        }
    }
}
