//! Keeps secrets out of shown source lines: finds them in the file and replaces them.

use std::ops::Range;

use super::secret::HIDDEN;
use super::shape::{MAX_DEPTH, Shape};
use super::suggest::nearest;
use super::tree::{Body, Node};

/// Words that make a key of unknown meaning look like a secret.
const SECRET_WORDS: [&str; 6] = ["secret", "token", "passw", "credential", "private", "apikey"];

/// What stands between a key and its value; it is no secret and tells what kind of mistake was made.
const BEFORE_VALUE: [char; 5] = [' ', '\t', '=', ':', '"'];

/// The names of the settings that are secret, to recognise them where the schema cannot be followed.
pub(crate) struct SecretNames(Vec<String>);

impl SecretNames {
    /// Gathers the names from the schema.
    pub(crate) fn of(root: &Shape<'_>) -> Self {
        let mut names = Vec::new();
        root.visit("", MAX_DEPTH, &mut |_, key, shape| {
            let within = [shape.items(), shape.entries()];
            if shape.is_secret() || within.iter().flatten().any(Shape::is_secret) {
                names.push(key.to_owned());
            }
        });
        Self(names)
    }

    /// Whether a key is one of the names, a slip of one, or a word for such things.
    fn look_like(&self, key: &str) -> bool {
        let plain = key.to_lowercase().replace(['_', '-'], "");
        SECRET_WORDS.iter().any(|word| plain.contains(word))
            || nearest(key, self.0.iter().map(String::as_str)).is_some()
    }
}

/// The parts of a file's text that must not be shown.
#[derive(Default)]
pub(crate) struct Mask {
    /// In order, not overlapping.
    hidden: Vec<Range<usize>>,
}

impl Mask {
    /// Finds the secrets of a file that could be parsed.
    pub(crate) fn of_tree(file: &Node, root: &Shape<'_>, names: &SecretNames) -> Self {
        let mut hidden = Vec::new();
        find(file, "", Some(root), names, &mut hidden);
        Self::new(hidden)
    }

    /// Finds what may be a secret in a file that could not be parsed. Rather hides too much.
    pub(crate) fn of_text(text: &str, names: &SecretNames) -> Self {
        let mut hidden = Vec::new();
        let (mut start, mut secret_table, mut open): (usize, bool, Option<&str>) = (0, false, None);
        for line in text.split_inclusive('\n') {
            let end = start + line.trim_end_matches(['\n', '\r']).len();
            let value = secret_part(line, names);
            if let Some(close) = open {
                hidden.push(start..end);
                open = Some(close).filter(|close| !line.contains(*close));
            } else if line.trim_start().starts_with('[') {
                secret_table = value.is_some();
            } else if let Some(value) = value.or_else(|| secret_table.then_some(line)) {
                let shown = line.len() - value.trim_start_matches(BEFORE_VALUE).len();
                hidden.extend(Some(start + shown..end).filter(|range| !range.is_empty()));
                open = opened(value);
            }
            start += line.len();
        }
        Self::new(hidden)
    }

    /// Both masks at once.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.hidden.extend(other.hidden);
        Self::new(self.hidden)
    }

    /// The text with its secrets replaced. Lines keep their numbers, lengths are not given away.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut from = 0;
        for range in &self.hidden {
            shown.push_str(&text[from..range.start]);
            shown.push_str(HIDDEN);
            shown.extend(text[range.clone()].chars().filter(|c| *c == '\n'));
            from = range.end;
        }
        shown.push_str(&text[from..]);
        shown
    }

    /// Where a span of the text lies in the text as shown.
    pub(crate) fn moved(&self, span: &Range<usize>, text: &str) -> Range<usize> {
        let start = self.moved_to(span.start, text, false);
        start..self.moved_to(span.end, text, true).max(start)
    }

    fn moved_to(&self, at: usize, text: &str, is_end: bool) -> usize {
        let mut shown = at;
        for range in self.hidden.iter().filter(|range| range.start < at) {
            let newlines = text[range.clone()].bytes().filter(|b| *b == b'\n').count();
            let passed = range.end.min(at) - range.start;
            // A span that begins inside a secret begins at its replacement; one that ends inside ends after it.
            let kept = if range.end <= at || is_end {
                HIDDEN.len() + newlines
            } else {
                0
            };
            shown = shown - passed + kept;
        }
        shown
    }

    fn new(mut hidden: Vec<Range<usize>>) -> Self {
        hidden.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for range in hidden {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Self { hidden: merged }
    }
}

fn find(
    node: &Node,
    key: &str,
    shape: Option<&Shape<'_>>,
    names: &SecretNames,
    hidden: &mut Vec<Range<usize>>,
) {
    let leaf = matches!(node.body, Body::Leaf(_));
    let secret = match shape {
        // A plain value where a table with a secret belongs may be that secret.
        Some(shape) => shape.is_secret() || (leaf && shape.holds_secret()),
        None => names.look_like(key),
    };
    if secret {
        node.visit("", &mut |_, below| {
            if matches!(below.body, Body::Leaf(_)) {
                hidden.extend(below.place.value.clone());
            }
        });
        return;
    }
    match &node.body {
        Body::Leaf(_) => {}
        Body::Array(items) => {
            let below = shape.and_then(Shape::items);
            items
                .iter()
                .for_each(|item| find(item, key, below.as_ref(), names, hidden));
        }
        Body::Table(map) => {
            let shape = shape.map(|shape| shape.narrowed(map));
            for (key, node) in map {
                let below = shape.as_ref().and_then(|shape| shape.child(key));
                find(node, key, below.as_ref(), names, hidden);
            }
        }
    }
}

/// The rest of a line after a word for a secret.
fn secret_part<'l>(line: &'l str, names: &SecretNames) -> Option<&'l str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut rest = line;
    while let Some(start) = rest.find(is_word) {
        let word = &rest[start..];
        let (word, after) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
        if names.look_like(word) {
            return Some(after);
        }
        rest = after;
    }
    None
}

/// What closes a value that goes on after its first line.
fn opened(value: &str) -> Option<&'static str> {
    let multi_line = [("\"\"\"", "\"\"\""), ("'''", "'''"), ("[", "]"), ("{", "}")];
    let goes_on = |(open, close): &&(&str, &str)| match value.find(open) {
        Some(at) => !value[at + open.len()..].contains(close),
        None => false,
    };
    multi_line.iter().find(goes_on).map(|(_, close)| *close)
}
