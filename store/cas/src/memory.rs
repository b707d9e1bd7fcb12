//! Objects in memory, for nodes that write nothing to disk.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
};

use b3tree::Tree;
use bytes::Bytes;
use types::ObjectId;

use crate::{
    backend::{Backend, Spool},
    lock,
    verified::{ReadError, Source},
};

/// What an object takes besides its bytes and its tree, about.
const OVERHEAD: u64 = 256;

type Objects = Arc<Mutex<HashMap<ObjectId, (Bytes, Arc<Tree>)>>>;

/// Objects in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Objects,
}

impl Backend for Memory {
    fn cost(&self, len: u64) -> u64 {
        len.saturating_add(Tree::encoded_len(len)).saturating_add(OVERHEAD)
    }

    fn spool(&self) -> io::Result<Box<dyn Spool>> {
        Ok(Box::new(MemorySpool { objects: Arc::clone(&self.objects), bytes: Vec::new() }))
    }

    fn find(&self, id: ObjectId) -> io::Result<Option<u64>> {
        Ok(lock(&self.objects).get(&id).map(|(_, tree)| tree.len()))
    }

    fn open(&self, id: ObjectId, _: u64) -> Result<Option<(Source, Arc<Tree>)>, ReadError> {
        let objects = lock(&self.objects);
        Ok(objects.get(&id).map(|(bytes, tree)| (Source::Memory(bytes.clone()), Arc::clone(tree))))
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
    bytes: Vec<u8>,
}

impl Spool for MemorySpool {
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.bytes.try_reserve(data.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn publish(self: Box<Self>, tree: &Arc<Tree>) -> io::Result<()> {
        // Without the room that a growing buffer has to spare, which the cap does not count.
        let bytes = Bytes::from(self.bytes.into_boxed_slice());
        lock(&self.objects).insert(tree.root(), (bytes, Arc::clone(tree)));
        Ok(())
    }
}
