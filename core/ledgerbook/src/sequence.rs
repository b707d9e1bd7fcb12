//! Rows in their order: numbers without gaps, every entry in its request, every link over what precedes it.

use crate::{
    Entry, EntryKind, Fault, Link, Request,
    chain::{Leaves, link_hash},
};

/// Reads rows in order, from a link that is believed.
#[derive(Debug)]
pub(crate) struct Sequence {
    leaves: Leaves,
    head: Link,
    accounts: u64,
    requests: u64,
    entries: u64,
    /// How far the entries of the last request go.
    owed: u64,
}

impl Sequence {
    pub(crate) fn after(head: Link) -> Self {
        let Link { accounts, requests, entries, .. } = head;
        Self { leaves: Leaves::new(), head, accounts, requests, entries, owed: entries }
    }

    /// How many accounts were opened so far.
    pub(crate) fn accounts(&self) -> u64 {
        self.accounts
    }

    pub(crate) fn request(&mut self, request: &Request) -> Result<(), Fault> {
        follows("request", self.requests, request.number)?;
        follows("entry", self.owed, request.first_entry)?;
        follows("entry", self.entries, request.first_entry)?;
        self.requests += 1;
        self.owed = self.owed.saturating_add(request.entries.into());
        self.leaves.request(request);
        Ok(())
    }

    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        follows("entry", self.entries, entry.number)?;
        if entry.request != self.requests || entry.number > self.owed {
            let (expected, found) = (self.requests, entry.request);
            return Err(Fault::OutOfOrder { what: "an entry of request", expected, found });
        }
        self.entries += 1;
        self.accounts += u64::from(matches!(entry.kind, EntryKind::Open { .. }));
        self.leaves.entry(entry);
        Ok(())
    }

    pub(crate) fn link(&mut self, link: &Link) -> Result<(), Fault> {
        follows("link", self.head.number, link.number)?;
        let counts = (link.accounts, link.requests, link.entries);
        if counts != (self.accounts, self.requests, self.entries) || self.owed != self.entries {
            return Err(Fault::WrongCount(link.number));
        }
        if link.root != self.leaves.take_root() {
            return Err(Fault::WrongRoot(link.number));
        }
        if link.hash != link_hash(&self.head.hash, link) {
            return Err(Fault::WrongHash(link.number));
        }
        self.head = *link;
        Ok(())
    }

    /// The last link, if nothing follows it.
    pub(crate) fn finish(self) -> Result<Link, Fault> {
        let counts = (self.requests, self.entries, self.owed);
        let covered = counts == (self.head.requests, self.head.entries, self.head.entries);
        if covered { Ok(self.head) } else { Err(Fault::Unlinked) }
    }
}

fn follows(what: &'static str, last: u64, found: u64) -> Result<(), Fault> {
    let expected = last.saturating_add(1);
    if expected == found { Ok(()) } else { Err(Fault::OutOfOrder { what, expected, found }) }
}
