//! What a place to keep objects in has to be able to do. Which objects it keeps is decided elsewhere ([`crate::index`]).

use std::{fmt, io, sync::Arc};

use b3tree::Tree;
use bytes::Bytes;
use types::ObjectId;

use crate::{
    tail::Written,
    verified::{ReadError, Source},
};

/// A place for objects: memory, or a folder. Nobody but the store calls it, and never for two changes of one object at
/// once.
pub(crate) trait Backend: fmt::Debug + Send + Sync {
    /// What an object of this length takes of the place.
    fn cost(&self, len: u64) -> u64;

    /// Begins an object whose name is not known yet. If it is dropped, nothing stays behind.
    fn spool(&self) -> io::Result<Box<dyn Spool>>;

    /// The length of an object that somebody else may have put here.
    fn find(&self, id: ObjectId) -> io::Result<Option<u64>>;

    /// An object and its tree, ready to be read; [`None`] if it is not there.
    fn open(&self, id: ObjectId, len: u64) -> Result<Option<(Source, Arc<Tree>)>, ReadError>;

    /// All bytes of an object, if they are in memory, where they were checked when they came.
    fn bytes(&self, _: ObjectId) -> Option<Bytes> {
        None
    }

    /// Removes an object. One that is not there is removed.
    fn remove(&self, id: ObjectId) -> io::Result<()>;

    /// Tries to make an object good again whose tree is damaged and whose bytes are not. Says whether it is good now.
    fn repair(&self, id: ObjectId) -> io::Result<bool>;

    /// Moves a corrupt object where nobody reads it. Says what it takes there.
    fn set_aside(&self, id: ObjectId) -> io::Result<u64>;

    /// Forgets an object that was set aside.
    fn remove_aside(&self, id: ObjectId) -> io::Result<()>;

    /// Remembers across a restart that an object was used just now. Best effort: it decides what is evicted, no more.
    fn save_use(&self, id: ObjectId);
}

/// An object that is being written.
pub(crate) trait Spool: fmt::Debug + Send {
    /// Takes the next bytes.
    fn write(&mut self, data: &[u8]) -> io::Result<()>;

    /// What was written so far, for those who read it meanwhile. It can be read on after the object is in its place, and
    /// after it was given up.
    fn written(&mut self) -> io::Result<Written>;

    /// Puts the object in its place, whole and for good, or leaves nothing behind.
    fn publish(self: Box<Self>, tree: &Arc<Tree>) -> io::Result<()>;
}

/// An object that was there before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) id: ObjectId,
    pub(crate) len: u64,
}

/// What a place holds at the start.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Objects, the longest unused first.
    pub(crate) objects: Vec<Found>,
    /// Objects that were set aside, and what they take; the oldest first.
    pub(crate) aside: Vec<(ObjectId, u64)>,
    /// Remains of writers that were interrupted, now removed.
    pub(crate) swept: u64,
}
