//! The chain: the leaf of every request and entry, and the hash of a link over its root and the link before.

use crate::{
    Entry, EntryKind, Hash, Link, Request, Transfer,
    encode::{Encoder, Tag},
    merkle,
};

/// The leaves of one link, in the order of the journal: each request, then its entries.
#[derive(Debug)]
pub(crate) struct Leaves {
    encoder: Encoder,
    leaves: Vec<Hash>,
}

impl Leaves {
    pub(crate) fn new() -> Self {
        Self { encoder: Encoder::new(), leaves: Vec::new() }
    }

    pub(crate) fn request(&mut self, request: &Request) {
        let encoder = self.encoder.begin(Tag::Request).number(request.number).text(request.key.as_str());
        encoder.hash(&request.body).text(request.reference.as_str()).number(request.at);
        encoder.number(request.first_entry).number(request.entries.into());
        self.leaves.push(encoder.finish());
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        let encoder = self.encoder.begin(Tag::Entry).number(entry.number).number(entry.request);
        put_kind(encoder, &entry.kind);
        self.leaves.push(encoder.finish());
    }

    /// The root over the leaves so far; what follows belongs to another link.
    pub(crate) fn take_root(&mut self) -> Hash {
        merkle::root(std::mem::take(&mut self.leaves))
    }
}

/// The hash of a link that follows one with the hash `before`.
pub(crate) fn link_hash(before: &Hash, link: &Link) -> Hash {
    let mut encoder = Encoder::new();
    encoder.begin(Tag::Link).hash(before).number(link.number).number(link.accounts);
    encoder.number(link.requests).number(link.entries).hash(&link.root).finish()
}

/// What an entry says, in one way only.
pub(crate) fn put_kind(encoder: &mut Encoder, kind: &EntryKind) {
    match kind {
        EntryKind::Open { account, asset, floor } => {
            encoder.byte(0).text(account.as_str()).text(asset.as_str()).floor(*floor);
        }
        EntryKind::Move(transfer) => put_transfer(encoder.byte(1), transfer),
        EntryKind::Hold(transfer) => put_transfer(encoder.byte(2), transfer),
        EntryKind::Settle { hold, transfer } => put_transfer(encoder.byte(3).number(*hold), transfer),
        EntryKind::Void { hold, transfer } => put_transfer(encoder.byte(4).number(*hold), transfer),
    }
}

pub(crate) fn put_transfer(encoder: &mut Encoder, transfer: &Transfer) {
    encoder.text(transfer.from.as_str()).text(transfer.to.as_str()).amount(transfer.amount);
}
