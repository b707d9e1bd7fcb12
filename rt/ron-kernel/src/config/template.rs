//! The file that `config init` writes: every key with its documentation and its default, commented out.
//!
//! A line that starts with `# ` is a setting: without the mark it says what holds anyway. A line that starts with `##`
//! is prose and stays a comment when one mark is taken away.

use super::path;
use super::reference::{default_text, type_text};
use super::shape::{MAX_DEPTH, Shape};
use super::table::Schema;
use super::text;
use super::tree::{Body, Node};

impl Schema {
    /// A configuration file that equals the defaults, as it is and with every setting uncommented.
    #[must_use]
    pub fn template(&self) -> String {
        let root = self.shape();
        let mut page = Page::default();
        for table in self.tables() {
            if let Some(shape) = root.child(table.name) {
                page.table(table.name, &shape, &table.defaults, MAX_DEPTH);
            }
        }
        let mut text = page.lines.join("\n");
        text.push('\n');
        text
    }
}

#[derive(Default)]
struct Page {
    lines: Vec<String>,
}

impl Page {
    /// One table: its plain keys first, because TOML counts every key after a header to that header.
    fn table(&mut self, at: &str, shape: &Shape<'_>, defaults: &Node, depth: usize) {
        if depth == 0 {
            return;
        }
        self.prose(shape.about);
        self.lines.push(format!("[{at}]"));
        let mut below = Vec::new();
        for key in shape.keys() {
            let Some(shape) = shape.child(key) else { continue };
            let node = defaults.get(key);
            if has_section(&shape, node) {
                below.push((path::child(at, key), shape, node));
            } else {
                self.key(key, &shape, node);
            }
        }
        self.lines.push(String::new());
        for (at, shape, node) in below {
            match node {
                Some(node) if is_struct(&shape, node) => self.table(&at, &shape, node, depth - 1),
                _ => self.section_in_prose(&at, &shape),
            }
        }
    }

    fn key(&mut self, key: &str, shape: &Shape<'_>, node: Option<&Node>) {
        self.prose(shape.about);
        let written = path::written_key(key);
        match node {
            Some(node) => self.lines.push(format!("# {written} = {}", text::inline(&node.to_json()))),
            None => self.lines.push(format!("## {written}: {}, unset by default", type_text(shape))),
        }
    }

    /// Tables that do not exist by default: how each would be headed, and its keys.
    fn section_in_prose(&mut self, at: &str, shape: &Shape<'_>) {
        self.prose(shape.about);
        let (header, inner) = match (shape.items(), shape.entries()) {
            (Some(items), _) => (format!("[[{at}]]"), items),
            (None, Some(entries)) => (format!("[{at}.<name>]"), entries),
            (None, None) => (format!("[{at}]"), shape.clone()),
        };
        self.lines.push(format!("##   {header}"));
        for key in inner.keys() {
            let Some(shape) = inner.child(key) else { continue };
            let default =
                default_text(&Node::empty(), "[]", &shape).map(|text| format!(", {text} by default"));
            let note = default.unwrap_or_else(|| if shape.required { ", required" } else { "" }.to_owned());
            self.lines.push(format!("##   {}: {}{note}", path::written_key(key), type_text(&shape)));
        }
        self.lines.push(String::new());
    }

    fn prose(&mut self, about: Option<&str>) {
        for line in about.unwrap_or_default().lines() {
            self.lines.push(format!("## {line}").trim_end().to_owned());
        }
    }
}

/// Whether a key is shown under a header of its own.
fn has_section(shape: &Shape<'_>, node: Option<&Node>) -> bool {
    let of_tables = |below: Option<Shape<'_>>| below.is_some_and(|below| !below.keys().is_empty());
    match node.map(|node| &node.body) {
        Some(Body::Leaf(_)) => false,
        Some(Body::Array(items)) => items.is_empty() && of_tables(shape.items()),
        Some(Body::Table(map)) if map.is_empty() => of_tables(shape.entries()) || !shape.keys().is_empty(),
        Some(Body::Table(_)) => node.is_some_and(|node| is_struct(shape, node)),
        None => !shape.keys().is_empty() || of_tables(shape.items()) || of_tables(shape.entries()),
    }
}

/// Whether a default is a table with fixed keys, which its own section can show one by one.
fn is_struct(shape: &Shape<'_>, node: &Node) -> bool {
    let mut tables = shape.tables();
    matches!(node.body, Body::Table(_))
        && !shape.keys().is_empty()
        && tables.next().is_some()
        && tables.next().is_none()
}
