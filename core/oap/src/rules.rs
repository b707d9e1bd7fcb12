//! What a message has to hold beyond its fields. Writers and readers ask the same function.

use b3tree::{GROUP_LEN, PROOF_MAX};

use crate::{
    gossip::{Entry, HEADS_MAX, LIST_MAX, PATTERN_HOPS_MAX, PATTERNS_MAX, PUBLICATION_MAX, WantedPattern},
    hello::HELLO_TOPICS_MAX,
    message::{CHUNK_MAX, DETAIL_MAX, Data, Message, Start},
};

/// The rule that a message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// On a stream although it concerns the connection, or the other way round.
    #[error("a message that does not belong to its stream")]
    Stream,
    /// Too many of something, or none.
    #[error("a list that is empty or too long")]
    List,
    /// A text that is too long.
    #[error("a text that is too long")]
    Detail,
    /// A body that is too long.
    #[error("a body that is too long")]
    Body,
    /// An increment of nothing.
    #[error("a credit of nothing")]
    Credit,
    /// Publications are counted from one.
    #[error("a publication with the number zero")]
    Seq,
    /// A GET of nothing.
    #[error("a range of no bytes")]
    Range,
    /// Not whole groups of the object.
    #[error("bytes that are not whole groups of the object")]
    Groups,
    /// A proof that is none.
    #[error("a proof of a length that no proof has")]
    Proof,
    /// A pattern that is none, has no wildcard, or goes over no link or too many.
    #[error("not a pattern of topics, or one for no link or too many")]
    Pattern,
    /// The version is zero.
    #[error("a version that does not exist")]
    Version,
}

impl Message {
    /// Whether it may be sent.
    ///
    /// # Errors
    /// [`InvalidMessage`] says what is wrong.
    pub fn check(&self) -> Result<(), InvalidMessage> {
        match self {
            Self::Hello(hello) if hello.version == 0 => Err(InvalidMessage::Version),
            Self::Hello(hello) => ensure(hello.topics.len() <= HELLO_TOPICS_MAX, InvalidMessage::List),
            Self::Start(Start::Get(get)) => ensure(get.len > 0 || get.tail, InvalidMessage::Range),
            Self::Data(data) => data.check(),
            Self::Ack { credit } => ensure(*credit > 0, InvalidMessage::Credit),
            Self::Error(fault) => {
                ensure(fault.detail.len() <= DETAIL_MAX, InvalidMessage::Detail)?;
                fault.about.as_ref().map_or(Ok(()), |id| counted([&id.entry()]))
            }
            Self::Goaway(goaway) => ensure(goaway.detail.len() <= DETAIL_MAX, InvalidMessage::Detail),
            Self::Publish(publication) => {
                ensure(publication.body.len() <= PUBLICATION_MAX, InvalidMessage::Body)?;
                counted([&publication.id.entry()])
            }
            Self::IHave(ihave) => {
                let is_short = ihave.entries.len() <= LIST_MAX && ihave.heads.len() <= HEADS_MAX;
                ensure(is_short, InvalidMessage::List)?;
                counted(ihave.entries.iter().chain(ihave.heads.iter().map(|head| &head.entry)))
            }
            Self::IWant(iwant) => {
                ensure((1..=LIST_MAX).contains(&iwant.entries.len()), InvalidMessage::List)?;
                counted(&iwant.entries)
            }
            Self::Graft(graft) => counted(&graft.missing),
            Self::Accepted(accepted) => {
                ensure((1..=LIST_MAX).contains(&accepted.seqs.len()), InvalidMessage::List)?;
                ensure(!accepted.seqs.contains(&0), InvalidMessage::Seq)
            }
            Self::Patterns(list) => patterns(list),
            Self::Start(Start::Put { .. })
            | Self::End
            | Self::Ping(_)
            | Self::Pong(_)
            | Self::Prune(_)
            | Self::Subscribe(_)
            | Self::Unsubscribe(_) => Ok(()),
        }
    }
}

impl Data {
    /// Whole groups, inside the object, and no more than a chunk of them.
    fn check(&self) -> Result<(), InvalidMessage> {
        ensure(self.body.len() <= CHUNK_MAX, InvalidMessage::Body)?;
        let end = self.offset.checked_add(self.body.len() as u64).filter(|end| *end <= self.object_len);
        let starts = self.offset.is_multiple_of(GROUP_LEN as u64);
        let ends = self.body.len().is_multiple_of(GROUP_LEN) || end == Some(self.object_len);
        let is_something = !self.body.is_empty() || (self.object_len, self.offset) == (0, 0);
        ensure(end.is_some() && starts && ends && is_something, InvalidMessage::Groups)?;
        let is_proof = self.proof.len() <= PROOF_MAX && self.proof.len().is_multiple_of(32);
        ensure(is_proof, InvalidMessage::Proof)
    }
}

/// Patterns with wildcards, in ascending order, each once.
fn patterns(list: &[WantedPattern]) -> Result<(), InvalidMessage> {
    let is_sorted = list.is_sorted_by(|one, next| one.pattern < next.pattern);
    ensure(list.len() <= PATTERNS_MAX && is_sorted, InvalidMessage::List)?;
    let is_sound = |wanted: &WantedPattern| {
        (1..=PATTERN_HOPS_MAX).contains(&wanted.hops)
            && topics::Pattern::new(&wanted.pattern).is_ok_and(|pattern| !pattern.is_exact())
    };
    ensure(list.iter().all(is_sound), InvalidMessage::Pattern)
}

fn counted<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<(), InvalidMessage> {
    ensure(entries.into_iter().all(|entry| entry.seq > 0), InvalidMessage::Seq)
}

fn ensure(holds: bool, otherwise: InvalidMessage) -> Result<(), InvalidMessage> {
    if holds { Ok(()) } else { Err(otherwise) }
}
