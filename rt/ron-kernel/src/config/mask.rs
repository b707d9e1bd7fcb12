//! Keeps secrets out of shown source lines: finds them in the file and replaces them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use super::secret::HIDDEN;
use super::shape::{MAX_DEPTH, Shape};
use super::suggest::nearest;
use super::tree::{Body, Node};

/// Words that make a key of unknown meaning look like a secret.
const SECRET_WORDS: [&str; 6] = ["secret", "token", "passw", "credential", "private", "apikey"];

/// The names of all settings, to tell secrets where the schema cannot be followed.
pub(crate) struct Names {
    secret: BTreeSet<String>,
    plain: BTreeSet<String>,
}

impl Names {
    /// Gathers the names from the schema. A name that is a secret anywhere counts as one everywhere.
    pub(crate) fn of(root: &Shape<'_>) -> Self {
        let (mut secret, mut plain) = (BTreeSet::new(), BTreeSet::new());
        root.visit("", MAX_DEPTH, &mut |_, key, shape| {
            let within = [shape.items(), shape.entries()];
            let is_secret = shape.is_secret() || within.iter().flatten().any(Shape::is_secret);
            let names = if is_secret { &mut secret } else { &mut plain };
            names.insert(key.to_owned());
        });
        plain.retain(|name| !secret.contains(name));
        Self { secret, plain }
    }

    /// Whether a key is one of the secrets, a slip of one, or a word for such things.
    fn look_secret(&self, key: &str) -> bool {
        let squeezed = key.to_lowercase().replace(['_', '-'], "");
        SECRET_WORDS.iter().any(|word| squeezed.contains(word))
            || nearest(key, self.secret.iter().map(String::as_str)).is_some()
    }
}

/// The parts of a file's text that must not be shown.
#[derive(Default)]
pub(crate) struct Mask {
    /// The hidden ranges, in order and not overlapping.
    hidden: Vec<Range<usize>>,
}

impl Mask {
    /// Finds the secrets of a file that could be parsed.
    pub(crate) fn of_tree(file: &Node, root: &Shape<'_>, names: &Names) -> Self {
        let mut hidden = Vec::new();
        find(file, "", &Known::Place(root.clone()), names, &mut hidden);
        Self::new(hidden)
    }

    /// Finds what may be a secret in a file that could not be parsed: all but headers and settings known as no secret.
    pub(crate) fn of_text(text: &str, names: &Names) -> Self {
        let mut hidden = Vec::new();
        let (mut start, mut secret_table, mut open): (usize, bool, Option<&str>) = (0, false, None);
        for line in text.split_inclusive('\n') {
            let content = line.trim_end();
            let mut shown = content.len() - content.trim_start().len();
            if let Some(close) = open {
                open = Some(close).filter(|close| !content.contains(*close));
            } else if content.trim_start().starts_with('[') {
                let header = content.find(|c| !is_word(c) && !"[]. \t".contains(c)).unwrap_or(content.len());
                secret_table = content[..header].split(|c| !is_word(c)).any(|word| names.look_secret(word));
                shown = header;
            } else {
                shown = shown.max(if secret_table { 0 } else { plain_part(content, names) });
                open = opened(&content[shown..]);
            }
            shown += content[shown..].len() - content[shown..].trim_start().len();
            hidden.extend(Some(start + shown..start + content.len()).filter(|range| !range.is_empty()));
            start += line.len();
        }
        Self::new(hidden)
    }

    /// Finds credentials and queries in URLs, whatever setting they are in, also if the URL is misspelt: that may be the very
    /// mistake that is being reported.
    pub(crate) fn of_urls(text: &str) -> Self {
        let (mut hidden, mut start) = (Vec::new(), 0);
        for word in text.split_inclusive(['"', '\'', ' ', '\t', '\n', '\r']) {
            let url = word.trim_end_matches(['"', '\'', ' ', '\t', '\n', '\r']);
            let found = [credentials(url), query(url)].into_iter().flatten();
            hidden.extend(found.map(|range| start + range.start..start + range.end));
            start += word.len();
        }
        Self::new(hidden)
    }

    /// The mask of a text that begins `base` bytes later.
    pub(crate) fn shifted(mut self, base: usize) -> Self {
        for range in &mut self.hidden {
            *range = base + range.start..base + range.end;
        }
        self
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
            let kept = if range.end <= at || is_end { HIDDEN.len() + newlines } else { 0 };
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

/// The text with what may be secret in its URLs replaced.
pub(crate) fn without_url_secrets(text: &str) -> String {
    Mask::of_urls(text).apply(text)
}

/// What is before the last `@` of a URL, without the scheme. A password may have a `/`, `?` or `#` in it, and the scheme or its
/// slashes may be misspelt. An address of a peer, such as `b3:…@host:9500`, has none.
fn credentials(url: &str) -> Option<Range<usize>> {
    let end = url.rfind('@')?;
    let before = &url[..end];
    let start = match ["://", ":/", "//"].iter().find_map(|sign| Some(before.find(sign)? + sign.len())) {
        Some(start) => start,
        // Messages put values between backticks.
        None if before.contains(':') && !is_peer(before) => end - before.trim_start_matches('`').len(),
        None => return None,
    };
    Some(start..end).filter(|range| !range.is_empty())
}

/// Whether this is the public name of a node.
fn is_peer(name: &str) -> bool {
    let hash = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).strip_prefix("b3:");
    hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The query of a URL, if it has values.
fn query(url: &str) -> Option<Range<usize>> {
    let from = url.rfind('@').unwrap_or(0);
    let start = from + url[from..].find('?')? + 1;
    url[start..].contains('=').then_some(start..url.len())
}

/// What is known about the place of a node.
enum Known<'s> {
    /// The schema has it.
    Place(Shape<'s>),
    /// The schema does not have it, but it bears or nearly bears the name of a setting that is no secret.
    Plain,
    /// Nothing: any text may be a secret.
    Nothing,
}

impl Known<'_> {
    fn is_secret(&self, node: &Node, key: &str, names: &Names) -> bool {
        let leaf = matches!(node.body, Body::Leaf(_));
        let text = matches!(node.body, Body::Leaf(Value::String(_)));
        match self {
            // A plain value where a table with a secret belongs may be that secret.
            Self::Place(shape) => shape.is_secret() || (leaf && shape.holds_secret()),
            Self::Plain => names.look_secret(key),
            Self::Nothing => text || names.look_secret(key),
        }
    }

    fn element(&self) -> Self {
        match self {
            Self::Place(shape) => match shape.items() {
                Some(items) => Self::Place(items),
                None if shape.holds_secret() => Self::Nothing,
                None => Self::Plain,
            },
            Self::Plain => Self::Plain,
            Self::Nothing => Self::Nothing,
        }
    }

    fn child(&self, table: &BTreeMap<String, Node>, key: &str, names: &Names) -> Self {
        let mut meant = key;
        if let Self::Place(shape) = self {
            let shape = shape.narrowed(table);
            if let Some(below) = shape.child(key) {
                return Self::Place(below);
            }
            meant = nearest(key, shape.keys()).unwrap_or(key);
        }
        if names.plain.contains(meant) { Self::Plain } else { Self::Nothing }
    }
}

fn find(node: &Node, key: &str, known: &Known<'_>, names: &Names, hidden: &mut Vec<Range<usize>>) {
    match &node.body {
        _ if known.is_secret(node, key, names) => node.visit("", &mut |_, below| {
            if matches!(below.body, Body::Leaf(_)) {
                hidden.extend(below.place.value.clone());
            }
        }),
        Body::Leaf(_) => {}
        Body::Array(items) => {
            let element = known.element();
            items.iter().for_each(|item| find(item, key, &element, names, hidden));
        }
        Body::Table(map) => {
            for (key, node) in map {
                find(node, key, &known.child(map, key, names), names, hidden);
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// How much of a line belongs to settings that are no secrets, and to the name of the first that is one.
fn plain_part(line: &str, names: &Names) -> usize {
    let mut shown = 0;
    for (at, _) in line.match_indices('=') {
        let key = line[..at].trim_end().rsplit(|c| !is_word(c)).next().unwrap_or_default();
        if !names.plain.contains(key) {
            return if shown > 0 || names.look_secret(key) { at + 1 } else { 0 };
        }
        shown = line.len();
    }
    shown
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
