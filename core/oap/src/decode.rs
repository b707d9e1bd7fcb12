//! From frames to messages: every field checked, nothing left over.

use types::{NodeId, ObjectId};

use crate::{
    code::ErrorCode,
    frame::RawFrame,
    gossip::{Accepted, Graft, IHave, IWant, MessageId, PATTERNS_MAX, Publication, WantedPattern},
    hello::{Features, Hello, MAGIC, Token, VERSION},
    kind::{FLAG_PROVEN, FLAG_SIGNED, Kind},
    message::{Data, Fault, Frame, Get, Goaway, Message, Start},
    rules::InvalidMessage,
    topic::Topic,
    wire::Reader,
};

/// Why a frame is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A kind that is not known.
    #[error("an unknown kind of frame: {0}")]
    UnknownKind(u8),
    /// A flag that its kind does not have.
    #[error("an unknown flag")]
    Flags,
    /// On a stream although it concerns the connection, or the other way round.
    #[error("a kind of frame that does not belong to its stream")]
    Stream,
    /// It ends before its fields do.
    #[error("a field is cut short")]
    Truncated,
    /// It goes on after its fields.
    #[error("bytes after the last field")]
    Trailing,
    /// A HELLO that is not one.
    #[error("not the magic of this protocol")]
    Magic,
    /// A version that does not exist.
    #[error("version {0} does not exist")]
    Version(u16),
    /// A topic's name that is none.
    #[error("not the name of a topic")]
    Topic,
    /// An error code that is not known.
    #[error("an unknown error code: {0}")]
    Code(u16),
    /// A field with a value it cannot have.
    #[error("a field has a value it cannot have")]
    Field,
    /// Its fields are right and what they say together is not.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
}

impl DecodeError {
    /// Returns the error code that is sent to the peer.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::UnknownKind(_) => ErrorCode::UnknownKind,
            Self::Magic | Self::Version(_) => ErrorCode::Version,
            _ => ErrorCode::Malformed,
        }
    }
}

/// Makes messages of frames, and remembers the last topic: its name is not rebuilt for each publication.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    last_topic: Option<Topic>,
}

impl Parser {
    /// What the frame says.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn parse(&mut self, raw: RawFrame) -> Result<Frame, DecodeError> {
        let kind = Kind::from_number(raw.kind).ok_or(DecodeError::UnknownKind(raw.kind))?;
        if raw.flags & !kind.flags() != 0 {
            return Err(DecodeError::Flags);
        }
        if !kind.belongs_to(raw.stream) {
            return Err(DecodeError::Stream);
        }
        let stream = raw.stream;
        let message = self.message(kind, raw)?;
        message.check()?;
        Ok(Frame { stream, message })
    }

    fn message(&mut self, kind: Kind, raw: RawFrame) -> Result<Message, DecodeError> {
        let (header, body) = (Reader::new(raw.header), Reader::new(raw.body));
        match kind {
            Kind::Hello => hello(header, body),
            Kind::Start => bare(body, start(header)?),
            Kind::Data => data(header, body),
            Kind::End => header.end().and_then(|()| bare(body, Message::End)),
            Kind::Ack => number(header, Reader::u32).and_then(|credit| bare(body, Message::Ack { credit })),
            Kind::Error => self.error(header, body),
            Kind::Goaway => goaway(header, body),
            Kind::Ping => number(header, Reader::u64).and_then(|number| bare(body, Message::Ping(number))),
            Kind::Pong => number(header, Reader::u64).and_then(|number| bare(body, Message::Pong(number))),
            Kind::Publish => self.publication(header, body, raw.flags),
            Kind::IHave => self.ihave(header, body),
            Kind::IWant => {
                let (topic, mut body) = (self.only_topic(header)?, body);
                Ok(Message::IWant(IWant { topic, entries: body.all_entries()? }))
            }
            Kind::Graft => self.graft(header, body),
            Kind::Prune => self.only_topic(header).and_then(|topic| bare(body, Message::Prune(topic))),
            Kind::Subscribe => {
                self.only_topic(header).and_then(|topic| bare(body, Message::Subscribe(topic)))
            }
            Kind::Unsubscribe => {
                self.only_topic(header).and_then(|topic| bare(body, Message::Unsubscribe(topic)))
            }
            Kind::Accepted => self.accepted(header, body),
            Kind::Patterns => header.end().and_then(|()| patterns(body)),
        }
    }

    fn only_topic(&mut self, mut header: Reader) -> Result<Topic, DecodeError> {
        let topic = header.topic(&mut self.last_topic)?;
        header.end()?;
        Ok(topic)
    }

    fn error(&mut self, mut header: Reader, body: Reader) -> Result<Message, DecodeError> {
        let (code, retry_after_ms) = (code(&mut header)?, header.u32()?);
        let about = match header.flag()? {
            true => Some(self.message_id(&mut header)?),
            false => None,
        };
        header.end()?;
        Ok(Message::Error(Fault { code, retry_after_ms, about, detail: text(body)? }))
    }

    fn message_id(&mut self, header: &mut Reader) -> Result<MessageId, DecodeError> {
        let entry = header.entry()?;
        Ok(entry.in_topic(&header.topic(&mut self.last_topic)?))
    }

    fn publication(&mut self, mut header: Reader, body: Reader, flags: u8) -> Result<Message, DecodeError> {
        let (hops, id, digest) = (header.u8()?, self.message_id(&mut header)?, header.array()?);
        let signature = if flags & FLAG_SIGNED != 0 { Some(header.array()?) } else { None };
        let proof = if flags & FLAG_PROVEN != 0 { Some(header.proof()?.into()) } else { None };
        header.end()?;
        Ok(Message::Publish(Publication { id, digest, hops, signature, proof, body: body.rest() }))
    }

    fn ihave(&mut self, mut header: Reader, mut body: Reader) -> Result<Message, DecodeError> {
        let topic = header.topic(&mut self.last_topic)?;
        let (entries, heads) = (header.u16()?, header.u16()?);
        header.end()?;
        let (entries, heads) = (body.entries(entries.into())?, body.heads(heads.into())?);
        bare(body, Message::IHave(IHave { topic, entries, heads }))
    }

    fn graft(&mut self, header: Reader, mut body: Reader) -> Result<Message, DecodeError> {
        let topic = self.only_topic(header)?;
        let missing = if body.is_empty() { None } else { Some(body.entry()?) };
        bare(body, Message::Graft(Graft { topic, missing }))
    }

    fn accepted(&mut self, mut header: Reader, mut body: Reader) -> Result<Message, DecodeError> {
        let (topic, incarnation) = (header.topic(&mut self.last_topic)?, header.u64()?);
        header.end()?;
        let seqs = (0..body.len().div_ceil(8)).map(|_| body.u64()).collect::<Result<_, _>>()?;
        Ok(Message::Accepted(Accepted { topic, incarnation, seqs }))
    }
}

/// The message, if the body is empty.
fn bare(body: Reader, message: Message) -> Result<Message, DecodeError> {
    body.end().map(|()| message)
}

/// A header of one number.
fn number<N>(mut header: Reader, read: fn(&mut Reader) -> Result<N, DecodeError>) -> Result<N, DecodeError> {
    let number = read(&mut header)?;
    header.end().map(|()| number)
}

fn hello(mut header: Reader, mut body: Reader) -> Result<Message, DecodeError> {
    if header.array()? != MAGIC {
        return Err(DecodeError::Magic);
    }
    let version = header.u16()?;
    if version == 0 {
        return Err(DecodeError::Version(version));
    }
    let node = NodeId::new(header.array()?);
    let (features, max_frame) = (Features::from_bits(header.u32()?), header.u32()?);
    let (credit, max_streams, rate) = (header.u32()?, header.u16()?, header.u32()?);
    let token = match header.u16()? {
        0 => None,
        len => Some(Token::new(header.bytes(len.into())?).ok_or(DecodeError::Field)?),
    };
    // A later version may have more to say; ours has not.
    if version == VERSION {
        header.end()?;
    }
    let mut topics = Vec::new();
    while !body.is_empty() {
        if topics.len() == crate::HELLO_TOPICS_MAX {
            return Err(InvalidMessage::List.into());
        }
        topics.push(body.topic(&mut None)?);
    }
    Ok(Message::Hello(Hello { version, node, features, max_frame, credit, max_streams, rate, token, topics }))
}

fn patterns(mut body: Reader) -> Result<Message, DecodeError> {
    let mut list = Vec::new();
    while !body.is_empty() {
        if list.len() == PATTERNS_MAX {
            return Err(InvalidMessage::List.into());
        }
        let (hops, len) = (body.u8()?, body.u8()?);
        let text = body.bytes(len.into())?;
        let pattern = str::from_utf8(&text).map_err(|_| DecodeError::Field)?.into();
        list.push(WantedPattern { pattern, hops });
    }
    Ok(Message::Patterns(list))
}

fn start(mut header: Reader) -> Result<Message, DecodeError> {
    let (operation, id) = (header.u8()?, ObjectId::new(header.array()?));
    let start = match operation {
        1 => Start::Get(Get { id, offset: header.u64()?, len: header.u64()?, tail: header.flag()? }),
        2 => Start::Put { id, len: header.u64()? },
        _ => return Err(DecodeError::Field),
    };
    header.end()?;
    Ok(Message::Start(start))
}

fn data(mut header: Reader, body: Reader) -> Result<Message, DecodeError> {
    let (object_len, offset) = (header.u64()?, header.u64()?);
    Ok(Message::Data(Data { object_len, offset, proof: header.rest(), body: body.rest() }))
}

fn goaway(mut header: Reader, body: Reader) -> Result<Message, DecodeError> {
    let (reason, last) = (code(&mut header)?, header.u32()?);
    header.end()?;
    Ok(Message::Goaway(Goaway { reason, last, detail: text(body)? }))
}

fn code(header: &mut Reader) -> Result<ErrorCode, DecodeError> {
    let number = header.u16()?;
    ErrorCode::from_number(number).ok_or(DecodeError::Code(number))
}

fn text(body: Reader) -> Result<Box<str>, DecodeError> {
    if body.len() > crate::DETAIL_MAX {
        return Err(InvalidMessage::Detail.into());
    }
    let bytes = body.rest();
    str::from_utf8(&bytes).map(Into::into).map_err(|_| DecodeError::Field)
}
