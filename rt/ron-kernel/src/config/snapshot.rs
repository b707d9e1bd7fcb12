//! One resolved configuration: immutable, with every value's origin, comparable with the one before.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::memo::Memo;
use super::path;
use super::path_setting;
use super::report::Report;
use super::secret::HIDDEN;
use super::table::Table;
use super::text;
use super::tree::{Body, Node, Origin, Place};

/// A resolved configuration. Cloning is cheap.
#[derive(Clone)]
pub struct Snapshot {
    generation: u64,
    contents: Arc<Contents>,
}

/// Everything but the number, so that numbering a snapshot copies nothing.
pub(crate) struct Contents {
    pub(crate) tables: BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) places: Places,
    /// The full paths whose change needs a restart.
    pub(crate) restart: Vec<String>,
    pub(crate) warnings: Report,
    /// The files that the configuration refers to.
    pub(crate) files: Vec<PathBuf>,
    /// The folders in which included files are looked for.
    pub(crate) folders: Vec<PathBuf>,
}

/// One setting with its resolved value and its origin.
pub(crate) struct Entry {
    path: String,
    /// The value as it may be shown; secrets are hidden.
    shown: String,
    origin: Origin,
    /// What is compared where the shown text hides it.
    secret: Option<Value>,
    /// The texts in it that name files, with what precedes the path.
    paths: Vec<String>,
}

/// A path whose value differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The dotted path of the leaf.
    pub path: String,
    /// Whether it takes effect only after a restart.
    pub restart: bool,
}

impl Snapshot {
    pub(crate) fn new(contents: Contents) -> Self {
        Self { generation: 0, contents: Arc::new(contents) }
    }

    /// The same configuration under another number.
    pub(crate) fn numbered(&self, generation: u64) -> Self {
        Self { generation, contents: Arc::clone(&self.contents) }
    }

    /// How many configurations the store held up to and including this one; 0 outside a store.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A table.
    ///
    /// # Panics
    /// If the table is not part of the schema this configuration was loaded with.
    #[must_use]
    pub fn get<T: Table>(&self) -> Arc<T> {
        let table = self.contents.tables.get(T::NAME).cloned().and_then(|table| table.downcast().ok());
        table.unwrap_or_else(|| panic!("[{}] is not part of this schema", T::NAME))
    }

    /// Where the value at a path came from.
    #[must_use]
    pub fn origin(&self, path: &str) -> Origin {
        self.contents.places.origin(path)
    }

    /// Every resolved leaf as path, value in TOML and origin, in the order of the schema. Secrets are hidden.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        self.contents.entries.iter().map(|entry| (entry.path.as_str(), entry.shown.as_str(), &entry.origin))
    }

    /// What the operator should know about this configuration.
    #[must_use]
    pub fn warnings(&self) -> &Report {
        &self.contents.warnings
    }

    /// Every text that names a file or a folder, as its setting and the value with references filled in, such as
    /// `unix:/run/app.sock`. A value that is a secret is left out.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.contents.entries.iter();
        entries.flat_map(|entry| entry.paths.iter().map(|text| (entry.path.as_str(), text.as_str())))
    }

    /// The files whose content the configuration refers to (`${file:…}`).
    #[must_use]
    pub fn referenced_files(&self) -> &[PathBuf] {
        &self.contents.files
    }

    /// The folders in which included files are looked for.
    #[must_use]
    pub fn included_folders(&self) -> &[PathBuf] {
        &self.contents.folders
    }

    /// The leaves that are not as they were in `old`, by path.
    #[must_use]
    pub fn diff(&self, old: &Self) -> Vec<Change> {
        let (was, is) = (old.values(), self.values());
        let all: BTreeSet<&str> = was.keys().chain(is.keys()).copied().collect();
        let changed: Vec<&str> = all.into_iter().filter(|path| was.get(path) != is.get(path)).collect();
        // An empty list or map that was filled (or the reverse) is told by what is in it.
        let told: BTreeSet<&str> = changed.iter().flat_map(|path| path::levels(path).skip(1)).collect();
        let leaves = changed.iter().filter(|path| !told.contains(*path));
        leaves.map(|path| Change { path: (*path).to_owned(), restart: self.needs_restart(path) }).collect()
    }

    /// Whether a change of the setting at a path takes effect only after a restart.
    #[must_use]
    pub fn needs_restart(&self, path: &str) -> bool {
        self.contents.restart.iter().any(|prefix| path::is_under(path, prefix))
    }

    fn values(&self) -> BTreeMap<&str, (&str, Option<&Value>)> {
        let entries = self.contents.entries.iter();
        entries.map(|entry| (entry.path.as_str(), (entry.shown.as_str(), entry.secret.as_ref()))).collect()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<_> = self.contents.tables.keys().collect();
        f.debug_struct("Snapshot")
            .field("generation", &self.generation)
            .field("tables", &tables)
            .finish_non_exhaustive()
    }
}

/// The place of every node of the merged tree.
pub(crate) struct Places {
    known: BTreeMap<String, Known>,
}

struct Known {
    place: Place,
    leaf: bool,
    /// The value as it was given, references filled in; read only to compare secrets.
    value: Value,
    /// The text in the file, if references in it were filled in.
    written: Option<String>,
}

impl Places {
    pub(crate) fn of(merged: &Node) -> Self {
        let mut known = BTreeMap::new();
        merged.visit("", &mut |path, node| {
            let value = if matches!(node.body, Body::Table(_)) { Value::Null } else { node.to_json() };
            let leaf = matches!(node.body, Body::Leaf(_));
            let (place, written) = (node.place.clone(), node.written.clone());
            known.insert(path.to_owned(), Known { place, leaf, value, written });
        });
        Self { known }
    }

    /// The place to point at for a path: its own, else that of the nearest table above that has one.
    pub(crate) fn nearest(&self, path: &str) -> Place {
        let mut levels = path::levels(path);
        let found = levels
            .find_map(|path| self.known.get(path).filter(|known| known.place.origin != Origin::Default));
        found.map_or_else(|| Place::outside(Origin::Default), |known| known.place.clone())
    }

    /// Where a resolved value came from. A value made out of a leaf (a string that became a table) came with the leaf.
    fn origin(&self, path: &str) -> Origin {
        let mut levels = path::levels(path);
        let found =
            levels.find_map(|level| self.known.get(level).map(|known| (level == path || known.leaf, known)));
        found.filter(|(own, _)| *own).map_or(Origin::Default, |(_, known)| known.place.origin.clone())
    }

    /// The text in the file of a value that has references, also if the value was made out of that text.
    fn written(&self, path: &str) -> Option<&str> {
        path::levels(path).find_map(|level| self.known.get(level))?.written.as_deref()
    }

    fn value(&self, path: &str) -> Value {
        self.known.get(path).map_or(Value::Null, |known| known.value.clone())
    }
}

/// The leaves of a resolved table.
pub(crate) fn leaves(
    value: &Value,
    shape: Option<&Memo<'_>>,
    at: &str,
    places: &Places,
    found: &mut Vec<Entry>,
) {
    match value {
        Value::Null => {}
        Value::Object(map) if !map.is_empty() => {
            let known = shape.map_or(&[][..], Memo::keys);
            let keys = known.iter().copied().filter(|key| map.contains_key(*key));
            let others: BTreeSet<&str> =
                map.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
            for key in keys.chain(others) {
                let below = shape.and_then(|shape| shape.child(key));
                leaves(&map[key], below.as_deref(), &path::child(at, key), places, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let below = shape.and_then(Memo::items);
            for (index, item) in items.iter().enumerate() {
                leaves(item, below.as_deref(), &path::element(at, index), places, found);
            }
        }
        leaf => found.push(entry(leaf, shape, at, places)),
    }
}

fn entry(leaf: &Value, shape: Option<&Memo<'_>>, at: &str, places: &Places) -> Entry {
    let empty = leaf.as_array().is_some_and(Vec::is_empty) || leaf.is_object();
    let hide = !empty && shape.is_some_and(Memo::holds_secret);
    let referring = as_written(leaf, at, places);
    let shown = match &referring {
        _ if hide => text::quoted(HIDDEN),
        Some(written) => text::inline(written),
        None => text::inline(leaf),
    };
    let is_compared = hide || referring.is_some();
    let secret = is_compared.then(|| places.value(at));
    let paths = if hide { Vec::new() } else { paths_in(leaf, shape) };
    Entry { path: at.to_owned(), shown, origin: places.origin(at), secret, paths }
}

/// The texts in a value that name files.
fn paths_in(leaf: &Value, shape: Option<&Memo<'_>>) -> Vec<String> {
    let Some(shape) = shape else { return Vec::new() };
    match leaf {
        Value::String(text) => {
            path_setting::path_in(text, &shape.path_prefixes()).iter().map(|_| text.clone()).collect()
        }
        Value::Array(items) => {
            let below = shape.items();
            items.iter().flat_map(|item| paths_in(item, below.as_deref())).collect()
        }
        _ => Vec::new(),
    }
}

/// The value with references in the place of what they stand for; `None` if it has none.
fn as_written(leaf: &Value, at: &str, places: &Places) -> Option<Value> {
    if let Some(written) = places.written(at) {
        return Some(Value::String(written.to_owned()));
    }
    let items = leaf.as_array()?;
    let written: Vec<Option<&str>> =
        (0..items.len()).map(|index| places.written(&path::element(at, index))).collect();
    let shown = items.iter().zip(&written).map(|(item, written)| match written {
        Some(written) => Value::String((*written).to_owned()),
        None => item.clone(),
    });
    written.iter().any(Option::is_some).then(|| Value::Array(shown.collect()))
}
