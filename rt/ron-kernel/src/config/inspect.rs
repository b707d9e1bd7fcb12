//! Walks a layer against the schema and finds everything that is wrong with it in one pass.

use std::collections::{BTreeMap, BTreeSet};

use super::expect::{self, Fault};
use super::form::Form;
use super::include::INCLUDE;
use super::path;
use super::report::{Problem, Severity};
use super::shape::{MAX_DEPTH, Shape};
use super::suggest::{listed, nearest};
use super::tree::{Body, Node, Origin};

/// How many allowed names a message lists.
const MAX_LISTED: usize = 24;

/// One walk; `problems` grows as it goes.
pub(crate) struct Inspector<'s> {
    root: Shape<'s>,
    env_prefix: &'s str,
    /// The paths of all keys that have a fixed name: what a variable or flag may set.
    known: Vec<String>,
    /// The tables with a key nobody knows: it may be the one that seems to be missing.
    puzzling: BTreeSet<String>,
    pub(crate) problems: Vec<Problem>,
}

impl<'s> Inspector<'s> {
    /// An inspector for files of this shape.
    pub(crate) fn new(root: Shape<'s>, env_prefix: &'s str) -> Self {
        let mut known = Vec::new();
        root.visit("", MAX_DEPTH, &mut |path, _, _| {
            if !path.contains(['[', '<', '"']) && path != INCLUDE {
                known.push(path.to_owned());
            }
        });
        Self { root, env_prefix, known, puzzling: BTreeSet::new(), problems: Vec::new() }
    }

    /// Finds unknown keys and values of the wrong kind in one layer.
    pub(crate) fn layer(&mut self, layer: &Node) {
        let root = self.root.clone();
        self.node(layer, &root, "");
    }

    /// Finds the keys that must be given and are not. Only the merged tree can tell.
    pub(crate) fn missing(&mut self, merged: &Node) {
        let root = self.root.clone();
        self.missing_below(merged, &root, "");
    }

    fn node(&mut self, node: &Node, shape: &Shape<'s>, at: &str) {
        if let Some(Fault { message, help }) = expect::fault(&node.body, shape, at) {
            let message = format!("`{at}`: {message}");
            self.problems.push(value_problem(node, at, message, help));
            return;
        }
        match &node.body {
            Body::Leaf(_) => {}
            Body::Array(items) => {
                let Some(shape) = shape.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    self.node(item, &shape, &path::element(at, index));
                }
            }
            Body::Table(map) => self.table(map, &shape.narrowed(map), at),
        }
    }

    fn table(&mut self, map: &BTreeMap<String, Node>, shape: &Shape<'s>, at: &str) {
        for (key, below) in map {
            let path = path::child(at, key);
            match shape.child(key) {
                Some(shape) => self.node(below, &shape, &path),
                None if shape.tables().any(Form::is_anything) => {}
                None => self.unknown(below, key, shape, at),
            }
        }
    }

    fn unknown(&mut self, node: &Node, key: &str, shape: &Shape<'s>, at: &str) {
        let path = path::child(at, key);
        let (message, help) = match &node.place.origin {
            Origin::Env(name) => (format!("unknown setting `{path}`"), self.env_help(name, shape, at)),
            Origin::Flag(_) => (format!("unknown setting `{path}`"), self.flag_help(&path, shape, at)),
            _ if at.is_empty() => (format!("unknown table `{key}`"), self.key_help(key, shape, at)),
            _ => (format!("unknown key `{key}`"), self.key_help(key, shape, at)),
        };
        self.puzzling.insert(at.to_owned());
        self.problems.push(Problem {
            severity: Severity::Error,
            path,
            message,
            help: Some(help),
            origin: node.place.origin.clone(),
            span: node.place.key.clone().or_else(|| node.place.value.clone()),
        });
    }

    fn key_help(&self, key: &str, shape: &Shape<'s>, at: &str) -> String {
        let allowed = shape.keys();
        if let Some(meant) = nearest(key, allowed.iter().copied()) {
            return format!("did you mean `{meant}`?");
        }
        let tables =
            self.known.iter().filter(|known| last_key(known) == key).filter_map(|known| path::parent(known));
        match tables.into_iter().find(|table| !table.is_empty() && *table != at) {
            Some(table) => format!("`{key}` belongs in `[{table}]`"),
            None => allowed_here(&allowed),
        }
    }

    fn env_help(&self, name: &str, shape: &Shape<'s>, at: &str) -> String {
        let written = name.strip_prefix(self.env_prefix).unwrap_or(name);
        let names: Vec<String> =
            self.known.iter().map(|path| path.replace('.', "__").to_uppercase()).collect();
        match nearest(written, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{}{meant}`?", self.env_prefix),
            None => nested_allowed(shape, at),
        }
    }

    fn flag_help(&self, path: &str, shape: &Shape<'s>, at: &str) -> String {
        match nearest(path, self.known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => nested_allowed(shape, at),
        }
    }

    fn missing_below(&mut self, node: &Node, shape: &Shape<'s>, at: &str) {
        match &node.body {
            Body::Leaf(_) => {}
            Body::Array(items) => {
                let Some(shape) = shape.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    self.missing_below(item, &shape, &path::element(at, index));
                }
            }
            Body::Table(map) => {
                let shape = shape.narrowed(map);
                self.missing_here(node, map, &shape, at);
                for (key, below) in map {
                    if let Some(shape) = shape.child(key) {
                        self.missing_below(below, &shape, &path::child(at, key));
                    }
                }
            }
        }
    }

    /// Where several forms of a table are left, what is missing depends on which was meant: reading it will tell.
    fn missing_here(&mut self, node: &Node, map: &BTreeMap<String, Node>, shape: &Shape<'s>, at: &str) {
        let mut tables = shape.tables();
        let (Some(form), None) = (tables.next(), tables.next()) else {
            return;
        };
        if self.puzzling.contains(at) {
            return;
        }
        for key in form.required().filter(|key| !map.contains_key(*key)) {
            let wanted =
                shape.child(key).map(|shape| expect::expected(&shape)).filter(|text| !text.is_empty());
            let help = wanted.map(|wanted| format!("`{key}` is {wanted}"));
            let message = format!("missing key `{key}` in `{at}`");
            let mut problem = value_problem(node, &path::child(at, key), message, help);
            problem.span = node.place.value.clone().or(problem.span);
            self.problems.push(problem);
        }
    }
}

/// The last key of a path.
fn last_key(path: &str) -> &str {
    let start = path::parent(path).map_or(0, str::len);
    path[start..].trim_start_matches('.')
}

fn value_problem(node: &Node, at: &str, message: String, help: Option<String>) -> Problem {
    let Node { place, .. } = node;
    Problem {
        severity: Severity::Error,
        path: at.to_owned(),
        message,
        help,
        origin: place.origin.clone(),
        span: place.value.clone(),
    }
}

/// What a variable or a flag may set here: all but the list of included files, which only a file has.
fn nested_allowed(shape: &Shape<'_>, at: &str) -> String {
    let mut keys = shape.keys();
    keys.retain(|key| !at.is_empty() || *key != INCLUDE);
    let allowed = allowed_here(&keys);
    if at.is_empty() { allowed } else { format!("in `{at}`, {allowed}") }
}

fn allowed_here(keys: &[&str]) -> String {
    match keys.len() {
        0 => "no key is allowed here".to_owned(),
        n if n <= MAX_LISTED => format!("allowed here: {}", listed(keys.iter().copied())),
        n => format!(
            "allowed here: {} and {} more",
            listed(keys[..MAX_LISTED].iter().copied()),
            n - MAX_LISTED
        ),
    }
}
