//! The life of a connection: HELLO from both sides, then everything else, each in its turn.

use types::NodeId;

use crate::{
    CONNECTION,
    code::ErrorCode,
    hello::{Agreed, Hello},
    message::{Data, Fault, Frame, Goaway, Message, Start},
    streams::{Effect, Side, Streams},
};

/// The other side broke the protocol: it is told so with ERROR, and the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Violation {
    /// What the other side is told.
    pub code: ErrorCode,
    /// What the peer did wrong, for the log.
    pub detail: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: ErrorCode, detail: &'static str) -> Self {
        Self { code, detail }
    }

    /// The ERROR that tells the other side.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code, self.detail)
    }
}

/// What a frame means, once it is known to be in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The other side introduced itself. From here on both use what was agreed.
    Hello(Box<Hello>),
    /// The other side opened a stream.
    Start {
        /// The number of the stream.
        stream: u32,
        /// The operation that the stream is for.
        start: Start,
    },
    /// The other side opened a stream that is refused: ERROR is to be sent on it.
    Refuse {
        /// The number of the stream.
        stream: u32,
        /// The reason for the refusal.
        code: ErrorCode,
    },
    /// A piece of a stream's object. Whether it is what it says is for a [`Checker`](crate::Checker) to find out.
    Data {
        /// The number of the stream.
        stream: u32,
        /// The piece of the object.
        data: Data,
    },
    /// The other side sent all of the stream's object, or has stored ours.
    End {
        /// The number of the stream.
        stream: u32,
    },
    /// There is more credit.
    Credit {
        /// The number of the stream.
        stream: u32,
    },
    /// The other side closed a stream.
    Reset {
        /// The number of the stream.
        stream: u32,
        /// The reason that the peer gave.
        fault: Fault,
    },
    /// The other side refuses something on the connection.
    Fault(Fault),
    /// The other side is going away; these streams of ours are closed.
    Goaway {
        /// The content of the GOAWAY.
        goaway: Goaway,
        /// The streams that are not served.
        closed: Vec<u32>,
    },
    /// PONG with the same number is to be sent.
    Ping(u64),
    /// The answer to a PING.
    Pong(u64),
    /// A message for the gossip engine.
    Gossip(Message),
    /// Of a stream that was closed before; nothing is to be done.
    Late,
}

/// One connection as one of its ends sees it.
#[derive(Debug)]
pub struct Session {
    side: Side,
    ours: Hello,
    peer: Option<Peer>,
}

#[derive(Debug)]
struct Peer {
    node: NodeId,
    agreed: Agreed,
    streams: Streams,
}

impl Session {
    /// A new connection. `ours` is to be sent first, and nothing else until the other side's HELLO has arrived.
    #[must_use]
    pub fn new(side: Side, ours: Hello) -> Self {
        Self { side, ours, peer: None }
    }

    /// Returns the HELLO that this node sends first.
    #[must_use]
    pub fn hello(&self) -> Frame {
        Frame::connection(Message::Hello(self.ours.clone()))
    }

    /// Who is at the other end, once it has said so.
    #[must_use]
    pub fn peer(&self) -> Option<NodeId> {
        self.peer.as_ref().map(|peer| peer.node)
    }

    /// What was agreed, once both have introduced themselves.
    #[must_use]
    pub fn agreed(&self) -> Option<&Agreed> {
        self.peer.as_ref().map(|peer| &peer.agreed)
    }

    /// The streams, once both have introduced themselves.
    pub fn streams(&mut self) -> Option<&mut Streams> {
        self.peer.as_mut().map(|peer| &mut peer.streams)
    }

    /// What a frame of the other side means.
    ///
    /// # Errors
    /// [`Violation`] if it may not be said, at all or now.
    pub fn receive(&mut self, frame: Frame) -> Result<Incoming, Violation> {
        match (&mut self.peer, frame.message) {
            (None, Message::Hello(theirs)) => self.introduce(theirs),
            // Refused before it introduced itself, the other side says why.
            (None, Message::Error(fault)) if frame.stream == CONNECTION => Ok(Incoming::Fault(fault)),
            (None, _) => Err(Violation::new(ErrorCode::OutOfOrder, "something before HELLO")),
            (Some(_), Message::Hello(_)) => Err(Violation::new(ErrorCode::OutOfOrder, "a second HELLO")),
            (Some(peer), message) => on_message(&mut peer.streams, frame.stream, message),
        }
    }

    fn introduce(&mut self, theirs: Hello) -> Result<Incoming, Violation> {
        let agreed = self.ours.agree(&theirs).map_err(|error| {
            let detail = "a HELLO that there is nothing in common with";
            Violation::new(error.code(), detail)
        })?;
        let streams = Streams::new(self.side, agreed.clone());
        self.peer = Some(Peer { node: theirs.node, agreed, streams });
        Ok(Incoming::Hello(Box::new(theirs)))
    }
}

fn on_message(streams: &mut Streams, stream: u32, message: Message) -> Result<Incoming, Violation> {
    let (effect, meaning) = match message {
        Message::Start(start) => {
            return Ok(match streams.on_start(stream, &start)? {
                Ok(()) => Incoming::Start { stream, start },
                Err(code) => Incoming::Refuse { stream, code },
            });
        }
        Message::Data(data) => (streams.on_data(stream, data.cost())?, Incoming::Data { stream, data }),
        Message::End => (streams.on_end(stream)?, Incoming::End { stream }),
        Message::Ack { credit } => (streams.on_ack(stream, credit)?, Incoming::Credit { stream }),
        Message::Error(fault) if stream == CONNECTION => (Effect::Taken, Incoming::Fault(fault)),
        Message::Error(fault) => (streams.on_error(stream)?, Incoming::Reset { stream, fault }),
        Message::Goaway(goaway) => {
            let closed = streams.on_goaway(goaway.last);
            (Effect::Taken, Incoming::Goaway { goaway, closed })
        }
        Message::Ping(number) => (Effect::Taken, Incoming::Ping(number)),
        Message::Pong(number) => (Effect::Taken, Incoming::Pong(number)),
        gossip => (Effect::Taken, Incoming::Gossip(gossip)),
    };
    Ok(if effect == Effect::Taken { meaning } else { Incoming::Late })
}
