//! Takes stock of a folder at the start, and removes what interrupted writers left.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{
    collections::HashSet,
    fs::{self, DirEntry, Metadata},
    io,
    path::Path,
    time::SystemTime,
};

use b3tree::GROUP_LEN;
use types::ObjectId;

use super::{
    blocks, found,
    layout::{Layout, TREE_SUFFIX},
};
use crate::backend::{Found, Inventory};

/// What is in a folder, in the order of use. `clean` says to remove what is not whole, which only a process may that is
/// alone here.
pub(super) fn take(layout: &Layout, clean: bool) -> io::Result<Inventory> {
    let mut swept = if clean { empty(&layout.tmp())? } else { 0 };
    let mut objects = Vec::new();
    for folder in layout.object_folders() {
        let Some(stock) = Stock::of(&folder)? else { continue };
        if clean {
            swept += stock.sweep(layout)?;
        }
        objects.extend(stock.objects.into_iter().filter(|object| !clean || object.is_whole(&stock.trees)));
    }
    let mut aside = Stock::of(&layout.quarantine())?.unwrap_or_default().objects;
    in_order_of_use(&mut objects);
    in_order_of_use(&mut aside);
    Ok(Inventory {
        objects: objects.into_iter().map(|Item { id, len, .. }| Found { id, len }).collect(),
        aside: aside.into_iter().map(|item| (item.id, blocks(item.len))).collect(),
        swept,
    })
}

/// What a folder has that is ours. What has other names is left alone.
#[derive(Debug, Default)]
struct Stock {
    objects: Vec<Item>,
    trees: HashSet<ObjectId>,
}

#[derive(Debug)]
struct Item {
    id: ObjectId,
    len: u64,
    used: SystemTime,
}

impl Item {
    fn is_whole(&self, trees: &HashSet<ObjectId>) -> bool {
        self.len <= GROUP_LEN as u64 || trees.contains(&self.id)
    }
}

impl Stock {
    fn of(folder: &Path) -> io::Result<Option<Self>> {
        let Some(entries) = found(fs::read_dir(folder))? else { return Ok(None) };
        let mut stock = Self::default();
        for entry in entries {
            stock.add(&entry?)?;
        }
        Ok(Some(stock))
    }

    fn add(&mut self, entry: &DirEntry) -> io::Result<()> {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if let Some(Ok(id)) = name.strip_suffix(TREE_SUFFIX).map(ObjectId::from_hex) {
            self.trees.insert(id);
        } else if let Ok(id) = ObjectId::from_hex(name)
            // Another process may have removed it since.
            && let Some(metadata) = found(entry.metadata())?.filter(Metadata::is_file)
        {
            self.objects.push(Item { id, len: metadata.len(), used: metadata.modified()? });
        }
        Ok(())
    }

    /// Removes trees without objects and objects without their trees. Neither was ever told to be stored.
    fn sweep(&self, layout: &Layout) -> io::Result<u64> {
        let whole: HashSet<ObjectId> = self.objects.iter().map(|object| object.id).collect();
        let trees = self.trees.iter().filter(|id| !whole.contains(id)).map(|id| layout.tree(*id));
        let bare = self.objects.iter().filter(|object| !object.is_whole(&self.trees));
        let mut swept = 0;
        for path in trees.chain(bare.map(|object| layout.object(object.id))) {
            fs::remove_file(path)?;
            swept += 1;
        }
        Ok(swept)
    }
}

fn in_order_of_use(items: &mut [Item]) {
    items.sort_unstable_by_key(|item| (item.used, item.id));
}

/// Removes the files of a folder.
fn empty(folder: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
