//! From messages to frames.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    frame::{FIXED_LEN, LENGTH_LEN},
    gossip::{MessageId, Publication},
    hello::{Hello, MAGIC},
    kind::{FLAG_PROVEN, FLAG_SIGNED, Kind},
    message::{Fault, Frame, Message, Start},
    rules::InvalidMessage,
    wire::{put_entry, put_proof, put_topic},
};

/// The longest header beside a proof: what to make room for.
const HEADER_ROOM: usize = 512;

impl Frame {
    /// What concerns the connection, and gossip.
    #[must_use]
    pub fn connection(message: Message) -> Self {
        Self { stream: crate::CONNECTION, message }
    }

    /// Makes a frame of a stream.
    #[must_use]
    pub fn on(stream: u32, message: Message) -> Self {
        Self { stream, message }
    }

    /// Appends the frame, without a checksum ([`put_with_checksum`](crate::put_with_checksum) adds one).
    ///
    /// # Errors
    /// [`InvalidMessage`] if it breaks a rule that its reader would refuse it for; nothing is appended then.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), InvalidMessage> {
        self.message.check()?;
        let kind = Kind::of(&self.message);
        if !kind.belongs_to(self.stream) {
            return Err(InvalidMessage::Stream);
        }
        let start = out.len();
        out.put_bytes(0, LENGTH_LEN + FIXED_LEN);
        put_header(out, &self.message);
        let header_len = out.len() - start - LENGTH_LEN - FIXED_LEN;
        put_body(out, &self.message);
        let len = out.len() - start - LENGTH_LEN;
        let mut fixed = &mut out[start..];
        fixed.put_u32(u32::try_from(len).expect("the rules keep messages far below 1 MiB"));
        fixed.put_u8(kind as u8);
        fixed.put_u8(flags(&self.message));
        fixed.put_u16(u16::try_from(header_len).expect("the rules keep headers below 8 KiB"));
        fixed.put_u32(self.stream);
        Ok(())
    }

    /// The frame in memory of its own, to be shared by all it is sent to.
    ///
    /// # Errors
    /// As [`Frame::encode`].
    pub fn to_bytes(&self) -> Result<Bytes, InvalidMessage> {
        let mut out = BytesMut::with_capacity(LENGTH_LEN + FIXED_LEN + HEADER_ROOM + body_len(&self.message));
        self.encode(&mut out)?;
        Ok(out.freeze())
    }
}

fn flags(message: &Message) -> u8 {
    let Message::Publish(publication) = message else { return 0 };
    let signed = if publication.signature.is_some() { FLAG_SIGNED } else { 0 };
    let proven = if publication.proof.is_some() { FLAG_PROVEN } else { 0 };
    signed | proven
}

fn body_len(message: &Message) -> usize {
    match message {
        Message::Data(data) => data.proof.len() + data.body.len(),
        Message::Publish(publication) => publication.body.len(),
        _ => 0,
    }
}

fn put_header(out: &mut BytesMut, message: &Message) {
    match message {
        Message::Hello(hello) => put_hello(out, hello),
        Message::Start(start) => put_start(out, start),
        Message::Data(data) => {
            out.put_u64(data.object_len);
            out.put_u64(data.offset);
            out.put_slice(&data.proof);
        }
        Message::End | Message::Patterns(_) => {}
        Message::Ack { credit } => out.put_u32(*credit),
        Message::Error(fault) => put_error(out, fault),
        Message::Goaway(goaway) => {
            out.put_u16(goaway.reason as u16);
            out.put_u32(goaway.last);
        }
        Message::Ping(number) | Message::Pong(number) => out.put_u64(*number),
        Message::Publish(publication) => put_publication(out, publication),
        Message::IHave(ihave) => {
            put_topic(out, &ihave.topic);
            for len in [ihave.entries.len(), ihave.heads.len()] {
                out.put_u16(u16::try_from(len).expect("the rules keep lists to 1,024"));
            }
        }
        Message::IWant(iwant) => put_topic(out, &iwant.topic),
        Message::Graft(graft) => put_topic(out, &graft.topic),
        Message::Prune(topic) | Message::Subscribe(topic) | Message::Unsubscribe(topic) => {
            put_topic(out, topic);
        }
        Message::Accepted(accepted) => {
            put_topic(out, &accepted.topic);
            out.put_u64(accepted.incarnation);
        }
    }
}

fn put_body(out: &mut BytesMut, message: &Message) {
    match message {
        Message::Hello(hello) => hello.topics.iter().for_each(|topic| put_topic(out, topic)),
        Message::Data(data) => out.put_slice(&data.body),
        Message::Error(Fault { detail, .. }) => out.put_slice(detail.as_bytes()),
        Message::Goaway(goaway) => out.put_slice(goaway.detail.as_bytes()),
        Message::Publish(publication) => out.put_slice(&publication.body),
        Message::IHave(ihave) => {
            ihave.entries.iter().for_each(|entry| put_entry(out, entry));
            for head in &ihave.heads {
                put_entry(out, &head.entry);
                put_proof(out, &head.proof);
            }
        }
        Message::IWant(iwant) => iwant.entries.iter().for_each(|entry| put_entry(out, entry)),
        Message::Graft(graft) => graft.missing.iter().for_each(|entry| put_entry(out, entry)),
        Message::Accepted(accepted) => accepted.seqs.iter().for_each(|seq| out.put_u64(*seq)),
        Message::Patterns(list) => {
            for wanted in list {
                out.put_u8(wanted.hops);
                out.put_u8(u8::try_from(wanted.pattern.len()).expect("a pattern has at most 128 bytes"));
                out.put_slice(wanted.pattern.as_bytes());
            }
        }
        _ => {}
    }
}

fn put_hello(out: &mut BytesMut, hello: &Hello) {
    out.put_slice(&MAGIC);
    out.put_u16(hello.version);
    out.put_slice(hello.node.as_bytes());
    out.put_u32(hello.features.bits());
    out.put_u32(hello.max_frame);
    out.put_u32(hello.credit);
    out.put_u16(hello.max_streams);
    out.put_u32(hello.rate);
    let token = hello.token.as_ref().map_or(&[][..], |token| token.reveal());
    out.put_u16(u16::try_from(token.len()).expect("a token has at most 4 KiB"));
    out.put_slice(token);
}

fn put_start(out: &mut BytesMut, start: &Start) {
    match start {
        Start::Get(get) => {
            out.put_u8(1);
            out.put_slice(get.id.as_bytes());
            out.put_u64(get.offset);
            out.put_u64(get.len);
            out.put_u8(get.tail.into());
        }
        Start::Put { id, len } => {
            out.put_u8(2);
            out.put_slice(id.as_bytes());
            out.put_u64(*len);
        }
    }
}

fn put_error(out: &mut BytesMut, fault: &Fault) {
    out.put_u16(fault.code as u16);
    out.put_u32(fault.retry_after_ms);
    out.put_u8(fault.about.is_some().into());
    if let Some(id) = &fault.about {
        put_message_id(out, id);
    }
}

fn put_publication(out: &mut BytesMut, publication: &Publication) {
    out.put_u8(publication.hops);
    put_message_id(out, &publication.id);
    out.put_slice(&publication.digest);
    if let Some(signature) = &publication.signature {
        out.put_slice(signature);
    }
    if let Some(proof) = &publication.proof {
        put_proof(out, proof);
    }
}

fn put_message_id(out: &mut BytesMut, id: &MessageId) {
    put_entry(out, &id.entry());
    put_topic(out, &id.topic);
}
