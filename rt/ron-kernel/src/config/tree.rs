//! The tree of one configuration layer: every value with the place it came from, and how layers are merged.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::path;
use super::shape::Shape;

/// Where a resolved value came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The value is the default.
    Default,
    /// A configuration file, at this line (the first is 1).
    File {
        /// The name of the file.
        file: Arc<str>,
        /// The line of the value, or of the key for a table.
        line: usize,
    },
    /// An environment variable, by its name.
    Env(String),
    /// A command line flag, by the path it sets.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line } => write!(f, "{file}, line {line}"),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value's origin and, in a file, the bytes of its key and of its value.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) origin: Origin,
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Option<Range<usize>>,
}

impl Place {
    /// A place outside any file.
    pub(crate) fn outside(origin: Origin) -> Self {
        Self { origin, key: None, value: None }
    }
}

/// One value of a layer.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) body: Body,
    pub(crate) place: Place,
    /// The text in the file, if references in it were filled in.
    pub(crate) written: Option<String>,
}

/// What a node holds. JSON values carry the leaves because they hold every number that TOML and the tables hold.
#[derive(Clone)]
pub(crate) enum Body {
    Leaf(Value),
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// An empty table, where every layer starts.
    pub(crate) fn empty() -> Self {
        Self { body: Body::Table(BTreeMap::new()), place: Place::outside(Origin::Default), written: None }
    }

    /// The tree of a JSON value, all of it from one place. Absent values (`null`) stay absent.
    pub(crate) fn from_json(value: &Value, place: &Place) -> Self {
        let body = match value {
            Value::Object(map) => {
                let given = map.iter().filter(|(_, v)| !v.is_null());
                Body::Table(given.map(|(k, v)| (k.clone(), Self::from_json(v, place))).collect())
            }
            Value::Array(items) => Body::Array(items.iter().map(|v| Self::from_json(v, place)).collect()),
            leaf => Body::Leaf(leaf.clone()),
        };
        Self { body, place: place.clone(), written: None }
    }

    /// The value of the tree without its places.
    pub(crate) fn to_json(&self) -> Value {
        match &self.body {
            Body::Leaf(value) => value.clone(),
            Body::Array(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Body::Table(map) => {
                Value::Object(map.iter().map(|(k, v)| (k.clone(), v.to_json())).collect::<Map<_, _>>())
            }
        }
    }

    /// The child of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.body {
            Body::Table(map) => map.get(key),
            _ => None,
        }
    }

    /// Takes a child off a table.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Self> {
        match &mut self.body {
            Body::Table(map) => map.remove(key),
            _ => None,
        }
    }

    /// Calls `visit` with every node below and including this one, and its path.
    pub(crate) fn visit<'n>(&'n self, at: &str, visit: &mut dyn FnMut(&str, &'n Self)) {
        visit(at, self);
        match &self.body {
            Body::Leaf(_) => {}
            Body::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.visit(&path::element(at, index), visit);
                }
            }
            Body::Table(map) => {
                for (key, node) in map {
                    node.visit(&path::child(at, key), visit);
                }
            }
        }
    }

    /// Puts a value at a path, making the tables on the way.
    ///
    /// A leaf on the way stays: its own type error says more than this value could.
    pub(crate) fn insert(&mut self, keys: &[String], node: Self) {
        let Body::Table(map) = &mut self.body else { return };
        match keys {
            [] => {}
            [last] => {
                map.insert(last.clone(), node);
            }
            [first, rest @ ..] => {
                let place = node.place.clone();
                let below = map.entry(first.clone()).or_insert_with(|| Self { place, ..Self::empty() });
                below.insert(rest, node);
            }
        }
    }

    /// Lays `over` on top of this tree: tables merge key by key, everything else is replaced.
    pub(crate) fn merge(&mut self, over: Self, shape: &Shape<'_>) {
        let (Body::Table(base), Body::Table(top)) = (&mut self.body, &over.body) else {
            *self = over;
            return;
        };
        // A table that chooses another variant of an enum starts afresh: the old variant's keys mean nothing to it.
        if !shape.fits(base, top) {
            *self = over;
            return;
        }
        if self.place.origin == Origin::Default {
            self.place = over.place;
        }
        let Body::Table(top) = over.body else { return };
        for (key, node) in top {
            match (base.get_mut(&key), shape.child(&key)) {
                (Some(below), Some(shape)) => below.merge(node, &shape),
                _ => {
                    base.insert(key, node);
                }
            }
        }
    }
}

/// A value TOML can write and a table cannot hold, with the bytes it was found at.
pub(crate) struct Unfit {
    pub(crate) message: &'static str,
    pub(crate) span: Range<usize>,
}

/// The tree of a parsed file. Values that cannot be held are listed and left out.
pub(crate) fn from_toml(table: &DeTable<'_>, lines: &Lines, unfit: &mut Vec<Unfit>) -> Node {
    let place = Place::outside(Origin::Default);
    Node { body: Body::Table(table_nodes(table, lines, unfit)), place, written: None }
}

fn table_nodes(table: &DeTable<'_>, lines: &Lines, unfit: &mut Vec<Unfit>) -> BTreeMap<String, Node> {
    let mut nodes = BTreeMap::new();
    for (key, value) in table {
        if let Some(mut node) = value_node(value, lines, unfit) {
            node.place.key = Some(lines.shifted(&key.span()));
            nodes.insert(key.get_ref().to_string(), node);
        }
    }
    nodes
}

/// The tree of one parsed value; nothing if it cannot be held.
pub(crate) fn value_node(
    value: &Spanned<DeValue<'_>>,
    lines: &Lines,
    unfit: &mut Vec<Unfit>,
) -> Option<Node> {
    let span = value.span();
    let body = match value.get_ref() {
        DeValue::Table(table) => Ok(Body::Table(table_nodes(table, lines, unfit))),
        DeValue::Array(items) => {
            Ok(Body::Array(items.iter().filter_map(|v| value_node(v, lines, unfit)).collect()))
        }
        DeValue::String(text) => Ok(Body::Leaf(Value::String(text.to_string()))),
        DeValue::Boolean(yes) => Ok(Body::Leaf(Value::Bool(*yes))),
        DeValue::Integer(digits) => integer(digits.as_str(), digits.radix()),
        DeValue::Float(digits) => float(digits.as_str()),
        DeValue::Datetime(_) => Err("no setting takes a bare date: put it in quotes"),
    };
    match body {
        Ok(body) => {
            let place = Place { origin: lines.origin(&span), key: None, value: Some(lines.shifted(&span)) };
            Some(Node { body, place, written: None })
        }
        Err(message) => {
            unfit.push(Unfit { message, span });
            None
        }
    }
}

fn integer(digits: &str, radix: u32) -> Result<Body, &'static str> {
    let signed = i64::from_str_radix(digits, radix).map(Number::from);
    let number = signed.or_else(|_| u64::from_str_radix(digits, radix).map(Number::from));
    number.map(|n| Body::Leaf(Value::Number(n))).map_err(|_| "this integer does not fit in 64 bits")
}

fn float(digits: &str) -> Result<Body, &'static str> {
    let number = digits.parse().ok().and_then(Number::from_f64);
    number.map(|n| Body::Leaf(Value::Number(n))).ok_or("this number is not finite")
}

/// Finds the line of a byte without reading the text again for each.
pub(crate) struct Lines {
    /// Where each line but the first begins.
    starts: Vec<usize>,
    /// The name of the file.
    file: Arc<str>,
    /// The bytes of the files before this one: the places of several files are numbered on.
    base: usize,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self::of_file(text, "", 0)
    }

    /// The lines of a file, `base` bytes after the start of the first file.
    pub(crate) fn of_file(text: &str, file: &str, base: usize) -> Self {
        Self { starts: text.match_indices('\n').map(|(at, _)| at + 1).collect(), file: file.into(), base }
    }

    /// The place of a span of this file among all files.
    pub(crate) fn shifted(&self, span: &Range<usize>) -> Range<usize> {
        self.base + span.start..self.base + span.end
    }

    /// The file and line in which a span begins.
    pub(crate) fn origin(&self, span: &Range<usize>) -> Origin {
        Origin::File { file: Arc::clone(&self.file), line: self.at(span.start) }
    }

    /// The line (the first is 1) that holds a byte.
    pub(crate) fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) + 1
    }
}
