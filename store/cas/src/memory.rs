//! Objects in memory, for nodes that write nothing to disk.

use std::{
    collections::HashMap,
    io,
    ops::Range,
    sync::{Arc, Mutex},
};

use b3tree::Tree;
use bytes::Bytes;
use types::ObjectId;

use crate::{
    backend::{Backend, Spool},
    lock,
    tail::Written,
    verified::{ReadError, Source},
};

/// What an object takes besides its bytes and its tree, about.
const OVERHEAD: u64 = 256;

type Objects = Arc<Mutex<HashMap<ObjectId, (Bytes, Arc<Tree>)>>>;

/// A store that keeps its objects in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Objects,
}

impl Backend for Memory {
    fn cost(&self, len: u64) -> u64 {
        len.saturating_add(Tree::encoded_len(len)).saturating_add(OVERHEAD)
    }

    fn spool(&self) -> io::Result<Box<dyn Spool>> {
        Ok(Box::new(MemorySpool { objects: Arc::clone(&self.objects), bytes: Arc::default() }))
    }

    fn find(&self, id: ObjectId) -> io::Result<Option<u64>> {
        Ok(lock(&self.objects).get(&id).map(|(_, tree)| tree.len()))
    }

    fn open(&self, id: ObjectId, _: u64) -> Result<Option<(Source, Arc<Tree>)>, ReadError> {
        let objects = lock(&self.objects);
        Ok(objects.get(&id).map(|(bytes, tree)| (Source::Memory(bytes.clone()), Arc::clone(tree))))
    }

    fn bytes(&self, id: ObjectId) -> Option<Bytes> {
        lock(&self.objects).get(&id).map(|(bytes, _)| bytes.clone())
    }

    fn remove(&self, id: ObjectId) -> io::Result<()> {
        lock(&self.objects).remove(&id);
        Ok(())
    }

    fn repair(&self, _: ObjectId) -> io::Result<bool> {
        Ok(false)
    }

    fn set_aside(&self, id: ObjectId) -> io::Result<u64> {
        // There is nothing to learn from a corrupt object once the process has ended, so it is not kept.
        self.remove(id)?;
        Ok(0)
    }

    fn remove_aside(&self, _: ObjectId) -> io::Result<()> {
        Ok(())
    }

    fn save_use(&self, _: ObjectId) {}
}

#[derive(Debug)]
struct MemorySpool {
    objects: Objects,
    bytes: Arc<Mutex<MemoryBytes>>,
}

impl Spool for MemorySpool {
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let mut bytes = lock(&self.bytes);
        let MemoryBytes::Growing(bytes) = &mut *bytes else { return Err(io::ErrorKind::Other.into()) };
        bytes.try_reserve(data.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.extend_from_slice(data);
        Ok(())
    }

    fn written(&mut self) -> io::Result<Written> {
        Ok(Written::Memory(Arc::clone(&self.bytes)))
    }

    fn publish(self: Box<Self>, tree: &Arc<Tree>) -> io::Result<()> {
        let bytes = lock(&self.bytes).finish();
        lock(&self.objects).insert(tree.root(), (bytes, Arc::clone(tree)));
        Ok(())
    }
}

/// The bytes of an object that may not be whole yet.
#[derive(Debug)]
pub(crate) enum MemoryBytes {
    /// The bytes so far; more may follow.
    Growing(Vec<u8>),
    /// All bytes of the object.
    Whole(Bytes),
}

impl Default for MemoryBytes {
    fn default() -> Self {
        Self::Growing(Vec::new())
    }
}

impl MemoryBytes {
    /// A copy of these bytes; [`None`] if they are not here.
    pub(crate) fn copy(&self, range: Range<usize>) -> Option<Bytes> {
        match self {
            Self::Growing(bytes) => bytes.get(range).map(Bytes::copy_from_slice),
            Self::Whole(bytes) => (range.end <= bytes.len()).then(|| bytes.slice(range)),
        }
    }

    /// All of them, without the room that a growing buffer has to spare, which the cap does not count.
    fn finish(&mut self) -> Bytes {
        let whole = match self {
            Self::Growing(bytes) => Bytes::from(std::mem::take(bytes).into_boxed_slice()),
            Self::Whole(bytes) => bytes.clone(),
        };
        *self = Self::Whole(whole.clone());
        whole
    }
}
